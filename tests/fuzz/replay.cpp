// SPDX-License-Identifier: Apache-2.0
// Stands in for libFuzzer: gives a target every file named or in a folder named, and every file cut and damaged in a
// fixed way, 200 times each or as often as --rounds=N says.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

int main(int argc, char **argv) {
  namespace fs = std::filesystem;
  std::size_t files = 0, inputs = 0;
  int rounds = 200;
  std::mt19937 random(1);
  const auto give = [&](const std::vector<std::uint8_t> &bytes) {
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ++inputs;
  };
  const auto replay = [&](const fs::path &path) {
    ++files;
    std::ifstream in(path, std::ios::binary);
    const std::vector<std::uint8_t> bytes((std::istreambuf_iterator<char>(in)), {});
    give(bytes);
    for (int round = 0; round < rounds && !bytes.empty(); ++round) {
      std::vector<std::uint8_t> damaged = bytes;
      for (unsigned n = 1 + random() % 4; n; --n)
        damaged[random() % damaged.size()] = static_cast<std::uint8_t>(random());
      if (round % 4 == 0) damaged.resize(random() % damaged.size());
      give(damaged);
    }
  };
  for (int i = 1; i < argc; ++i) {
    const std::size_t before = files;
    if (std::string_view(argv[i]).starts_with("--rounds=")) {
      rounds = std::atoi(argv[i] + 9);
      continue;
    }
    if (fs::is_regular_file(argv[i])) replay(argv[i]);
    else
      for (const auto &entry : fs::recursive_directory_iterator(argv[i]))
        if (entry.is_regular_file()) replay(entry.path());
    if (files == before) return std::fprintf(stderr, "%s: no file to replay\n", argv[i]), 1;  // proves nothing
  }
  std::printf("%zu inputs from %zu files\n", inputs, files);
  return files == 0;
}
