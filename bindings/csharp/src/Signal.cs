// SPDX-License-Identifier: Apache-2.0
using System;
using System.Threading;

namespace Quarry {
    /// <summary>
    /// Stops calls that are under way, from another thread or by a timeout. One signal may serve many calls. Calls take a <see cref="CancellationToken"/> too, beside a
    /// signal or in its place.
    /// </summary>
    public sealed unsafe class Signal : QuarryObject {
        /// <summary>A signal that is not aborted and has no timeout.</summary>
        public Signal() : this(QuarryRuntime.Shared) { }

        /// <summary>The same, of a runtime of one's own.</summary>
        /// <exception cref="ObjectDisposedException">The runtime is disposed of.</exception>
        public Signal(QuarryRuntime runtime) : base(Created(runtime)) { }

        Signal(Handle handle) : base(handle) { }

        static Handle Created(QuarryRuntime runtime) {
            if (runtime == null) throw new ArgumentNullException("runtime");
            using (Held held = runtime.Hold()) {
                IntPtr made;
                QuarryException.Check(Native.qr_signal_create(held.Pointer, &made));
                return new Handle(made, Native.qr_signal_destroy);
            }
        }

        /// <summary>A signal for calls that belong together: it is aborted when this one is, and what is left of this one's timeout counts from now on for all of them.</summary>
        /// <exception cref="QuarryException"><see cref="Code.ResourceExhausted"/></exception>
        public Signal Derive() {
            using (Held held = Hold()) {
                IntPtr made;
                QuarryException.Check(Native.qr_signal_derive(held.Pointer, &made));
                return new Signal(new Handle(made, Native.qr_signal_destroy));
            }
        }

        /// <summary>The calls that use it end with <see cref="Code.Cancelled"/> as soon as they can, now and until <see cref="Reset"/>. Any thread may call it, a callback too.</summary>
        public void Abort() {
            using (Held held = Hold()) Native.qr_signal_abort(held.Pointer);
        }

        /// <summary>Takes an abort back.</summary>
        public void Reset() {
            using (Held held = Hold()) Native.qr_signal_reset(held.Pointer);
        }

        /// <summary>Each later call that uses it has this long, counted from its start; null or <see cref="Timeout.InfiniteTimeSpan"/>: no limit.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: it is below zero.</exception>
        public void SetTimeout(TimeSpan? timeout) {
            ulong nanoseconds = Native.QR_NO_TIMEOUT;
            if (timeout.HasValue && timeout.Value != Timeout.InfiniteTimeSpan) {
                long ticks = timeout.Value.Ticks;  // of 100 ns
                if (ticks < 0) throw QuarryException.Refused("timeout: found " + timeout.Value + ", expected none below zero");
                nanoseconds = (ulong)ticks > Native.QR_NO_TIMEOUT / 100 - 1 ? Native.QR_NO_TIMEOUT - 1 : (ulong)ticks * 100;
            }
            using (Held held = Hold()) Native.qr_signal_set_timeout(held.Pointer, nanoseconds);
        }

        /// <summary>For work of one's own between calls: throws where a call that began now would not go on.</summary>
        /// <exception cref="QuarryException"><see cref="Code.Cancelled"/>, <see cref="Code.DeadlineExceeded"/></exception>
        public void ThrowIfStopped() {
            using (Held held = Hold()) QuarryException.Check(Native.qr_signal_check(held.Pointer));
        }
    }
}
