// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.InteropServices;
using static Quarry.Tests.QuarryTest;

namespace Quarry.Tests {
    /// <summary>Models, what is compiled of them, runtimes.</summary>
    internal static class ModelTests {
        static void TestWhatAModelSays() {
            using (Model model = OpenDigits()) {
                Check(model.Inspect().Contains("\"operators\""), model.Inspect());
                Check(model.Check().Contains("\"refused\": 0"), "check");
                model.Verify();
                Check(model.Plan().WeightsBytes > 0, "plan");
                Check(model.Properties != null, "properties");
                string graph = Path.Combine(Scratch, "graph.json");
                model.Export(graph);
                Check(File.ReadAllText(graph).Contains("\"nodes\""), "the graph");
            }
        }

        static void TestContainersAndModelsInMemory() {
            string path = Path.Combine(Scratch, "digits ü.qrm");
            var steps = new List<string>();
            byte[] compiled;
            using (Model model = OpenDigits()) {
                model.Compile(path, With("backend", "cpu", "metadata.place", "Zürich"), null, (done, total, what) => {
                    steps.Add(what);
                    return true;
                });
                compiled = model.CompileToBytes(With("backend", "cpu"));
            }
            Check(steps.Count > 0, "no progress was reported");
            Func<Model>[] ways = {() => Model.Open(path), () => Model.Open(File.ReadAllBytes(path)), () => Model.Open(compiled), () => Model.Open(File.ReadAllBytes(Path.Combine(Digits, "digits.onnx")))};
            foreach (Func<Model> way in ways) {
                Model model = way();
                Session session = model.CreateSession();
                model.Dispose();
                GC.Collect();
                GC.WaitForPendingFinalizers();
                Near(session.Run(Image(7))[0].ToFloats(), Expected(7));
                Session other = session.Clone();
                session.Dispose();
                GC.Collect();
                GC.WaitForPendingFinalizers();
                Near(other.Run(Image(8))[0].ToFloats(), Expected(8));
                other.Dispose();
            }
            using (Model model = Model.Open(path)) {
                Same(model.GetCompatibility(out string reason, With("backend", "cpu")), Compatibility.Optimal);
                Check(reason != null, "a reason");
                Same(model.GetCompatibility(With("backend", "cpu")), Compatibility.Optimal);
                Same(model.Properties["place"], "Zürich");
            }
            byte[] cut = File.ReadAllBytes(path);
            Array.Resize(ref cut, 5000);
            Fails(Code.Corrupt, () => Model.Open(cut));
            Fails(Code.InvalidArgument, () => QuarryRuntime.Shared.Open(IntPtr.Zero, -1));
        }

        static void TestModelWhereItLies() {
            byte[] file = File.ReadAllBytes(Path.Combine(Digits, "digits.onnx"));
            IntPtr memory = Marshal.AllocHGlobal(file.Length);
            Marshal.Copy(file, 0, memory, file.Length);
            using (Model model = QuarryRuntime.Shared.Open(memory, file.Length))
            using (Session session = model.CreateSession()) Near(session.Run(Image(4))[0].ToFloats(), Expected(4));
            Marshal.FreeHGlobal(memory);
        }

        static void TestRuntimesAndTheLog() {
            var lines = new List<string>();
            QuarryRuntime runtime = new QuarryRuntime.Builder().Log((level, topic, message) => {
                lock (lines) lines.Add(level + " " + topic + " " + message);
                throw new InvalidOperationException("dropped");
            }, LogLevel.Trace).Build();
            bool found = false;
            foreach (BackendInfo backend in runtime.Backends()) found |= backend.Id == "cpu" && backend.Usable && backend.Devices.Count > 0;
            Check(found, "no backend cpu");
            Model model = runtime.Open(Path.Combine(Digits, "digits.onnx"));
            runtime.Dispose();
            Throws<ObjectDisposedException>(() => runtime.Backends());
            GC.Collect();
            Session session = model.CreateSession(With("threads", "2"));
            Near(session.Run(Image(0))[0].ToFloats(), Expected(0));
            Fails(Code.FailedPrecondition, () => session.SetOption("profiling_level", "off"));
            Check(lines.Count > 0, "nothing was logged");
            model.Dispose();
            session.Dispose();
            Same(QuarryRuntime.Version.Split('.').Length, 3);
        }

        static void TestOnlyGivenPaths() {
            string empty = Path.Combine(Scratch, "no plugins");
            Directory.CreateDirectory(empty);
            using (QuarryRuntime runtime = new QuarryRuntime.Builder().OnlyGivenPaths().BackendPath(empty).PreparePath("").Build())
                foreach (BackendInfo backend in runtime.Backends()) Check(backend.Path.Length == 0, "found " + backend);
        }
    }
}
