// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.InteropServices;
using static Quarry.Tests.QuarryTest;

namespace Quarry.Tests {
    /// <summary>What runs give, and what they refuse.</summary>
    internal static class RunTests {
        static void TestScoresAreThoseOfOnnxRuntime() {
            foreach (string backend in new[] {"cpu", "cpu-reference"})
                using (Model model = OpenDigits())
                using (Session session = model.CreateSession(With("backend", backend)))
                    for (int i = 0; i < 20; ++i) Near(session.Run(Image(i))[0].ToFloats(), Expected(i));
        }

        static void TestNamesShapesAndDictionaries() {
            using (Model model = OpenDigits())
            using (Session session = model.CreateSession()) {
                Same(model.Inputs.Count, 1);
                TensorInfo input = session.Inputs[0];
                Same(input.Type, DataType.F32);
                Same(string.Join(",", input.Shape), "1,1,8,8");
                Check(input.ToString().StartsWith(input.Name + " f32[1,1,8,8]"), input.ToString());
                Same(input.SizeBytes, 256L);
                Same(input.Scales.Count, 0);
                Dictionary<string, Tensor> made = session.Run(new Dictionary<string, Tensor> {{input.Name, Image(3)}});
                Near(made[session.Outputs[0].Name].ToFloats(), Expected(3));
                QuarryException error = Fails(Code.InvalidArgument, () => session.Run(new Dictionary<string, Tensor> {{"nobody", Image(0)}}));
                Check(error.Message.Contains("nobody") && error.Message.Contains(input.Name), error.Message);
                Check(session.Report().Contains("\"backend\""), session.Report());
                session.WarmUp();
                session.Recover();
            }
        }

        static void TestResultsInGivenRoom() {
            using (Model model = OpenDigits())
            using (Session session = model.CreateSession()) {
                var scores = new float[10];
                Tensor[] made = session.Run(new[] {Image(5)}, new[] {Tensor.Of(scores, 1, 10)});
                Near(scores, Expected(5));
                Check(ReferenceEquals(made[0].AsArray<float>(), scores), "the result lies elsewhere");
                using (Tensor outside = Tensor.Allocate(DataType.F32, 1, 12)) {  // larger than it must be
                    made = session.Run(new[] {Image(6)}, new[] {outside});
                    Same(made[0].ToString(), "f32[1,10]");
                    Near(made[0].ToFloats(), Expected(6));
                }
                // A tensor is where it was put: what is written there later is seen.
                float[] pixels = Pixels(1);
                Tensor input = Tensor.Of(pixels, 1, 1, 8, 8);
                Near(session.Run(input)[0].ToFloats(), Expected(1));
                Pixels(2).CopyTo(pixels, 0);
                Near(session.Run(input)[0].ToFloats(), Expected(2));
                Fails(Code.OutOfRange, () => session.Run(new[] {Image(0)}, new[] {Tensor.Allocate(DataType.F32, 9)}));
                Fails(Code.InvalidArgument, () => session.Run(new[] {Image(0)}, new Tensor[2]));
            }
        }

        static void TestMemoryOfTheCallersOwn() {
            using (Model model = OpenDigits())
            using (Session session = model.CreateSession()) {
                IntPtr memory = Marshal.AllocHGlobal(300);
                try {
                    Tensor input = Tensor.Of(memory + 4, 296, DataType.F32, 1, 1, 8, 8);
                    foreach (int i in new[] {1, 2}) {
                        input.Write(Pixels(i));
                        Near(session.Run(input)[0].ToFloats(), Expected(i));
                    }
                    Fails(Code.InvalidArgument, () => Tensor.Of(memory, 255, DataType.F32, 1, 1, 8, 8));
                } finally {
                    Marshal.FreeHGlobal(memory);
                }
            }
        }

        static void TestErrorsSayWhatToDo() {
            QuarryException error = Fails(Code.NotFound, () => Model.Open(Path.Combine(Scratch, "größe, ☃.onnx")));
            Same(error.Id, "QR-F0001");
            Check(error.Message.Contains("größe, ☃.onnx"), error.Message);
            using (Model model = OpenDigits()) {
                error = Fails(Code.NotFound, () => model.CreateSession(With("backnd", "cpu")));
                Check(error.Message.Contains("backend"), error.Message);
                error = Fails(Code.NotFound, () => model.CreateSession(With("backend", "tpu")));
                Check(error.Hint.Length > 0 || error.Details.Count > 0, error.Message);
                using (Session session = model.CreateSession()) {
                    Fails(Code.InvalidArgument, () => session.Run(Tensor.Of(new float[63], 1, 1, 7, 9)));
                    Fails(Code.InvalidArgument, () => session.Run());
                    Fails(Code.InvalidArgument, () => session.Run(Tensor.Of(new double[64], 1, 1, 8, 8)));
                    Fails(Code.InvalidArgument, () => session.Run((Tensor)null));
                    Fails(Code.InvalidArgument, () => session.Run(Tensor.Of(new float[1], 1, 1, 1, 1, 1, 1, 1, 1, 1)));
                    Throws<ArgumentNullException>(() => session.Run((Tensor[])null, null));
                    error = Fails(Code.FailedPrecondition, () => session.GetState());
                    Check(error.Details != null && error.PlainMessage.Length > 0 && error.Message.Contains(error.PlainMessage), error.Message);
                }
            }
        }

        // Hints name what is there in C#.
        static void TestHintsSpeakCSharp() {
            Same(HintTexts.InCSharp("call qr_session_recover, or qr_session_clone; not qr_other"), "call Session.Recover, or Session.Clone; not qr_other");
            Same(HintTexts.InCSharp(""), "");
            Same(HintTexts.InCSharp("qr_session_run"), "Session.Run");
        }

        // Outputs whose shapes only a run knows are of the caller's own.
        static void TestShapesThatChange() {
            string file = Path.Combine(SharedFolder, "models", "tashkeel_transformer_f32", "model.onnx");
            if (!File.Exists(file)) {
                Console.WriteLine("skipped: TestShapesThatChange: there is no " + file);
                return;
            }
            using (Model model = Model.Open(file))
            using (Session session = model.CreateSession(With("threads", "1"))) {
                Same(model.Inputs[0].DimensionName(1), "seq");
                Tensor[] first = null;
                foreach (int length in new[] {5, 12, 5}) {
                    var letters = new long[length];
                    for (int i = 0; i < length; ++i) letters[i] = 3;
                    Tensor[] made = session.Run(Tensor.Of(letters, 1, length), Tensor.Of(new long[] {length}, 1));
                    Same(string.Join(",", made[0].Shape), "1," + length);
                    Same(made[1].ToFloats().Length, 15 * length);
                    if (first == null) first = made;
                    else if (length == 5) Same(string.Join(",", first[1].ToFloats()), string.Join(",", made[1].ToFloats()));
                }
                Fails(Code.InvalidArgument, () => session.SubmitAsync(Tensor.Of(new long[] {3}, 1, 1), Tensor.Of(new long[] {1}, 1)));
            }
        }
    }
}
