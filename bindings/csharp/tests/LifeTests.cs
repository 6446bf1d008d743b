// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.InteropServices;
using System.Threading;
using static Quarry.Tests.QuarryTest;

namespace Quarry.Tests {
    /// <summary>Threads, memory, layouts.</summary>
    internal static class LifeTests {
        static void TestThreadsWithASessionEach() {
            int right = 0;
            using (Model model = OpenDigits())
            using (Session first = model.CreateSession()) {
                var threads = new List<Thread>();
                for (int t = 0; t < 4; ++t) {
                    int own = t;
                    Session session = first.Clone();
                    threads.Add(new Thread(() => {
                        try {
                            using (session)
                                for (int i = 0; i < 200; ++i) Near(session.Run(Image((own * 7 + i) % 50))[0].ToFloats(), Expected((own * 7 + i) % 50));
                            Interlocked.Increment(ref right);
                        } catch (Exception error) {
                            Console.WriteLine(error);
                        }
                    }));
                }
                foreach (Thread thread in threads) thread.Start();
                foreach (Thread thread in threads) thread.Join();
            }
            Same(right, 4);
        }

        // What nobody disposes of is freed with the garbage.
        static void TestNothingIsKept() {
            long before = -1;
            for (int i = 0; i < 3000; ++i) {
                LetGoOfASession(i % 3 == 0);
                if (i % 250 == 249) Collect();
                if (i == 999) before = Resident();
            }
            // The collector takes its time, and so does malloc: 2,000 sessions that stay take 1.4 GB.
            for (int i = 0; i < 60 && Resident() - before > 32 << 20; ++i) {
                Collect();
                Thread.Sleep(100);
            }
            Check(Resident() - before < 128 << 20, "found " + (Resident() - before) / 1000 + " kB more, expected none");
        }

        static void LetGoOfASession(bool run) {
            Session session = OpenDigits().CreateSession();
            if (run) session.Run(Image(0));
            if (run) session.SubmitAsync(Image(0)).Wait();
        }

        static void Collect() {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }

        // Of tensors outside of the collector's memory too.
        static void TestTensorsAreFreed() {
            long before = -1;
            for (int i = 0; i < 400; ++i) {
                Tensor.Allocate(DataType.F32, 1 << 20).Write(new float[1 << 20]);
                if (i % 50 == 49) Collect();
                if (i == 99) before = Resident();
            }
            Check(Resident() - before < 256 << 20, "found " + (Resident() - before) / 1000 + " kB more, expected none");
        }

        // What is closed while it runs is freed behind the run.
        static void TestClosingWhileItRuns() {
            for (int i = 0; i < 200; ++i) {
                Session session = OpenDigits().CreateSession();
                var runner = new Thread(() => {
                    try {
                        for (int k = 0; k < 50; ++k) session.Run(Image(0));
                    } catch (ObjectDisposedException) {
                        // It was closed meanwhile.
                    }
                });
                runner.Start();
                if (i % 2 == 0) Thread.Yield();
                session.Dispose();
                runner.Join();
            }
        }

        static int calls;

        static unsafe void Called(void* self, ulong ticket, IntPtr status) {
            CallbackThread.Enter();
            Native.qr_status_destroy(status);
            Interlocked.Increment(ref calls);
        }

        // A thread of the library's that has run managed code, as a log's sink may, does not keep the collector waiting.
        static unsafe void TestTheCollectorAndThreadsOfTheLibrary() {
            calls = 0;
            qr_submit_options_done called = Called;
            using (Model model = OpenDigits()) {
                var sessions = new List<Session>();
                for (int i = 0; i < 20; ++i) {
                    Session session = model.CreateSession();
                    sessions.Add(session);
                    using (var all = new Arguments(session.Inputs, session.Outputs, new[] {Image(0)}, null, true))
                    using (Held held = session.Hold()) {
                        var options = new qr_submit_options {struct_size = (uint)sizeof(qr_submit_options), done = Marshal.GetFunctionPointerForDelegate(called)};
                        QuarryException.Check(Native.qr_session_submit(held.Pointer, &options, all.Inputs, all.InputCount, all.Outputs, all.OutputCount, null));
                        GC.Collect();
                        QuarryException.Check(Native.qr_session_wait(held.Pointer, 0, IntPtr.Zero, null));
                    }
                    GC.Collect();
                }
                Same(calls, 20);
                foreach (Session session in sessions) session.Dispose();
            }
            GC.KeepAlive(called);
        }

        static long Resident() {
            return long.Parse(File.ReadAllText("/proc/self/statm").Split(' ')[1]) * 4096;
        }

        static void TestStructsAreThoseOfTheLibrary() {
            int structs = 0;
            foreach (object[] row in Layouts.Rows) {
                var type = (Type)row[0];
                if (Marshal.SizeOf(type) != (int)row[1]) throw new Exception(type.Name + ": found " + Marshal.SizeOf(type) + " bytes, expected " + row[1]);
                for (int i = 2; i < row.Length; i += 2) {
                    int offset = (int)Marshal.OffsetOf(type, (string)row[i]);
                    if (offset != (int)row[i + 1]) throw new Exception(type.Name + "." + row[i] + ": found at " + offset + ", expected at " + row[i + 1]);
                }
                ++structs;
            }
            Check(structs >= 18, "found " + structs + " structs");
            unsafe {
                Same(sizeof(qr_tensor), Marshal.SizeOf(typeof(qr_tensor)));
                Same(sizeof(qr_model_source), Marshal.SizeOf(typeof(qr_model_source)));
            }
        }

        static unsafe void TestDataTypesAreThoseOfTheLibrary() {
            foreach (DataType type in Enum.GetValues(typeof(DataType))) {
                Same(type.Bits(), (int)Native.qr_dtype_bits((int)type));
                Same(type.Word(), Text.Of(Native.qr_dtype_name((int)type)));
            }
            foreach (Code code in Enum.GetValues(typeof(Code)))
                Same(Text.Of(Native.qr_code_name((int)code)).Replace("_", ""), code.ToString().ToUpperInvariant());
        }
    }
}
