// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic on sizes that come from files: every operation says whether it fitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace quarry {

template <class T>
[[nodiscard]] inline bool checked_add(T a, T b, T *out) noexcept {
  return !__builtin_add_overflow(a, b, out);
}
template <class T>
[[nodiscard]] inline bool checked_mul(T a, T b, T *out) noexcept {
  return !__builtin_mul_overflow(a, b, out);
}

// True when [offset, offset + size) lies inside [0, total).
[[nodiscard]] inline bool range_fits(std::uint64_t offset, std::uint64_t size, std::uint64_t total) noexcept {
  return offset <= total && size <= total - offset;
}

// `align` is a power of two.
[[nodiscard]] inline bool checked_align_up(std::uint64_t value, std::uint64_t align, std::uint64_t *out) noexcept {
  std::uint64_t sum;
  if (!checked_add<std::uint64_t>(value, align - 1, &sum)) return false;
  *out = sum & ~(align - 1);
  return true;
}

// The number of elements of a shape; nothing when a dimension is negative or the product exceeds int64.
[[nodiscard]] inline std::optional<std::int64_t> element_count(const std::int64_t *dims, std::size_t rank) noexcept {
  std::int64_t count = 1;
  bool zero = false;
  for (std::size_t i = 0; i < rank; ++i) {
    if (dims[i] < 0) return std::nullopt;
    if (dims[i] == 0) zero = true;
    else if (!checked_mul<std::int64_t>(count, dims[i], &count)) return std::nullopt;
  }
  return zero ? 0 : count;
}

}  // namespace quarry
