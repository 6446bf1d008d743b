// SPDX-License-Identifier: Apache-2.0
// Makes a quantised model of the digits network with images of its folder, and reads the first of them with it.
//   quantize models/digits OUT.onnx
#include <quarry/quantize.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

int main(int argc, char **argv) try {
  if (argc != 3) return std::fprintf(stderr, "usage: quantize FOLDER OUT.onnx\n"), 2;
  const std::string folder = argv[1];
  constexpr int kImages = 50, kPixels = 64, kHeader = 128;
  std::vector<char> bytes(kHeader + kImages * kPixels);
  if (!std::ifstream(folder + "/test_images.npy", std::ios::binary)
           .read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    return std::fprintf(stderr, "cannot read the images of '%s'\n", folder.c_str()), 2;
  std::vector<float> image(kPixels);
  const auto take = [&](int i) {
    std::transform(bytes.begin() + kHeader + i * kPixels, bytes.begin() + kHeader + (i + 1) * kPixels, image.begin(),
                   [](char pixel) { return static_cast<float>(static_cast<unsigned char>(pixel)) / 255.0f; });
    return std::vector<qr::Tensor>{qr::Tensor::of(image.data(), {1, 1, 8, 8})};
  };
  const qr::Runtime runtime;
  qr::Quantizer quantizer(runtime, folder + "/digits.onnx");
  for (int i = 0; i < kImages; ++i) quantizer.add_sample(take(i));
  quantizer.write(argv[2]);
  qr::Session session(qr::Model(runtime, argv[2]));
  const std::vector<qr::Tensor> outputs = session.run(take(0));
  const float *scores = outputs[0].data<float>();
  std::printf("quantised, the first digit is a %d\n", static_cast<int>(std::max_element(scores, scores + 10) - scores));
} catch (const qr::Error &error) {
  return std::fprintf(stderr, "%s: %s\n%s\n", error.id().c_str(), error.message().c_str(), error.hint().c_str()), 1;
}
