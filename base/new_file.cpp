// SPDX-License-Identifier: Apache-2.0
// What is the same for every system; the rest stands in base/os.
#include "base/new_file.h"

#include <algorithm>

#include "base/os_error.h"
#include "base/zeros.h"

namespace quarry {
namespace {

constexpr std::uint64_t kChunk = 64 << 10;

}  // namespace

Status NewFile::fail(int number, const char *doing) const {
  return Status::errorf(os_error_id(number, ErrorId::file_not_writable),
                        "%s%sfile '%s' cannot be written: %s failed: %s", subject_, subject_.empty() ? "" : ": ",
                        printable(path_, 1000), doing, os_error_text(number))
      .with("file", path_);
}

Status NewFile::write(const void *data, std::uint64_t size) {
  const char *from = static_cast<const char *>(data);
  while (size > 0) {
    // Runs of zero chunks become holes, the rest goes out in one piece.
    std::uint64_t run = in_place_ ? size : 0;
    while (run < size && !is_zero(from + run, std::min(kChunk, size - run))) run += std::min(kChunk, size - run);
    QR_RETURN_IF_ERROR(write_run(from, run));
    from += run;
    size -= run;
    while (size > 0 && is_zero(from, std::min(kChunk, size))) {
      const std::uint64_t hole = std::min(kChunk, size);
      at_ += hole;
      from += hole;
      size -= hole;
    }
  }
  return {};
}

Status NewFile::zeros(std::uint64_t size) {
  const char zeros[1024] = {};
  if (!in_place_) at_ += size;
  else
    for (; size > 0; size -= std::min<std::uint64_t>(size, sizeof zeros))
      QR_RETURN_IF_ERROR(write_run(zeros, std::min<std::uint64_t>(size, sizeof zeros)));
  return {};
}

Result<NewFile *> NewFiles::add(std::string_view path, int folder, int fd) {
  Unique<NewFile> file = quarry::make_unique<NewFile>(subject_);
  QR_RETURN_IF_ERROR(fd >= 0 ? file->open_descriptor(fd) : file->open(path, folder));
  files_.push_back(std::move(file));
  return files_.back().get();
}

Status write_file(std::string_view path, std::string_view bytes, std::string_view subject, NewFile::Outlasts what) {
  NewFile file(subject);
  QR_RETURN_IF_ERROR(file.open(path));
  QR_RETURN_IF_ERROR(file.write(bytes.data(), bytes.size()));
  QR_RETURN_IF_ERROR(file.close(what));
  return file.put_in_place();
}

}  // namespace quarry
