// SPDX-License-Identifier: Apache-2.0
// What each place of a photograph belongs to: a network that gives scores [1, kinds, height, width], as DeepLab,
// LR-ASPP and U-Net do, for pictures normalised as ImageNet's. Kind 0 is the background and stays as it is.
//   segment MODEL IMAGE OUT.png [LABELS]
#include <quarry/quarry.hpp>

#include <cstdio>
#include <fstream>
#include <map>

#include "../pixels.h"

int main(int argc, char **argv) try {
  if (argc < 4) return std::fprintf(stderr, "usage: segment MODEL IMAGE OUT.png [LABELS]\n"), 2;
  const qr::Runtime runtime;
  const qr::Model model(runtime, argv[1]);
  qr::Session session(model);
  const std::vector<std::int64_t> dims = session.input(0).dims;
  if (dims.size() != 4 || dims[1] != 3 || dims[2] < 1 || dims[3] < 1)
    throw std::runtime_error("the input is no picture [1, 3, height, width]");

  Pixels image = read_image(argv[2]);
  const int height = static_cast<int>(dims[2]), width = static_cast<int>(dims[3]);
  const Pixels small = resized(image, width, height);
  constexpr float kMean[] = {0.485f, 0.456f, 0.406f}, kDeviation[] = {0.229f, 0.224f, 0.225f};
  const std::size_t plane = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  std::vector<float> input(3 * plane);
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t p = 0; p < plane; ++p)
      input[c * plane + p] = (static_cast<float>(small.rgb[3 * p + c]) / 255 - kMean[c]) / kDeviation[c];
  const std::vector<qr::Tensor> inputs{qr::Tensor::of(input.data(), dims)};
  std::vector<qr::Tensor> outputs(session.output_count());
  session.run(inputs, outputs);

  const std::vector<std::int64_t> shape = outputs[0].shape();
  if (shape.size() != 4 || shape[1] < 2) throw std::runtime_error("the output is no [1, kinds, height, width]");
  const auto kinds = static_cast<std::size_t>(shape[1]);
  const int rows = static_cast<int>(shape[2]), columns = static_cast<int>(shape[3]);
  std::vector<std::string> labels;
  if (std::ifstream file(argc > 4 ? argv[4] : ""); file)
    for (std::string line; std::getline(file, line);) labels.push_back(line);
  if (argc > 4 && labels.size() != kinds)
    throw std::runtime_error("found " + std::to_string(labels.size()) + " labels for " + std::to_string(kinds) +
                             " kinds");

  // Scores lie over the whole picture, often more coarsely: each pixel has the kind that is best at its place.
  const float *scores = outputs[0].data<float>();
  const std::size_t area = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  constexpr std::uint8_t kColours[][3] = {{255, 64, 64}, {64, 220, 64}, {80, 140, 255}, {255, 200, 0}, {230, 80, 230}};
  std::map<std::size_t, int> counts;
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x) {
      const auto at = static_cast<std::size_t>((y * rows / image.height) * columns + x * columns / image.width);
      std::size_t kind = 0;
      for (std::size_t k = 1; k < kinds; ++k)
        if (scores[k * area + at] > scores[kind * area + at]) kind = k;
      ++counts[kind];
      for (std::size_t c = 0; c < 3 && kind > 0; ++c)
        image.at(x, y)[c] = static_cast<std::uint8_t>((image.at(x, y)[c] + kColours[kind % 5][c] + 1) / 2);
    }
  for (const auto &[kind, count] : counts)
    std::printf("%s %.1f %%\n", labels.empty() ? std::to_string(kind).c_str() : labels[kind].c_str(),
                100.0 * count / image.width / image.height);
  return write_png(argv[3], image), 0;
} catch (const qr::Error &error) {
  return std::fprintf(stderr, "%s: %s\n  hint: %s\n", error.id().c_str(), error.message().c_str(),
                      error.hint().c_str()),
         3;
} catch (const std::exception &error) {
  return std::fprintf(stderr, "segment: %s\n", error.what()), 2;
}
