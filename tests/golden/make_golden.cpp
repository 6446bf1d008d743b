// SPDX-License-Identifier: Apache-2.0
// Writes the containers of a release: build/tests/golden/make-golden tests/golden/vX.Y. Run once per release, when the
// format is final; files that stand in the repository are never written again, whatever this program has become.
#include <fstream>
#include <filesystem>

#include "tests/unit/qrm/crafted.h"

namespace {

using namespace quarry;

void save(const std::filesystem::path &path, const void *data, std::size_t size) {
  if (std::filesystem::exists(path)) {
    std::printf("kept: %s\n", path.c_str());
    return;
  }
  std::ofstream(path, std::ios::binary).write(static_cast<const char *>(data), static_cast<std::streamsize>(size));
  std::printf("written: %s\n", path.c_str());
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: make-golden FOLDER\n"), 2;
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  const auto container = [&](const char *name, const std::function<void(qrm::Prologue &)> &change, const std::string &expected) {
    const Vector<std::uint8_t> bytes = test::Crafted().build(change);
    save(folder / (std::string(name) + ".qrm"), bytes.data(), bytes.size());
    save(folder / (std::string(name) + ".txt"), expected.data(), expected.size());
  };
  test::SampleContainer sample;
  const std::string listing(qir::print_graph(sample.sample.graph));
  container("sample", {}, listing);
  container("newer_minor", [](qrm::Prologue &p) { p.minor = 200; }, listing);
  container("from_the_future", [](qrm::Prologue &p) { p.major = 2; }, "QR-M0004 container: found format 2.0, expected 1.x");
  container("unknown_feature", [](qrm::Prologue &p) { p.minor = 3, p.required_features = 1u << 7; }, "QR-M0005 container: found required feature bit 7 (unknown to this version");
  const test::SampleContainer large_pages(qrm::Writer::kLargePageAlign);
  const Vector<std::uint8_t> bytes = large_pages.bytes();
  save(folder / "large_pages.qrm", bytes.data(), bytes.size());
  save(folder / "large_pages.txt", listing.data(), listing.size());
  return 0;
}
