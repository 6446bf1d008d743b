// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Quarry {
    /// <summary>
    /// The submitted runs of a session, and a thread that waits for them. Not the library's callback, which comes on a thread of the library's: those block all signals, by
    /// which Mono's collector stops threads that have run managed code, and it would wait for them for ever.
    /// </summary>
    internal sealed class RunQueue {
        const int Idle = 100;  // ms until the thread ends: of who runs again and again it stays

        readonly List<SubmittedRun> runs = new List<SubmittedRun>();  // the first that ends first
        bool works;

        /// <summary>Takes `all`. `signal` is zero or the call's.</summary>
        internal Task<Tensor[]> Submit(Handle session, Arguments all, IntPtr signal, CancellationToken stop) {
            SubmittedRun run;
            try {
                run = new SubmittedRun(session, all, stop);
            } catch {
                all.Dispose();
                throw;
            }
            lock (runs) {
                if (!run.Submit(signal)) return run.Task;
                runs.Add(run);
                if (!works) {
                    new Thread(Work) {IsBackground = true, Name = "quarry-session"}.Start();
                    works = true;
                }
                Monitor.Pulse(runs);
            }
            return run.Task;
        }

        void Work() {
            while (true) {
                SubmittedRun first;
                lock (runs) {
                    while (runs.Count == 0)
                        if (!Monitor.Wait(runs, Idle) && runs.Count == 0) {
                            works = false;
                            return;
                        }
                    first = runs[0];
                    runs.RemoveAt(0);
                }
                first.Wait();
            }
        }
    }
}
