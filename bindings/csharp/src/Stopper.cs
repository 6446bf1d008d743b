// SPDX-License-Identifier: Apache-2.0
using System;
using System.Threading;

namespace Quarry {
    /// <summary>What stops one call: the caller's signal, a token, both or neither.</summary>
    internal sealed unsafe class Stopper : IDisposable {
        readonly CancellationToken stop;
        Held given;
        Handle own;  // which the token aborts, and the caller's signal too
        CancellationTokenRegistration registration;

        /// <summary>For the call; zero: nothing stops it.</summary>
        internal readonly IntPtr Pointer;

        /// <summary>`runtime`: stays as long as this. `signal` may be null.</summary>
        internal Stopper(IntPtr runtime, Signal signal, CancellationToken stop) {
            this.stop = stop;
            stop.ThrowIfCancellationRequested();
            if (signal != null) {
                given = signal.Hold();
                Pointer = given.Pointer;
            }
            if (!stop.CanBeCanceled) return;
            try {
                IntPtr made;
                QuarryException.Check(signal != null ? Native.qr_signal_derive(given.Pointer, &made) : Native.qr_signal_create(runtime, &made));
                own = new Handle(made, Native.qr_signal_destroy);
                Pointer = made;
                registration = stop.Register(Abort, own);
            } catch {
                Dispose();
                throw;
            }
        }

        static void Abort(object signal) {
            Native.qr_signal_abort(((Handle)signal).DangerousGetHandle());  // Dispose ends the registration first
        }

        /// <summary>Throws what the call's status says.</summary>
        internal void Check(IntPtr status) {
            QuarryException error = QuarryException.Take(status);
            if (error == null) return;
            if (error.Code == Code.Cancelled && stop.IsCancellationRequested) throw new OperationCanceledException(error.Message, error, stop);
            throw error;
        }

        public void Dispose() {
            registration.Dispose();
            if (own != null) own.Dispose();
            given.Dispose();
        }
    }
}
