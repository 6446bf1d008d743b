// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Quarry {
    /// <summary>A run in a session's queue. It keeps the session and the tensors' data until it has ended.</summary>
    internal sealed unsafe class SubmittedRun {
        // Kept here: the library has its address.
        static readonly qr_submit_options_done DoneDelegate = Done;
        static readonly IntPtr DoneAddress = Marshal.GetFunctionPointerForDelegate(DoneDelegate);

        // What waits for it goes on elsewhere: the thread that ends it is the queue's.
        readonly TaskCompletionSource<Tensor[]> task = new TaskCompletionSource<Tensor[]>(TaskCreationOptions.RunContinuationsAsynchronously);
        readonly Arguments all;
        readonly Handle session;
        readonly CancellationToken stop;
        CancellationTokenRegistration registration;
        Held held;
        GCHandle self;
        ulong ticket;
        bool ended;

        SubmittedRun(Handle session, Arguments all, CancellationToken stop) {
            this.session = session;
            this.all = all;
            this.stop = stop;
            held = new Held(session, "Session");
            self = GCHandle.Alloc(this);
        }

        /// <summary>Takes `all`. `signal` is zero or the call's.</summary>
        internal static Task<Tensor[]> Start(Handle session, Arguments all, IntPtr signal, CancellationToken stop) {
            SubmittedRun run;
            try {
                run = new SubmittedRun(session, all, stop);
            } catch {
                all.Dispose();
                throw;
            }
            return run.Submit(signal);
        }

        Task<Tensor[]> Submit(IntPtr signal) {
            var options = new qr_submit_options {struct_size = (uint)sizeof(qr_submit_options), signal = signal, self = (void*)GCHandle.ToIntPtr(self), done = DoneAddress};
            ulong number;
            IntPtr status = Native.qr_session_submit(held.Pointer, &options, all.Inputs, all.InputCount, all.Outputs, all.OutputCount, &number);
            if (status != IntPtr.Zero) {
                End(status);
                return task.Task;
            }
            if (!stop.CanBeCanceled) return task.Task;
            lock (task) {
                ticket = number;
                // A token that is cancelled already has it aborted here and now.
                if (!ended) registration = stop.Register(Abort);
            }
            return task.Task;
        }

        void Abort() {
            try {
                using (var inUse = new Held(session, "Session")) Native.qr_session_abort(inUse.Pointer, ticket);
            } catch (ObjectDisposedException) {
                // The session was closed, which aborts its runs.
            }
        }

        static void Done(void* self, ulong ticket, IntPtr status) {
            try {
                ((SubmittedRun)GCHandle.FromIntPtr((IntPtr)self).Target).End(status);
            } catch (Exception) {
                // No exception may cross the library's frames; End has given the task what there was.
            }
        }

        void End(IntPtr status) {
            lock (task) ended = true;
            try {
                QuarryException error = QuarryException.Take(status);
                if (error == null) {
                    Tensor[] made = all.Results();
                    all.Dispose();
                    task.TrySetResult(made);
                } else if (error.Code == Code.Cancelled && stop.IsCancellationRequested) {
                    all.Dispose();
                    task.TrySetCanceled(stop);
                } else {
                    all.Dispose();
                    task.TrySetException(error);
                }
            } catch (Exception error) {
                all.Dispose();
                task.TrySetException(error);
            }
            self.Free();
            // The last to let go of a session destroys it, which must not happen on the queue's own thread; and a registration waits for its callback.
            ThreadPool.QueueUserWorkItem(LetGo, this);
        }

        static void LetGo(object ended) {
            var run = (SubmittedRun)ended;
            lock (run.task) { }  // Submit is out of it
            run.registration.Dispose();
            run.held.Dispose();
        }
    }
}
