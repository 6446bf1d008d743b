// SPDX-License-Identifier: Apache-2.0
// The spans of memory that a run reads or writes, to find those that overlap without looking at each pair.
#pragma once

#include <cstdint>

#include "base/alloc.h"
#include "quarry/backend.h"

namespace quarry {

// `space`: null for what the host sees; other memory is distinguished by its registration, and counts from its begin.
struct Span {
  const void *space;
  std::uint64_t begin, end;

  bool overlaps(const Span &other) const noexcept {
    return space == other.space && begin < other.end && other.begin < end;
  }
};

inline Span span_of(const void *data, std::uint64_t bytes) noexcept {
  const std::uint64_t begin = reinterpret_cast<std::uintptr_t>(data);
  return {nullptr, begin, begin + bytes};
}

// The first `bytes` of a buffer.
inline Span span_of(const qr_io_buffer &buffer, std::uint64_t bytes) noexcept {
  if (buffer.data || !buffer.memory) return span_of(buffer.data, bytes);
  return {buffer.memory, buffer.memory_offset, buffer.memory_offset + bytes};
}

class SpanSet {
 public:
  explicit SpanSet(std::size_t most) { spans_.reserve(most); }

  void clear() noexcept { spans_.clear(); }
  // At most as many as the set was made for: it allocates nothing.
  void add(const Span &span) noexcept {
    if (span.begin < span.end) spans_.push_back(span);
  }
  // After the last add. Whether two of them overlap; those that do, or touch, are one from then on.
  bool join() noexcept { return spans_.size() > 1 && join_many(); }
  bool overlaps(const Span &span) const noexcept {
    return spans_.size() == 1 ? spans_[0].overlaps(span) : !spans_.empty() && overlaps_one_of_many(span);
  }

 private:
  bool join_many() noexcept;
  bool overlaps_one_of_many(const Span &span) const noexcept;

  Vector<Span> spans_;
};

}  // namespace quarry
