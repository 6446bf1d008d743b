// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/record/reader.h"

#include <cerrno>
#include <cstring>

#include "backends/htp/record/file.h"
#include "base/checked.h"
#include "base/hash.h"
#include "base/os/file.h"
#include "base/os/mapping.h"
#include "base/os_error.h"

namespace quarry::record {

namespace {

constexpr char kCopyAgain[] = "copy the file again, in binary mode, or record again (option htp.record)";

Status damaged(std::string_view path, std::uint64_t at, const char *found) {
  return Status::error(
      ErrorId::unknown_format,
      format("%s: found %s at byte %llu, expected an entry of a record of calls", printable(path, 1000), found, at),
      kCopyAgain);
}

}  // namespace

Reader::~Reader() {
  if (base_) os::unmap(base_, static_cast<std::size_t>(size_));
}

Result<Unique<Reader>> Reader::open(std::string_view path) {
  const String name(path);
  const OpenFd file = os::open_file(name.c_str());
  os::FileInfo info;
  if (file.get() < 0 || !os::get_info(file.get(), &info)) {
    const int number = errno;
    return Status::error(
        os_error_id(number, ErrorId::io_error),
        format("%s: %s; expected a record of calls (option htp.record)", printable(path, 1000), os_error_text(number)));
  }
  if (info.kind != os::FileKind::Regular)
    return Status::error(ErrorId::not_a_file,
                         format("%s: found no regular file, expected a record of calls", printable(path, 1000)));
  auto made = quarry::make_unique<Reader>();
  made->size_ = info.size;
  if (info.size > SIZE_MAX) return Status::out_of_memory("a record's mapping");
  if (info.size > 0) {
    made->base_ = os::map_file(file.get(), 0, static_cast<std::size_t>(info.size), os::MappedFor::Reading);
    if (!made->base_) {
      const int number = errno;
      return Status::error(os_error_id(number, ErrorId::io_error),
                           format("%s: mapping failed: %s", printable(path, 1000), os_error_text(number)));
    }
  }
  QR_RETURN_IF_ERROR(made->read(path));
  return made;
}

Status Reader::read(std::string_view path) {
  const auto *const bytes = static_cast<const std::uint8_t *>(base_);
  if (size_ < sizeof kMagic || std::memcmp(bytes, kMagic, sizeof kMagic) != 0)
    return Status::error(
        ErrorId::unknown_format,
        format("%s: found no record of calls, expected a file of option htp.record", printable(path, 1000)),
        "a record is what that option writes; models are run by sessions");
  if (size_ < offsetof(Head, flags)) return damaged(path, 0, "a head that ends too early");
  std::memcpy(&head_, bytes, offsetof(Head, flags));
  if (head_.version != kVersion)
    return Status::error(
        ErrorId::qrm_too_new,
        format("%s: found a record of version %u, expected %u", printable(path, 1000), head_.version, kVersion),
        "replay it with the release of Quarry that wrote it, or record again");
  if (size_ < sizeof head_) return damaged(path, 0, "a head that ends too early");
  std::memcpy(&head_, bytes, sizeof head_);
  if (head_.sum != hash64(&head_, offsetof(Head, sum))) return damaged(path, 0, "a head whose sum is another");
  head_.build[sizeof head_.build - 1] = head_.quarry[sizeof head_.quarry - 1] = '\0';
  for (std::uint64_t at = sizeof head_; at < size_;) {
    EntryHead entry;
    if (!range_fits(at, sizeof entry, size_)) {
      cut_at_ = at;
      break;
    }
    std::memcpy(&entry, bytes + at, sizeof entry);
    if (!range_fits(at + sizeof entry, entry.size, size_)) {
      cut_at_ = at;
      break;
    }
    const Span content{bytes + at + sizeof entry, entry.size};
    if (entry.sum != entry_sum(entry, content.data, content.size, nullptr, 0))
      return damaged(path, at, "an entry whose sum is another");
    QR_RETURN_IF_ERROR(add(path, at, entry, content));
    at += sizeof entry + entry.size;
  }
  return {};
}

Status Reader::add(std::string_view path, std::uint64_t at, const EntryHead &entry, Span content) {
  const auto kind = static_cast<EntryKind>(entry.kind);
  if (kind == EntryKind::Bytes) {
    BytesHead head;
    if (content.size < sizeof head) return damaged(path, at, "bytes without a head");
    std::memcpy(&head, content.data, sizeof head);
    if (head.kept > 1 || content.size - sizeof head != (head.kept ? head.size : 0))
      return damaged(path, at, "bytes of another size");
    if (!head.kept && !checked_add<std::uint64_t>(left_out_, head.size, &left_out_))
      return damaged(path, at, "bytes of another size");
    kept_.push_back({head.size, head.sum, head.kept ? content.data + sizeof head : nullptr});
    return {};
  }
  if (kind < EntryKind::Call || kind > EntryKind::Line) return damaged(path, at, "an entry of no known kind");
  Entry made{kind, {}, {}};
  if (content.size < sizeof made.head) return damaged(path, at, "an entry without a head");
  std::memcpy(&made.head, content.data, sizeof made.head);
  made.content = {content.data + sizeof made.head, content.size - sizeof made.head};
  entries_.push_back(made);
  return {};
}

}  // namespace quarry::record
