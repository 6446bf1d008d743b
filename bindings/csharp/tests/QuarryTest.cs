// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;
using System.Reflection;

namespace Quarry.Tests {
    /// <summary>
    /// Tests of the package: QuarryTest DIGITS_FOLDER SHARED_FOLDER [NAME...]. Each method Test...() of the classes here is one; no framework is needed to run them. What
    /// they share stands in this class.
    /// </summary>
    internal static class QuarryTest {
        internal static string Digits, SharedFolder, Scratch;

        static int Main(string[] arguments) {
            Digits = arguments[0];
            SharedFolder = arguments[1];
            Scratch = Path.Combine(Path.GetTempPath(), "quarry-csharp-test-" + Guid.NewGuid().ToString("N"));
            Directory.CreateDirectory(Scratch);
            Console.WriteLine("libquarry " + QuarryRuntime.Version);  // loads it: Mono looks for functions when it compiles a test that calls them
            int passed = 0, failed = 0;
            foreach (Type type in new[] {typeof(RunTests), typeof(ModelTests), typeof(StopTests), typeof(QueueTests), typeof(LifeTests), typeof(StateTests), typeof(GeneratorTests), typeof(TensorTests)})
                foreach (MethodInfo test in type.GetMethods(BindingFlags.Static | BindingFlags.NonPublic)) {
                    if (!test.Name.StartsWith("Test", StringComparison.Ordinal) || arguments.Length > 2 && Array.IndexOf(arguments, test.Name, 2) < 0) continue;
                    try {
                        test.Invoke(null, null);
                        ++passed;
                    } catch (TargetInvocationException error) {
                        ++failed;
                        Console.WriteLine("FAILED: " + test.Name + "\n" + error.InnerException);
                    }
                }
            Directory.Delete(Scratch, true);
            Console.WriteLine(passed + " tests passed, " + failed + " failed");
            return failed == 0 ? 0 : 1;
        }

        internal static void Check(bool holds, string what) {
            if (!holds) throw new Exception(what);
        }

        internal static void Same(object found, object expected) {
            if (!Equals(found, expected)) throw new Exception("found " + found + ", expected " + expected);
        }

        internal static QuarryException Fails(Code code, Action body) {
            try {
                body();
            } catch (QuarryException error) {
                if (error.Code != code) throw new Exception("found " + error + ", expected " + code);
                return error;
            }
            throw new Exception("it did not fail, expected " + code);
        }

        internal static T Throws<T>(Action body) where T : Exception {
            try {
                body();
            } catch (T error) {
                return error;
            }
            throw new Exception("it did not throw, expected " + typeof(T).Name);
        }

        internal static Dictionary<string, string> With(params string[] pairs) {
            var options = new Dictionary<string, string>();
            for (int i = 0; i < pairs.Length; i += 2) options[pairs[i]] = pairs[i + 1];
            return options;
        }

        internal static Model OpenDigits() {
            return Model.Open(Path.Combine(Digits, "digits.onnx"));
        }

        static byte[] images, scores;

        internal static float[] Pixels(int index) {
            if (images == null) images = File.ReadAllBytes(Path.Combine(Digits, "test_images.npy"));
            var image = new float[64];
            for (int i = 0; i < 64; ++i) image[i] = images[128 + index * 64 + i] / 255f;  // 128 bytes are in front of the first image
            return image;
        }

        internal static Tensor Image(int index) {
            return Tensor.Of(Pixels(index), 1, 1, 8, 8);
        }

        /// <summary>What ONNX Runtime gave for an image: float[n, 10].</summary>
        internal static float[] Expected(int index) {
            if (scores == null) scores = File.ReadAllBytes(Path.Combine(Digits, "ort_scores.npy"));
            var row = new float[10];
            Buffer.BlockCopy(scores, 10 + BitConverter.ToUInt16(scores, 8) + index * 40, row, 0, 40);
            return row;
        }

        internal static void Near(float[] found, float[] expected) {
            Same(found.Length, expected.Length);
            for (int i = 0; i < found.Length; ++i)
                Check(Math.Abs(found[i] - expected[i]) <= 1e-3f * Math.Max(1, Math.Abs(expected[i])), i + ": found " + found[i] + ", expected " + expected[i]);
        }
    }
}
