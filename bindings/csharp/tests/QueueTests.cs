// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;
using static Quarry.Tests.QuarryTest;

namespace Quarry.Tests {
    /// <summary>Submitted runs.</summary>
    internal static class QueueTests {
        /// <summary>The task's exception, or null.</summary>
        static Exception EndOf(Task task) {
            try {
                Check(task.Wait(TimeSpan.FromSeconds(60)), "a run did not end");
                return null;
            } catch (AggregateException error) {
                return error.InnerException;
            }
        }

        static void TestSubmittedRunsEndInOrder() {
            using (Model model = OpenDigits())
            using (Session session = model.CreateSession(With("queue_depth", "4"))) {
                for (int round = 0; round < 20; ++round) {
                    var runs = new List<Task<Tensor[]>>();
                    for (int i = 0; i < 4; ++i) runs.Add(session.SubmitAsync(Image(i)));
                    for (int i = 3; i >= 0; --i) {
                        Same(EndOf(runs[i]), null);
                        for (int before = 0; before < i; ++before) Check(runs[before].IsCompleted, "run " + before + " ended after run " + i);
                        Near(runs[i].Result[0].ToFloats(), Expected(i));
                    }
                }
                using (var signal = new Signal()) {
                    signal.Abort();
                    Same(((QuarryException)EndOf(session.SubmitAsync(new[] {Image(0)}, null, signal))).Code, Code.Cancelled);
                }
                var scores = new float[10];
                Same(EndOf(session.SubmitAsync(new[] {Image(2)}, new[] {Tensor.Of(scores, 1, 10)})), null);
                Near(scores, Expected(2));
                Near(session.Run(Image(9))[0].ToFloats(), Expected(9));
            }
        }

        static void TestSubmittedRunsAreCancelled() {
            using (Model model = OpenDigits())
            using (Session session = model.CreateSession(With("queue_depth", "4"))) {
                int cancelled = 0;
                for (int round = 0; round < 100; ++round) {
                    var source = new CancellationTokenSource();
                    Task<Tensor[]> run = session.SubmitAsync(new[] {Image(0)}, null, null, source.Token);
                    source.Cancel();
                    if (EndOf(run) is TaskCanceledException) ++cancelled;
                    else Near(run.Result[0].ToFloats(), Expected(0));
                    Check(run.IsCanceled || run.Status == TaskStatus.RanToCompletion, "found " + run.Status);
                }
                var before = new CancellationTokenSource();
                before.Cancel();
                Check(session.SubmitAsync(new[] {Image(0)}, null, null, before.Token).IsCanceled, "it was queued");
                Near(session.Run(Image(9))[0].ToFloats(), Expected(9));
            }
        }

        // One more than the queue has room for.
        static void TestFullQueueIsBusy() {
            using (Model model = OpenDigits())
            using (Session session = model.CreateSession(With("queue_depth", "1", "backend", "cpu-reference"))) {
                int busy = 0;
                var runs = new List<Task<Tensor[]>>();
                for (int i = 0; i < 200 && busy == 0; ++i) {
                    runs.Add(session.SubmitAsync(Image(0)));
                    if (runs[i].IsFaulted) {
                        Same(((QuarryException)EndOf(runs[i])).Code, Code.Busy);
                        ++busy;
                    }
                }
                Check(busy == 1, "found no refusal, expected one");
                foreach (Task<Tensor[]> run in runs)
                    if (!run.IsFaulted) Same(EndOf(run), null);
            }
        }

        static void TestClosingWithRunsInTheQueue() {
            for (int round = 0; round < 20; ++round) {
                Session closed = OpenDigits().CreateSession(With("queue_depth", "4"));
                var runs = new List<Task<Tensor[]>>();
                for (int i = 0; i < 4; ++i) runs.Add(closed.SubmitAsync(Image(i)));
                closed.Dispose();
                foreach (Task<Tensor[]> run in runs) {
                    Exception error = EndOf(run);
                    if (error == null) Same(run.Result.Length, 1);
                    else Same(((QuarryException)error).Code, Code.Cancelled);
                }
                closed.Dispose();
                Same(Throws<ObjectDisposedException>(() => closed.Run(Image(0))).ObjectName, "Session");
                Throws<ObjectDisposedException>(() => closed.SubmitAsync(Image(0)));
            }
        }

        // What goes on behind a run may close its session: it is not on the queue's own thread.
        static void TestClosingBehindARun() {
            for (int round = 0; round < 50; ++round) {
                Session session = OpenDigits().CreateSession();
                Task after = session.SubmitAsync(Image(1)).ContinueWith(run => {
                    Near(run.Result[0].ToFloats(), Expected(1));
                    session.Dispose();
                }, TaskContinuationOptions.ExecuteSynchronously);
                Same(EndOf(after), null);
            }
        }
    }
}
