// SPDX-License-Identifier: Apache-2.0
#include "base/target_writer.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "base/os/file.h"
#include "base/os/path.h"
#include "base/os_error.h"
#include "base/stop.h"
#include "base/text.h"

namespace quarry {
namespace {

constexpr std::uint64_t kPiece = 4 << 20;  // who is to stop is asked as often

std::string_view view(const qr_string &text) noexcept {
  if (!text.data) return {};
  return text.size == QR_NUL_TERMINATED ? std::string_view(text.data) : std::string_view(text.data, text.size);
}

}  // namespace

qr_target target_at(std::string_view path) noexcept {
  qr_target target = QR_TARGET_AT(path.data());
  target.path.size = path.size();
  return target;
}

Status TargetWriter::check(const char *function, const qr_target &target) {
  const std::string_view path = view(target.path);
  const char *missing = !target.path.data && target.path.size ? "path.data" : nullptr;
  const char *number = nullptr, *expected = "";
  std::int32_t found = 0;
  switch (target.kind) {
    case QR_TARGET_PATH:
      if constexpr (!os::kDescriptorsAreShared)
        if (target.folder_fd >= 0) return no_descriptors(function, "give a path with its folder");
      break;
    case QR_TARGET_MEMORY:
      if (!target.out_size_bytes) missing = "out_size_bytes";
      if (!target.out_data) missing = "out_data";
      break;
    case QR_TARGET_DESCRIPTOR:
      if constexpr (!os::kDescriptorsAreShared)
        return no_descriptors(function, "give a path, or write in a QR_TARGET_BY_WRITER");
      if (target.fd < 0) number = "fd", found = target.fd, expected = "an open descriptor";
      break;
    case QR_TARGET_WRITER:
      if (!target.write) missing = "write";
      break;
    default: number = "kind", found = static_cast<std::int32_t>(target.kind), expected = "a QR_TARGET_*";
  }
  if (missing)
    return Status::errorf(ErrorId::null_argument, "%s: target->%s is NULL, expected a pointer", function, missing);
  if (number)
    return Status::errorf(ErrorId::bad_argument, "%s: target->%s is %d, expected %s", function, number, found,
                          expected);
  if (path.find('\0') != path.npos)
    return Status::errorf(ErrorId::not_utf8, "%s: target->path is not a path without NUL bytes: \"%s\"", function,
                          printable(path));
  if (target.kind == QR_TARGET_PATH && path.empty())
    return Status::errorf(ErrorId::bad_argument, "%s: target->path is empty, expected a file", function);
  return {};
}

TargetWriter::TargetWriter(const char *function, const qr_target &target, std::string_view fallback,
                           NewFile::Outlasts outlasts, std::string_view subject)
    : function_(function), to_(target), outlasts_(outlasts), files_(subject) {
  const std::string_view path = view(to_.path);
  const std::size_t name = os::last_separator(path) + 1;
  folder_ = path.substr(0, name);
  name_ = name < path.size() || to_.kind == QR_TARGET_PATH ? path.substr(name) : fallback;
}

TargetWriter::~TargetWriter() {
  if (!done_) (void)take_back();
}

Status TargetWriter::told(std::int32_t answer, const char *member) {
  return answer == 0 ? Status() : callback_error(function_, member, answer, ErrorId::target_refused);
}

Status TargetWriter::whole() {
  return left_ == 0 ? Status() : Status::error(ErrorId::internal, "left out bytes of a file that it had promised");
}

Status TargetWriter::begin(std::string_view name, std::uint64_t size, std::uint64_t more) {
  QR_RETURN_IF_ERROR(whole());
  QR_RETURN_IF_ERROR(stop_status(function_));
  if (name != name_ && (name.empty() || name == "." || name == ".." || os::last_separator(name) != name.npos))
    return Status::error(ErrorId::internal, "gave a file a name that is none");
  if (name != name_ && !is_utf8(name))
    return Status::hinted(ErrorId::not_utf8, "give the model a name in UTF-8",
                          "%s: the file beside the model would be called \"%s\", which a model cannot say", function_,
                          printable(name));
  const bool takes_one = to_.kind == QR_TARGET_MEMORY || to_.kind == QR_TARGET_DESCRIPTOR;
  if (takes_one && (begun_ || more > 0))
    return Status::error(ErrorId::bad_argument,
                         "target->kind: it takes one file, and there are several that belong together",
                         "name a path, or take them by a writer");
  if (size >= PTRDIFF_MAX) return Status::out_of_memory(function_);  // no file has so many
  left_ = size;
  bytes_ += size;
  switch (to_.kind) {
    case QR_TARGET_PATH:
    case QR_TARGET_DESCRIPTOR: {
      String path(folder_);
      path += name;
      QR_ASSIGN_OR_RETURN(file_, files_.add(path, to_.folder_fd, to_.kind == QR_TARGET_PATH ? -1 : to_.fd));
      break;
    }
    case QR_TARGET_MEMORY:
      block_ = static_cast<char *>(allocate_block(static_cast<std::size_t>(size) + 1, 64));
      block_[size] = '\0';
      size_ = size;
      break;
    default:
      begun_ = true;
      if (to_.begin) return told(to_.begin(to_.self, {name.data(), name.size()}, size, more), "target->begin");
  }
  begun_ = true;
  return {};
}

Status TargetWriter::write(const void *data, std::uint64_t size) {
  if (size > left_) return Status::error(ErrorId::internal, "gave more bytes of a file than it had promised");
  for (const char *at = static_cast<const char *>(data); size > 0;) {
    const std::uint64_t part = std::min(size, kPiece);
    QR_RETURN_IF_ERROR(stop_status(function_));
    QR_RETURN_IF_ERROR(data ? put(at, part) : put_zeros(part));
    if (data) at += part;
    size -= part;
    left_ -= part;
  }
  return {};
}

Status TargetWriter::put(const void *data, std::uint64_t size) {
  if (file_) return file_->write(data, size);
  if (to_.kind == QR_TARGET_WRITER) return told(to_.write(to_.self, data, size), "target->write");
  std::memcpy(block_ + (size_ - left_), data, static_cast<std::size_t>(size));
  return {};
}

Status TargetWriter::put_zeros(std::uint64_t size) {
  if (file_) return file_->zeros(size);
  if (to_.kind == QR_TARGET_WRITER) {
    const char zeros[8192] = {};
    for (; size > 0; size -= std::min<std::uint64_t>(size, sizeof zeros))
      QR_RETURN_IF_ERROR(put(zeros, std::min<std::uint64_t>(size, sizeof zeros)));
    return {};
  }
  std::memset(block_ + (size_ - left_), 0, static_cast<std::size_t>(size));
  return {};
}

Status TargetWriter::commit() {
  switch (to_.kind) {
    case QR_TARGET_PATH:
    case QR_TARGET_DESCRIPTOR: return files_.put_in_place(outlasts_);
    case QR_TARGET_MEMORY:
      *to_.out_data = std::exchange(block_, nullptr);
      *to_.out_size_bytes = size_;
      return {};
    default:
      if (!begun_ || !to_.end) return {};
      begun_ = false;  // it is reported once
      return told(to_.end(to_.self, 1), "target->end");
  }
}

std::uint64_t TargetWriter::take_back() noexcept {
  done_ = true;
  free_block(std::exchange(block_, nullptr));
  if (to_.kind == QR_TARGET_WRITER && begun_ && to_.end) (void)to_.end(to_.self, 0);
  return to_.kind == QR_TARGET_DESCRIPTOR && file_ ? file_->take_back() : 0;
}

Status TargetWriter::finish(Status made) {
  if (made.ok()) made = whole();
  if (made.ok()) made = commit();
  if (!made.ok())
    if (const std::uint64_t stay = take_back()) made.with("written", format("%" PRIu64, stay));
  done_ = true;
  return made;
}

}  // namespace quarry
