// SPDX-License-Identifier: Apache-2.0
// Stands in for libFuzzer: gives a target every file of the folders named, and every file cut and damaged in a fixed
// way.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

int main(int argc, char **argv) {
  std::size_t files = 0, inputs = 0;
  std::mt19937 random(1);
  const auto give = [&](const std::vector<std::uint8_t> &bytes) {
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ++inputs;
  };
  for (int i = 1; i < argc; ++i)
    for (const auto &entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      ++files;
      std::ifstream in(entry.path(), std::ios::binary);
      const std::vector<std::uint8_t> bytes((std::istreambuf_iterator<char>(in)), {});
      give(bytes);
      for (int round = 0; round < 200 && !bytes.empty(); ++round) {
        std::vector<std::uint8_t> damaged = bytes;
        for (unsigned n = 1 + random() % 4; n; --n)
          damaged[random() % damaged.size()] = static_cast<std::uint8_t>(random());
        if (round % 4 == 0) damaged.resize(random() % damaged.size());
        give(damaged);
      }
    }
  std::printf("%zu inputs from %zu files\n", inputs, files);
  return files == 0;  // a corpus that was not found proves nothing
}
