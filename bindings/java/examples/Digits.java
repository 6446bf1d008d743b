// SPDX-License-Identifier: Apache-2.0
// Reads a handwritten digit: java -cp quarry-runtime.jar examples/Digits.java ../../models/digits

import java.nio.file.Files;
import java.nio.file.Paths;
import quarry.Model;
import quarry.Session;
import quarry.Tensor;

public class Digits {
    public static void main(String[] arguments) throws Exception {
        String folder = arguments.length > 0 ? arguments[0] : "models/digits";
        byte[] file = Files.readAllBytes(Paths.get(folder, "test_images.npy"));
        float[] image = new float[64];
        for (int i = 0; i < 64; ++i) image[i] = (file[128 + i] & 0xff) / 255f;  // 128 bytes are in front of the first image
        try (Model model = Model.open(folder + "/digits.onnx"); Session session = model.session()) {
            float[] scores = session.run(Tensor.of(image, 1, 1, 8, 8))[0].toFloats();
            int best = 0;
            for (int i = 0; i < scores.length; ++i)
                if (scores[i] > scores[best]) best = i;
            System.out.println("the first digit is a " + best);
        }
    }
}
