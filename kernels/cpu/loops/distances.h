// SPDX-License-Identifier: Apache-2.0
// Indices of elements as distances.
#pragma once

#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

inline constexpr std::int64_t kIndexBlock = 256;
// Rows of fewer columns are taken one behind the other.
inline constexpr std::int64_t kNarrow = 64;

// What is added to distances within a block that lies in one row.
struct WideColumns {
  std::int32_t at[kIndexBlock];
  WideColumns() noexcept {
    for (std::int32_t j = 0; j < kIndexBlock; ++j) at[j] = j;
  }
};
// The same where rows are taken one behind the other: a block may begin at any of the first ones. Of short planes of
// indices several are in a block, which begins with one of them, as far as 32 bits reach.
struct NarrowColumns {
  std::int64_t together = 1;
  std::int32_t at[kIndexBlock + kNarrow];

  NarrowColumns(std::int64_t outer, std::int64_t rows, std::int64_t count, std::int64_t inner) noexcept {
    const std::int64_t line = count * inner, plane = rows * inner;
    if (line > 0 && line <= kIndexBlock / 2)
      together = max_of<std::int64_t>(1, min_of(min_of(kIndexBlock / line, outer), INT32_MAX / plane));
    const std::int64_t each = together > 1 ? line : min_of(line + inner, kIndexBlock + kNarrow);
    for (std::int64_t of = 0; of < together; ++of)
      for (std::int64_t j = 0, column = 0; j < each; ++j) {
        at[of * each + j] = static_cast<std::int32_t>(of * plane + column);
        if (++column == inner) column = 0;
      }
  }
};

// Indices of a table's rows. What moves elements has one body for each width of those: so indices are checked and made
// distances before, a block at a time, by one body for each width of theirs.
struct Indices {
  const std::byte *data;
  std::uint32_t bytes;      // of an index: 4 or 8
  std::int64_t rows, step;  // elements from row to row
  bool near = rows <= INT32_MAX / step;

  // How far from the first of the table's rows the elements [begin, begin + count) are: index * step + column, of 32
  // bits (`near`). False where an index is out of range. In gather_elements.cpp.
  bool distances(std::int64_t begin, std::int64_t count, const std::int32_t *column, std::int32_t *to) const noexcept;
  std::int64_t at(std::int64_t i) const noexcept {
    return bytes == 4 ? reinterpret_cast<const std::int32_t *>(data)[i]
                      : reinterpret_cast<const std::int64_t *>(data)[i];
  }
  bool inside(std::int64_t index) const noexcept { return index >= -rows && index < rows; }
  // Reports the first index that is out of range, where there is one.
  void report_bad(const Call &call) const noexcept {
    for (std::int64_t i = 0;; ++i)
      if (const std::int64_t index = at(i); !inside(index)) {
        call.bad_index[0] = index, call.bad_index[1] = i;
        return;
      }
  }

  // body(first, far, at, count) for the elements [begin, begin + count) of a block: element first + j is far + at[j]
  // elements from the first of the table's rows. Where 32 bits do not count the table's elements they come one by one.
  // False where an index is out of range.
  template <class Body>
  __attribute__((always_inline)) bool each(std::int64_t begin, std::int64_t count, const std::int32_t *column,
                                           Body &&body) const noexcept {
    std::int32_t to[kIndexBlock];
    if (near) {
      if (!distances(begin, count, column, to)) return false;
      body(begin, std::int64_t{0}, to, count);
      return true;
    }
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t index = at(begin + j);
      if (!inside(index)) return false;
      body(begin + j, (index + (index < 0 ? rows : 0)) * step, column + j, std::int64_t{1});
    }
    return true;
  }
};

// to[j] = from[at[j]], of elements of 1, 2, 4 or 8 bytes. In gather_elements.cpp.
using Pick = void (*)(const std::byte *from, const std::int32_t *at, std::int64_t count, std::byte *to) noexcept;
Pick pick_of(std::int64_t width) noexcept;

}  // namespace quarry::kernels::QR_ISA
