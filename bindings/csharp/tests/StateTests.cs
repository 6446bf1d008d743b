// SPDX-License-Identifier: Apache-2.0
using System;
using System.IO;
using static Quarry.Tests.QuarryTest;

namespace Quarry.Tests {
    /// <summary>What sessions keep: present = past and x behind it, y its sum.</summary>
    internal static class StateTests {
        static Session Keeping(Model model) {
            return model.CreateSession(With("threads", "1", "state", "past:present", "state.capacity", "4"));
        }

        static string Added(Session session, params float[] x) {
            return string.Join(",", session.Run(Tensor.Of(x, 1, 1, 2))[0].ToFloats());
        }

        static Model Open() {
            return Model.Open(Path.Combine(Digits, "..", "cache.onnx"));
        }

        static void TestWindow() {
            using (Model model = Open())
            using (Session session = model.CreateSession(With("threads", "1", "state", "past:present", "state.capacity", "4", "state.window", "1", "state.sink", "1"))) {
                for (int i = 0; i < 9; ++i) Added(session, 1, 2);
                Same(Added(session, 5, 5), "7,9"); // the first and the last before it
                State state = session.GetState();
                Same(state.Length + " " + state.Dropped, "2 8");
            }
        }

        static void TestState() {
            using (Model model = Open())
            using (Session session = Keeping(model)) {
                Same(session.Inputs.Count, 1);
                Same(Added(session, 1, 2), "1,2");
                Same(Added(session, 3, 4), "4,6");
                State state = session.GetState();
                Same(state.Length, 2L);
                StatePair pair = state.Pairs[0];
                Same(pair + " " + pair.Axis + " " + pair.Capacity + " " + pair.Type, "past <- present [1,2,2] 1 4 F32");
                Check(pair.Bytes > 0, "it holds nothing");
                using (State fork = state.Fork()) {
                    state.Rewind(1);
                    Same(Added(session, 10, 10), "11,12");
                    session.SetState(fork);
                    Same(Added(session, 10, 10), "14,16");
                }
                session.GetState().Reset();
                Same(Added(session, 5, 5), "5,5");
                Fails(Code.OutOfRange, () => state.Rewind(9));
                Fails(Code.InvalidArgument, () => state.Rewind(-1));
            }
        }

        static void TestStateIsSavedAndWritten() {
            using (Model model = Open())
            using (Session session = Keeping(model))
            using (Session second = Keeping(model)) {
                Added(session, 1, 2);
                Added(session, 3, 4);
                State state = session.GetState(), other = second.GetState();
                byte[] saved = state.Save();
                other.Load(saved);
                Same(string.Join(",", other.Read("past").ToFloats()), "1,2,3,4");
                other.Write("present", Tensor.Of(new float[] {7, 8}, 1, 1, 2));
                Same(Added(second, 1, 1), "8,9");
                string file = Path.Combine(Scratch, "kept ü.state");
                other.SaveTo(file);
                state.Reset();
                state.Load(File.ReadAllBytes(file));
                Same(state.Length, 2L);
                saved[20] ^= 1;
                Fails(Code.Corrupt, () => other.Load(saved));
                Fails(Code.InvalidArgument, () => other.Read("future"));
                for (int i = 0; i < 2; ++i) Added(second, 1, 1);
                Fails(Code.ResourceExhausted, () => Added(second, 1, 1));
                other.Dispose();
                Same(Throws<ObjectDisposedException>(() => other.Length.ToString()).ObjectName, "State");
            }
        }

        /// <summary>y = x [[1, 2], [3, 4]], and with the adapter y += (x0 + x1) [1, -1].</summary>
        static void TestAdaptersTakeTurns() {
            string file = Path.Combine(Digits, "..", "product.safetensors");
            using (Model model = Model.Open(Path.Combine(Digits, "..", "product.onnx")))
            using (Session session = model.CreateSession(With("threads", "1", "adapter.targets", "q"))) {
                Func<string> product = () => string.Join(",", session.Run(Tensor.Of(new float[] {1, 10}, 1, 2))[0].ToFloats());
                Same(product(), "31,42");
                Fails(Code.InvalidArgument, () => session.OpenAdapter(file));
                using (Adapter whole = session.OpenAdapter(file, 1))
                using (Adapter twice = session.OpenAdapter(file, 1, 2)) {
                    session.SetAdapter(twice);
                    Same(product(), "53,20");
                    session.SetAdapter(whole);
                    Same(product(), "42,31");
                }
                Same(product(), "42,31");
                session.SetAdapter(null);
                Same(product(), "31,42");
            }
        }
    }
}
