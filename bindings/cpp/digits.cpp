// SPDX-License-Identifier: Apache-2.0
// Reads handwritten digits: every held-out image of models/digits through each model given, with the answers compared
// to the labels and to ONNX Runtime's stored scores. Exit status 0: at least 97 % right and every answer equal to ONNX
// Runtime's.
//   digits models/digits digits.onnx digits.qrm
#include <quarry/quarry.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// The data of a .npy file that train.py wrote.
template <class T>
std::vector<T> load(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  if (file.size() < 10 || file.compare(1, 5, "NUMPY") != 0) throw std::runtime_error("cannot read '" + path + "'");
  const size_t start = 10 + static_cast<uint8_t>(file[8]) + 256u * static_cast<uint8_t>(file[9]);
  if (start > file.size()) throw std::runtime_error("'" + path + "' is cut short");
  std::vector<T> values((file.size() - start) / sizeof(T));
  std::memcpy(values.data(), file.data() + start, values.size() * sizeof(T));
  return values;
}

void show(const uint8_t *pixels, int answer, int label) {
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 8; ++x) {
      const char shade = " .:-=+*#%@"[pixels[y * 8 + x] * 9 / 255];
      std::printf("%c%c", shade, shade);
    }
    std::printf(y == 3 ? "   answer %d, written as %d%s\n" : "\n", answer, label,
                answer == label ? "" : "   <-- wrong");
  }
}

}  // namespace

int main(int argc, char **argv) try {
  if (argc < 3) return std::fprintf(stderr, "usage: digits FOLDER MODEL...\n"), 2;
  const std::string folder = argv[1];
  const auto images = load<uint8_t>(folder + "/test_images.npy"), labels = load<uint8_t>(folder + "/test_labels.npy");
  const auto expected = load<float>(folder + "/ort_scores.npy");
  const size_t count = labels.size();
  if (images.size() != count * 64 || expected.size() != count * 10)
    throw std::runtime_error("the files in '" + folder + "' do not belong together");
  bool good = true;
  const qr::Runtime runtime;
  for (int m = 2; m < argc; ++m) {
    const qr::Model model(runtime, argv[m]);
    qr::Session session(model);
    std::vector<float> input(64), scores(10);
    const std::vector<qr::Tensor> inputs{qr::Tensor::of(input.data(), {1, 1, 8, 8})};
    std::vector<qr::Tensor> outputs{qr::Tensor::of(scores.data(), {1, 10})};
    size_t right = 0, same = 0;
    float worst = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint8_t *pixels = images.data() + i * 64;
      std::transform(pixels, pixels + 64, input.begin(),
                     [](uint8_t pixel) { return static_cast<float>(pixel) / 255.0f; });
      session.run(inputs, outputs);
      const float *theirs = expected.data() + i * 10;
      const auto answer = std::max_element(scores.begin(), scores.end()) - scores.begin(),
                 other = std::max_element(theirs, theirs + 10) - theirs;
      right += answer == labels[i];
      same += answer == other;
      for (int k = 0; k < 10; ++k) worst = std::max(worst, std::fabs(scores[static_cast<size_t>(k)] - theirs[k]));
      if (m == 2 && (i < 3 || answer != labels[i])) show(pixels, static_cast<int>(answer), labels[i]);
    }
    std::printf("%s: %zu of %zu right (%.1f %%); %zu answers equal to ONNX Runtime's, scores differ by at most %.1e\n",
                argv[m], right, count, 100.0 * static_cast<double>(right) / static_cast<double>(count), same,
                static_cast<double>(worst));
    good = good && right * 100 >= count * 97 && same == count;
  }
  return good ? 0 : 1;
} catch (const qr::Error &error) {
  std::fprintf(stderr, "%s: %s\n  hint: %s\n", error.id().c_str(), error.message().c_str(), error.hint().c_str());
  return 3;
} catch (const std::exception &error) {
  return std::fprintf(stderr, "digits: %s\n", error.what()), 2;
}
