// SPDX-License-Identifier: Apache-2.0
// Which taps of a window lie inside of an image.
#pragma once

#include "kernels/cpu/vector/vec.h"

namespace quarry::kernels::QR_ISA {

// First tap of `taps` at or beyond 0, and the first at or beyond `size`, for a window that begins at `at`.
QR_INLINE void taps_inside(std::int64_t at, std::int64_t taps, std::int64_t dilation, std::int64_t size,
                           std::int64_t *first, std::int64_t *last) noexcept {
  *first = at >= 0 ? 0 : min_of(taps, ceil_div(-at, dilation));
  *last = at >= size ? 0 : min_of(taps, ceil_div(size - at, dilation));
  if (*last < *first) *last = *first;
}

}  // namespace quarry::kernels::QR_ISA
