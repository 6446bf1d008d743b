// SPDX-License-Identifier: Apache-2.0
// As many vectors as one has lanes become one: lane i is vector i with its halves folded onto each other until one lane
// is left, as fold() does it, to the bit.
#pragma once

#include "kernels/cpu/vector/vec.h"

namespace quarry::kernels::QR_ISA {

// One level: of parts of `width` lanes the halves, first a's, then b's.
template <int width, class Join>
QR_INLINE VecF fold_two(VecF a, VecF b, Join &&join) noexcept {
#if QR_ISA_BYTES == 64
  if constexpr (width == 16)
    return join(VecF(__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)),
                VecF(__builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)));
  else if constexpr (width == 8)
    return join(VecF(__builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)),
                VecF(__builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)));
  else if constexpr (width == 4)
    return join(VecF(__builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)),
                VecF(__builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)));
  else
    return join(VecF(__builtin_shufflevector(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30)),
                VecF(__builtin_shufflevector(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31)));
#elif QR_ISA_BYTES == 32
  if constexpr (width == 8)
    return join(VecF(__builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)),
                VecF(__builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)));
  else if constexpr (width == 4)
    return join(VecF(__builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)),
                VecF(__builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)));
  else
    return join(VecF(__builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)),
                VecF(__builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)));
#else
  if constexpr (width == 4)
    return join(VecF(__builtin_shufflevector(a, b, 0, 1, 4, 5)), VecF(__builtin_shufflevector(a, b, 2, 3, 6, 7)));
  else return join(VecF(__builtin_shufflevector(a, b, 0, 4, 2, 6)), VecF(__builtin_shufflevector(a, b, 1, 5, 3, 7)));
#endif
}
template <int width, class Join>
QR_INLINE VecF fold_rows(VecF *rows, Join &&join) noexcept {
  if constexpr (width == 1) return rows[0];
  else {
    QR_UNROLL for (int i = 0; i < width / 2; ++i) rows[i] = fold_two<width>(rows[i], rows[i + width / 2], join);
    return fold_rows<width / 2>(rows, join);
  }
}

}  // namespace quarry::kernels::QR_ISA
