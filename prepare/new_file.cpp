// SPDX-License-Identifier: Apache-2.0
#include "prepare/new_file.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

#include "base/os_error.h"

namespace quarry::prepare {

NewFile::~NewFile() {
  if (file_) std::fclose(file_);
  if (!placed_ && !part_.empty()) std::remove(part_.c_str());
  if (!before_.empty()) std::remove(before_.c_str());
}

Status NewFile::failed(int number) const {
  return Status::error(
             os_error_id(number, ErrorId::file_not_writable),
             format("'%s' cannot be written: %s", printable(path_, 1000).c_str(), os_error_text(number).c_str()))
      .with("file", path_);
}

Status NewFile::open(std::string_view path) {
  path_ = path;
  part_ = format("%s.part%ld", path_.c_str(), static_cast<long>(getpid()));
  file_ = std::fopen(part_.c_str(), "wb");
  if (file_) return {};
  part_.clear();
  return failed(errno);
}

Status NewFile::write(const void *data, std::uint64_t size) {
  return size == 0 || std::fwrite(data, 1, size, file_) == size ? Status() : failed(errno);
}

Status NewFile::zeros(std::uint64_t count) {
  static constexpr char kZeros[4096] = {};
  for (; count > 0; count -= std::min<std::uint64_t>(count, sizeof kZeros))
    QR_RETURN_IF_ERROR(write(kZeros, std::min<std::uint64_t>(count, sizeof kZeros)));
  return {};
}

Status NewFile::close() {
  std::FILE *file = file_;
  file_ = nullptr;
  return std::fclose(file) == 0 ? Status() : failed(errno);
}

Status NewFile::put_in_place() {
  const String before = format("%s.old%ld", path_.c_str(), static_cast<long>(getpid()));
  if (link(path_.c_str(), before.c_str()) == 0) before_ = before;
  if (std::rename(part_.c_str(), path_.c_str()) != 0) return failed(errno);
  placed_ = true;
  return {};
}

void NewFile::undo() noexcept {
  if (!placed_) return;
  if (before_.empty()) std::remove(path_.c_str());
  else if (std::rename(before_.c_str(), path_.c_str()) == 0) before_.clear();
}

}  // namespace quarry::prepare
