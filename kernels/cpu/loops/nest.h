// SPDX-License-Identifier: Apache-2.0
// Walks a loop nest over several operands in rows of its innermost dimension.
#pragma once

#include "kernels/cpu/vector/vec.h"

namespace quarry::kernels::QR_ISA {

// Elements [begin, end) of a dense result, in rows of at most `longest`: row(at, offsets, count), where offsets[i] is
// the place of the row's first element in operand i.
template <int operands, class Row>
QR_INLINE void walk_rows(std::uint32_t rank, const std::int64_t *dims, const std::int64_t (*strides)[kLoopRank],
                         std::int64_t begin, std::int64_t end, std::int64_t longest, Row &&row) noexcept {
  const int last = static_cast<int>(rank) - 1;
  std::int64_t index[kLoopRank], offsets[operands] = {}, rest = begin;
  for (int i = last; i >= 0; --i) {
    index[i] = rest % dims[i];
    rest /= dims[i];
    for (int k = 0; k < operands; ++k) offsets[k] += index[i] * strides[k][i];
  }
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t count = min_of(min_of(dims[last] - index[last], end - at), longest);
    row(at, offsets, count);
    at += count;
    index[last] += count;
    for (int k = 0; k < operands; ++k) offsets[k] += count * strides[k][last];
    for (int i = last; i > 0 && index[i] == dims[i]; --i) {
      for (int k = 0; k < operands; ++k) offsets[k] += strides[k][i - 1] - dims[i] * strides[k][i];
      index[i] = 0;
      ++index[i - 1];
    }
  }
}

}  // namespace quarry::kernels::QR_ISA
