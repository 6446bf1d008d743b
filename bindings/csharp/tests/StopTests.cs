// SPDX-License-Identifier: Apache-2.0
using System;
using System.IO;
using System.Threading;
using static Quarry.Tests.QuarryTest;

namespace Quarry.Tests {
    /// <summary>What stops a call: progress, signals, tokens.</summary>
    internal static class StopTests {
        static void TestProgressStopsAndThrows() {
            string path = Path.Combine(Scratch, "never.qrm");
            using (Model model = OpenDigits()) {
                QuarryException error = Fails(Code.Cancelled, () => model.Compile(path, null, null, (done, total, what) => false));
                Same(error.Id, "QR-C0013");
                var mine = Throws<NotSupportedException>(() => model.Compile(path, null, null, (done, total, what) => {
                    throw new NotSupportedException("mine");
                }));
                Same(mine.Message, "mine");
                Check(mine.StackTrace.Contains("TestProgressStopsAndThrows"), mine.StackTrace);
                Check(!File.Exists(path), "a file was left");
            }
        }

        static void TestSignals() {
            using (Model model = OpenDigits())
            using (Session session = model.CreateSession())
            using (var signal = new Signal()) {
                signal.Abort();
                Fails(Code.Cancelled, () => session.Run(new[] {Image(0)}, null, signal));
                Fails(Code.Cancelled, signal.ThrowIfStopped);
                signal.Reset();
                signal.ThrowIfStopped();
                Near(session.Run(new[] {Image(0)}, null, signal)[0].ToFloats(), Expected(0));
                signal.SetTimeout(TimeSpan.Zero);
                Fails(Code.DeadlineExceeded, () => session.Run(new[] {Image(0)}, null, signal));
                foreach (TimeSpan? none in new TimeSpan?[] {null, Timeout.InfiniteTimeSpan, TimeSpan.MaxValue, TimeSpan.FromMinutes(1)}) {
                    signal.SetTimeout(none);
                    Near(session.Run(new[] {Image(0)}, null, signal)[0].ToFloats(), Expected(0));
                }
                Fails(Code.InvalidArgument, () => signal.SetTimeout(TimeSpan.FromSeconds(-2)));
                using (Signal child = signal.Derive()) {
                    signal.Abort();
                    Fails(Code.Cancelled, () => session.WarmUp(child));
                }
                signal.Dispose();
                Throws<ObjectDisposedException>(() => session.Run(new[] {Image(0)}, null, signal));
            }
        }

        static void TestTokens() {
            string path = Path.Combine(Scratch, "never.qrm");
            using (Model model = OpenDigits())
            using (Session session = model.CreateSession())
            using (var source = new CancellationTokenSource())
            using (var signal = new Signal()) {
                Near(session.Run(new[] {Image(0)}, null, null, source.Token)[0].ToFloats(), Expected(0));
                Near(session.Run(new[] {Image(0)}, null, signal, source.Token)[0].ToFloats(), Expected(0));
                // The signal stops a call that has a token too, and the other way round.
                signal.Abort();
                Fails(Code.Cancelled, () => session.Run(new[] {Image(0)}, null, signal, source.Token));
                signal.Reset();
                var stopped = Throws<OperationCanceledException>(() => model.Compile(path, null, signal, (done, total, what) => {
                    source.Cancel();
                    return true;
                }, source.Token));
                Same(stopped.CancellationToken, source.Token);
                Same(((QuarryException)stopped.InnerException).Code, Code.Cancelled);
                signal.ThrowIfStopped();
                Throws<OperationCanceledException>(() => session.Run(new[] {Image(0)}, null, null, source.Token));
                Throws<OperationCanceledException>(() => model.Verify(null, null, source.Token));
                Check(!File.Exists(path), "a file was left");
            }
        }
    }
}
