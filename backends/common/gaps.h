// SPDX-License-Identifier: Apache-2.0
// Room in memory that is planned: what comes takes the smallest gap that is large enough, in logarithmic time. For
// cpu-reference, and for graphs of so many tensors that a search among all of them takes too long; for fewer, planners
// look for better places.
#pragma once

#include <iterator>
#include <set>

#include "base/alloc.h"

namespace quarry {

class Gaps {
 public:
  static constexpr std::size_t kMany = 2048;  // tensors

  std::uint64_t take(std::uint64_t size) {
    std::uint64_t offset = 0;
    take(size, UINT64_MAX, &offset);
    return offset;
  }
  // False: it would end behind `limit`. What begins at 0 may.
  bool take(std::uint64_t size, std::uint64_t limit, std::uint64_t *offset) {
    const auto fit = by_size_.lower_bound({size, 0});
    if (fit != by_size_.end()) {
      const std::uint64_t length = fit->first;
      *offset = fit->second;
      remove(*offset, length);
      if (length > size) add(*offset + size, length - size);
      return true;
    }
    *offset = end_;
    const auto last = by_offset_.empty() ? by_offset_.end() : std::prev(by_offset_.end());
    const bool at_end = last != by_offset_.end() && last->first + last->second == end_;
    if (at_end) *offset = last->first;
    if (*offset > 0 && (size > limit || *offset > limit - size)) return false;
    if (at_end) remove(last->first, last->second);
    end_ = *offset + size;
    return true;
  }
  void give_back(std::uint64_t offset, std::uint64_t size) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + size) {
      size += next->second;
      next = remove(next->first, next->second);
    }
    if (next != by_offset_.begin()) {
      const auto [before, length] = *std::prev(next);
      if (before + length == offset) {
        remove(before, length);
        offset = before, size += length;
      }
    }
    add(offset, size);
  }
  std::uint64_t end() const noexcept { return end_; }  // the most that was taken

 private:
  using ByOffset = OrderedMap<std::uint64_t, std::uint64_t>;
  using Gap = std::pair<std::uint64_t, std::uint64_t>;  // size, offset

  void add(std::uint64_t offset, std::uint64_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  ByOffset::iterator remove(std::uint64_t offset, std::uint64_t size) {  // by value: what they are read from goes
    by_size_.erase({size, offset});
    return by_offset_.erase(by_offset_.find(offset));
  }

  ByOffset by_offset_;
  std::set<Gap, std::less<>, Alloc<Gap>> by_size_;
  std::uint64_t end_ = 0;
};

}  // namespace quarry
