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

        // What waits for it goes on elsewhere: the thread that ends it is the reaper, of all sessions.
        readonly TaskCompletionSource<Tensor[]> task = new TaskCompletionSource<Tensor[]>(TaskCreationOptions.RunContinuationsAsynchronously);
        readonly Arguments all;
        readonly Handle session;
        readonly CancellationToken stop;
        CancellationTokenRegistration registration;
        Held held;
        GCHandle self;
        ulong ticket;

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
            Reaper.Start();
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
            IntPtr status;
            lock (task) {  // End waits: the library reads the arguments until the call is back, however early the run ends
                ulong number;
                status = Native.qr_session_submit(held.Pointer, &options, all.Inputs, all.InputCount, all.Outputs, all.OutputCount, &number);
                if (status == IntPtr.Zero) {
                    ticket = number;
                    // A token that is cancelled already has it aborted here and now.
                    if (stop.CanBeCanceled) registration = stop.Register(Abort);
                }
            }
            if (status != IntPtr.Zero) End(status);
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
                var run = (SubmittedRun)GCHandle.FromIntPtr((IntPtr)self).Target;
                Reaper.Later(() => run.End(status));
            } catch (Exception) {
                // No exception may cross the library's frames: of no memory, which is all that there can be, the program hears elsewhere.
            }
        }

        void End(IntPtr status) {
            lock (task) { }  // Submit is out of it
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
            registration.Dispose();
            held.Dispose();
        }
    }
}
