// SPDX-License-Identifier: Apache-2.0
// Where things are in a photograph: YOLOX (one output: 80 kinds of things), or YuNet (twelve: faces).
//   detect MODEL IMAGE OUT.png [LABELS]
#include <quarry/quarry.hpp>

#include <cstdio>
#include <fstream>
#include <map>

#include "../pixels.h"

namespace {
struct Box {
  float left, top, right, bottom, score;
  int kind;
};

float overlap(const Box &a, const Box &b) {
  const float w = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float h = std::min(a.bottom, b.bottom) - std::max(a.top, b.top), both = w > 0 && h > 0 ? w * h : 0;
  return both / ((a.right - a.left) * (a.bottom - a.top) + (b.right - b.left) * (b.bottom - b.top) - both);
}

// Non-maximum suppression: of boxes of one kind that overlap, the best.
std::vector<Box> best_of(std::vector<Box> boxes, float most) {
  std::sort(boxes.begin(), boxes.end(), [](const Box &a, const Box &b) { return a.score > b.score; });
  std::vector<Box> kept;
  for (const Box &box : boxes)
    if (std::none_of(kept.begin(), kept.end(),
                     [&](const Box &k) { return k.kind == box.kind && overlap(k, box) > most; }))
      kept.push_back(box);
  return kept;
}

// A cell of the grid of one stride says: centre from its corner, in strides; size as exponents.
Box decode(const float *at, int cell, int columns, int stride, float score, int kind) {
  const auto s = static_cast<float>(stride);
  const float x = (at[0] + static_cast<float>(cell % columns)) * s,
              y = (at[1] + static_cast<float>(cell / columns)) * s;
  const float w = std::exp(at[2]) * s, h = std::exp(at[3]) * s;
  return {x - w / 2, y - h / 2, x + w / 2, y + h / 2, score, kind};
}

std::vector<Box> yolox(const qr::Tensor &output, int size, std::size_t labels) {
  const int width = static_cast<int>(output.shape().at(2)), kinds = width - 5;
  if (labels != 0 && labels != static_cast<std::size_t>(kinds))
    throw std::runtime_error("found " + std::to_string(labels) + " labels for " + std::to_string(kinds) + " kinds");
  std::vector<Box> boxes;
  const float *row = output.data<float>();
  for (const int stride : {8, 16, 32})
    for (int cell = 0; cell < (size / stride) * (size / stride); ++cell, row += width) {
      const int kind = static_cast<int>(std::max_element(row + 5, row + width) - (row + 5));
      if (const float score = row[4] * row[5 + kind]; score > 0.35f)
        boxes.push_back(decode(row, cell, size / stride, stride, score, kind));
    }
  return best_of(boxes, 0.45f);
}

std::vector<Box> yunet(const std::map<std::string, const float *> &outputs, int size) {
  std::vector<Box> boxes;
  for (const int stride : {8, 16, 32}) {
    const std::string end = "_" + std::to_string(stride);
    const float *cls = outputs.at("cls" + end), *obj = outputs.at("obj" + end), *box = outputs.at("bbox" + end);
    for (int cell = 0; cell < (size / stride) * (size / stride); ++cell)
      if (const float score = std::sqrt(std::clamp(cls[cell], 0.f, 1.f) * std::clamp(obj[cell], 0.f, 1.f));
          score > 0.6f)
        boxes.push_back(decode(box + 4 * cell, cell, size / stride, stride, score, 0));
  }
  return best_of(boxes, 0.3f);
}
}  // namespace

int main(int argc, char **argv) try {
  if (argc < 4) return std::fprintf(stderr, "usage: detect MODEL IMAGE OUT.png [LABELS]\n"), 2;
  std::vector<std::string> labels;
  if (std::ifstream file(argc > 4 ? argv[4] : ""); file)
    for (std::string line; std::getline(file, line);) labels.push_back(line);
  const qr::Runtime runtime;
  const qr::Model model(runtime, argv[1]);
  qr::Session session(model);
  const int size = static_cast<int>(session.input(0).dims.at(3));
  const bool faces = session.output_count() == 12;

  // Letterbox: the whole picture, proportions kept, in the corner at the top left; planes of blue, green, red.
  Pixels image = read_image(argv[2]);
  const float side = static_cast<float>(size), w = static_cast<float>(image.width),
              h = static_cast<float>(image.height);
  const float scale = std::min(side / w, side / h);
  const Pixels small = resized(image, static_cast<int>(w * scale), static_cast<int>(h * scale));
  const std::size_t plane = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  std::vector<float> input(3 * plane, faces ? 0.f : 114.f);
  for (int y = 0; y < small.height; ++y)
    for (int x = 0; x < small.width; ++x)
      for (std::size_t c = 0; c < 3; ++c)
        input[c * plane + static_cast<std::size_t>(y * size + x)] = small.at(x, y)[2 - c];
  const std::vector<qr::Tensor> inputs{qr::Tensor::of(input.data(), {1, 3, size, size})};
  std::vector<qr::Tensor> outputs(session.output_count());
  session.run(inputs, outputs);
  std::map<std::string, const float *> named;
  for (std::size_t i = 0; i < outputs.size(); ++i) named[session.output(i).name] = outputs[i].data<float>();

  for (Box box : faces ? yunet(named, size) : yolox(outputs[0], size, labels.size())) {
    for (float *edge : {&box.left, &box.top, &box.right, &box.bottom}) *edge /= scale;
    const auto kind = static_cast<std::size_t>(box.kind);
    const std::string label = faces ? "face" : labels.empty() ? std::to_string(kind) : labels[kind];
    std::printf("%s %.2f [%.0f,%.0f,%.0f,%.0f]\n", label.c_str(), static_cast<double>(box.score),
                static_cast<double>(box.left), static_cast<double>(box.top), static_cast<double>(box.right),
                static_cast<double>(box.bottom));
    constexpr std::uint8_t kColours[][3] = {{255, 64, 64}, {64, 220, 64}, {80, 140, 255}, {255, 200, 0}};
    draw_box(image, box.left, box.top, box.right, box.bottom, kColours[kind % 4]);
  }
  return write_png(argv[3], image), 0;
} catch (const qr::Error &error) {
  return std::fprintf(stderr, "%s: %s\n  hint: %s\n", error.id().c_str(), error.message().c_str(),
                      error.hint().c_str()),
         3;
} catch (const std::exception &error) {
  return std::fprintf(stderr, "detect: %s\n", error.what()), 2;
}
