// SPDX-License-Identifier: Apache-2.0
// Indices of elements as distances.
#pragma once

#include "backends/common/kernels/isa/kernels.h"

namespace quarry::kernels::QR_ISA {

inline constexpr std::int64_t kIndexBlock = 256;
// Rows of fewer columns are taken one behind the other.
inline constexpr std::int64_t kNarrow = 64;

// How far from the first of the table's rows the elements of a block are: index * inner, plus `column` where it is
// given. False where an index is out of range.
template <class Index, class Distance>
QR_INLINE bool distances(const Index *index, std::int64_t count, std::int64_t rows, std::int64_t inner,
                         const std::int32_t *column, Distance *to) noexcept {
  const auto extent = static_cast<Index>(rows);
  const auto step = static_cast<Distance>(inner);
  Index signs = 0;  // negative where one is out of range
  for (std::int64_t j = 0; j < count; ++j) {
    const Index given = index[j];
    signs |= (given + extent) | (extent - 1 - given);
    const auto at = static_cast<Distance>(given + (given < 0 ? extent : 0));
    to[j] = static_cast<Distance>(at * step + (column ? column[j] : 0));
  }
  return signs >= 0;
}

// Tells of the first index that is out of range, where there is one.
template <class Index>
void tell_bad_index(const Call &call, const Index *index, std::int64_t rows) noexcept {
  for (std::int64_t i = 0;; ++i)
    if (index[i] < -rows || index[i] >= rows) {
      call.bad_index[0] = index[i], call.bad_index[1] = i;
      return;
    }
}

}  // namespace quarry::kernels::QR_ISA
