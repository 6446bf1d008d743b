// SPDX-License-Identifier: Apache-2.0
using System;
using System.Threading;
using System.Threading.Tasks;

namespace Quarry {
    /// <summary>A run in a session's queue. It keeps the session and the tensors' data until it has ended.</summary>
    internal sealed unsafe class SubmittedRun {
        // What waits for it goes on elsewhere: the thread that ends it has others to wait for.
        readonly TaskCompletionSource<Tensor[]> task = new TaskCompletionSource<Tensor[]>(TaskCreationOptions.RunContinuationsAsynchronously);
        readonly Arguments all;
        readonly Handle session;
        readonly CancellationToken stop;
        CancellationTokenRegistration registration;
        Held held;
        ulong ticket;

        /// <summary>Takes `all` where it does not throw.</summary>
        internal SubmittedRun(Handle session, Arguments all, CancellationToken stop) {
            this.session = session;
            this.all = all;
            this.stop = stop;
            held = new Held(session, "Session");
        }

        internal Task<Tensor[]> Task {
            get { return task.Task; }
        }

        /// <summary>False: it was refused, and has ended. `signal` is zero or the call's.</summary>
        internal bool Submit(IntPtr signal) {
            var options = new qr_submit_options {struct_size = (uint)sizeof(qr_submit_options), signal = signal};
            ulong number;
            IntPtr status = Native.qr_session_submit(held.Pointer, &options, all.Inputs, all.InputCount, all.Outputs, all.OutputCount, &number);
            if (status != IntPtr.Zero) {
                End(status);
                return false;
            }
            ticket = number;
            // A token that is cancelled already has it aborted here and now.
            if (stop.CanBeCanceled) registration = stop.Register(Abort);
            return true;
        }

        void Abort() {
            try {
                using (var inUse = new Held(session, "Session")) Native.qr_session_abort(inUse.Pointer, ticket);
            } catch (ObjectDisposedException) {
                // The session was closed, which aborts its runs.
            }
        }

        internal void Wait() {
            End(Native.qr_session_wait(held.Pointer, ticket, IntPtr.Zero, null));
        }

        void End(IntPtr status) {
            Tensor[] made = null;
            Exception failed = null;
            try {
                failed = QuarryException.Take(status);
                if (failed == null) made = all.Results();
            } catch (Exception error) {
                failed = error;
            }
            all.Dispose();
            registration.Dispose();
            held.Dispose();  // the last to let go of a session destroys it
            if (failed == null) task.TrySetResult(made);
            else if (failed is QuarryException known && known.Code == Code.Cancelled && stop.IsCancellationRequested) task.TrySetCanceled(stop);
            else task.TrySetException(failed);
        }
    }
}
