// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/record/file.h"

#include <cerrno>
#include <cstring>

#include "base/hash.h"
#include "base/os/file.h"
#include "base/os/file_lock.h"
#include "base/os/growing_file.h"
#include "base/os_error.h"

namespace quarry::record {

std::uint64_t entry_sum(const EntryHead &head, const void *first, std::uint64_t first_size, const void *second,
                        std::uint64_t second_size) noexcept {
  Hasher64 hasher;
  hasher.add(&head, offsetof(EntryHead, sum));
  if (first_size > 0) hasher.add(first, first_size);
  if (second_size > 0) hasher.add(second, second_size);
  return hasher.sum();
}

Status RecordFile::open(std::string_view path, const Head &head) {
  path_ = path;
  const auto failed = [&](int number, const char *doing) {
    return Status::error(os_error_id(number, ErrorId::file_not_writable),
                         format("option htp.record: file '%s' cannot be written: %s failed: %s", printable(path_, 1000),
                                doing, os_error_text(number)));
  };
  fd_ = os::open_growing(path_.c_str());
  if (fd_.get() < 0) return failed(errno, "opening");
  os::FileInfo info;
  if (!os::get_info(fd_.get(), &info)) return failed(errno, "opening");
  char magic[sizeof kMagic] = {};
  const bool is_record =
      info.kind == os::FileKind::Regular && (info.size == 0 || (os::read_at(fd_.get(), magic, sizeof magic, 0) == 0 &&
                                                                std::memcmp(magic, kMagic, sizeof magic) == 0));
  if (!is_record)
    return Status::error(ErrorId::bad_option_value,
                         format("option htp.record: found a file '%s' that is no record, expected a new file or an "
                                "older record, which is replaced",
                                printable(path_, 1000)),
                         "name another file");
  if (os::try_lock(fd_.get()) == os::LockTaken::Busy)
    return Status::error(ErrorId::option_conflict,
                         format("option htp.record: another process records into '%s', expected one for each file",
                                printable(path_, 1000)),
                         "name a file for each process; with compile.process=child leave htp.record out");
  if (const int number = os::make_empty(fd_.get())) return failed(number, "emptying");
  if (const int number = os::append(fd_.get(), &head, sizeof head)) return failed(number, "writing");
  keeps_weights_ = head.flags & kKeepsWeights;
  return {};
}

void RecordFile::put(EntryKind kind, const void *head, std::uint64_t head_size, const void *content,
                     std::uint64_t size) {
  if (error_) return;
  EntryHead entry{static_cast<std::uint32_t>(kind), 0, head_size + size, 0};
  entry.sum = entry_sum(entry, head, head_size, content, size);
  // One write of all that is small: what another thread's crash leaves is whole then.
  Vector<std::uint8_t> first(sizeof entry + head_size);
  std::memcpy(first.data(), &entry, sizeof entry);
  std::memcpy(first.data() + sizeof entry, head, head_size);
  constexpr std::uint64_t kSmall = 64 << 10;
  const auto *const from = static_cast<const std::uint8_t *>(content);
  if (size <= kSmall) first.insert(first.end(), from, from + size);
  error_ = os::append(fd_.get(), first.data(), first.size());
  if (!error_ && size > kSmall) error_ = os::append(fd_.get(), content, size);
}

std::uint64_t RecordFile::keep(const void *data, std::uint64_t size, bool is_weight) {
  const std::uint64_t sum = hash64(data, size);
  const auto [place, is_new] = numbers_.emplace(std::pair(sum, size), bytes_entries_ + 1);
  if (!is_new) return place->second;
  ++bytes_entries_;
  const BytesHead head{size, sum, keeps_weights_ || !is_weight};
  put(EntryKind::Bytes, &head, sizeof head, data, head.kept ? size : 0);
  return bytes_entries_;
}

void RecordFile::add(EntryKind kind, const CallHead &call, const void *content, std::uint64_t size) {
  put(kind, &call, sizeof call, content, size);
}

}  // namespace quarry::record
