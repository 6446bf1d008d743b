// SPDX-License-Identifier: Apache-2.0
// Containers over 2 GiB and over 4 GiB: written from memory that was never touched, so that the file is almost all
// hole, and read at both ends. Skipped, with the reason, where the disk cannot hold sparse files.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "formats/qrm/qrm.h"
#include "tests/support/check.h"

namespace quarry {
namespace {

// `holes`: contents that need no memory. The last byte is set, and the segment behind it says whether offsets hold.
void write_and_read(std::uint64_t size, bool verify) {
  void *zeros = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (zeros == MAP_FAILED) {
    std::printf("skipped: no address space for %llu bytes\n", static_cast<unsigned long long>(size));
    return;
  }
  static_cast<char *>(zeros)[size - 1] = 'z';
  std::string name = (std::filesystem::temp_directory_path() / "quarry-large-XXXXXX").string();
  const std::filesystem::path folder = ::mkdtemp(name.data());
  const std::string path = (folder / "large.qrm").string();

  qrm::Writer writer;
  const char last[] = "the last segment";
  CHECK_EQ(*writer.add_segment(qrm::SegmentKind::Weights, "large", {zeros, size}), 0u);
  CHECK_EQ(*writer.add_segment(qrm::SegmentKind::Blob, "last", {last, 16}), 1u);
  qrm::Metadata metadata;
  metadata.graphs.emplace_back();
  metadata.graphs[0].segments = {0};
  const Status written = writer.write_file(path, metadata);
  struct stat info {};
  ::stat(path.c_str(), &info);
  if (written.id() == "QR-F0007") {
    std::printf("skipped: %s\n", std::string(written.message()).c_str());
  } else if (CHECK_OK(written)) {
    CHECK(static_cast<std::uint64_t>(info.st_size) > size);
    CHECK(static_cast<std::uint64_t>(info.st_blocks) * 512 < (1u << 20));
    Result<qrm::RawFile> file = qrm::RawFile::open_path(path);
    if (CHECK_OK(file)) {
      Result<qrm::ValidatedModel> model = qrm::ValidatedModel::open(std::move(*file));
      if (CHECK_OK(model)) {
        const Result<qir::Bytes> bytes = model->segment(1);
        if (CHECK_OK(bytes))
          CHECK_EQ(std::string_view(static_cast<const char *>(bytes.value().data), bytes.value().size),
                   std::string_view(last));
        CHECK_EQ(model->segments()[0].size, size);
        CHECK(model->segments()[1].offset > size);
        CHECK(*(static_cast<const char *>(bytes.value().data) - 64) == 0);
        if (verify) CHECK_OK(model->verify());
      }
    }
  }
  std::filesystem::remove_all(folder);
  ::munmap(zeros, size);
}

TEST_CASE("over 2 gib") { write_and_read((std::uint64_t{2} << 30) + 4097, true); }
TEST_CASE("over 4 gib") { write_and_read((std::uint64_t{4} << 30) + 12345, false); }

}  // namespace
}  // namespace quarry
