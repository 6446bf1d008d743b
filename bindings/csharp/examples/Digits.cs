// SPDX-License-Identifier: Apache-2.0
// Reads a handwritten digit: mcs -r:.../lib/net472/Quarry.Runtime.dll examples/Digits.cs; MONO_PATH=.../lib/net472 mono examples/Digits.exe ../../models/digits
using System;
using System.IO;
using Quarry;

static class Digits {
    static void Main(string[] arguments) {
        string folder = arguments.Length > 0 ? arguments[0] : "models/digits";
        byte[] file = File.ReadAllBytes(Path.Combine(folder, "test_images.npy"));
        var image = new float[64];
        for (int i = 0; i < 64; ++i) image[i] = file[128 + i] / 255f;  // 128 bytes are in front of the first image
        using (Model model = Model.Open(Path.Combine(folder, "digits.onnx")))
        using (Session session = model.CreateSession()) {
            float[] scores = session.Run(Tensor.Of(image, 1, 1, 8, 8))[0].ToFloats();
            int best = 0;
            for (int i = 0; i < scores.Length; ++i)
                if (scores[i] > scores[best]) best = i;
            Console.WriteLine("the first digit is a " + best);
        }
    }
}
