// SPDX-License-Identifier: Apache-2.0
// What is in a photograph: a MobileNet of Google's, whose 1001 classes begin with "background".
//   classify MODEL LABELS IMAGE...
#include <quarry/quarry.hpp>

#include <cstdio>
#include <fstream>
#include <numeric>

#include "../pixels.h"

int main(int argc, char **argv) try {
  if (argc < 4) return std::fprintf(stderr, "usage: classify MODEL LABELS IMAGE...\n"), 2;
  std::vector<std::string> labels;
  std::ifstream file(argv[2]);
  for (std::string line; std::getline(file, line);) labels.push_back(line);

  const qr::Runtime runtime;
  const qr::Model model(runtime, argv[1]);
  qr::Session session(model);
  const std::vector<std::int64_t> dims = session.input(0).dims;
  if (dims.size() != 4 || dims[1] != 3) throw std::runtime_error("the model takes no image of 3 planes");
  const int height = static_cast<int>(dims[2]), width = static_cast<int>(dims[3]);
  const std::size_t plane = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  std::vector<float> input(3 * plane);
  const std::vector<qr::Tensor> inputs{qr::Tensor::of(input.data(), {1, 3, height, width})};
  std::vector<qr::Tensor> outputs(1);  // without data: the session's memory, until the next run

  for (int k = 3; k < argc; ++k) {
    const Pixels image = resized(read_image(argv[k]), width, height);
    for (std::size_t i = 0; i < plane; ++i)
      for (std::size_t c = 0; c < 3; ++c) input[c * plane + i] = (static_cast<float>(image.rgb[3 * i + c]) - 128) / 128;
    session.run(inputs, outputs);
    const float *scores = outputs[0].data<float>();
    const std::size_t count = outputs[0].size_bytes / sizeof(float);
    if (!scores || labels.size() != count)
      throw std::runtime_error("found " + std::to_string(labels.size()) + " labels for " + std::to_string(count) +
                               " scores");
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + 3, order.end(),
                      [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    std::printf("%s:", argv[k]);
    for (std::size_t i = 0; i < 3; ++i)
      std::printf("%s %s %.2f", i ? "," : "", labels[order[i]].c_str(), static_cast<double>(scores[order[i]]));
    std::printf("\n");
  }
  return 0;
} catch (const qr::Error &error) {
  return std::fprintf(stderr, "%s: %s\n  hint: %s\n", error.id().c_str(), error.message().c_str(),
                      error.hint().c_str()),
         3;
} catch (const std::exception &error) {
  return std::fprintf(stderr, "classify: %s\n", error.what()), 2;
}
