// SPDX-License-Identifier: Apache-2.0
// Rows of a plane with their borders, every sw-th column side by side: what a vector of pixels sees of a tap is
// adjacent.
#pragma once

#include "kernels/cpu/shapes/conv_shape.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

template <int kStep>
QR_INLINE void copy_steps(const float *from, float *to, std::int64_t count, std::int64_t step) noexcept {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * (kStep ? kStep : step)];
}

// The rows of input that the rows [first, first + rows) of output read: each as sw phases of `phase_floats` floats, of
// which phase k holds columns k, k + sw, ..., and 0 where there is no image. `to` has room for
// `floats` of kernels/cpu/shapes/conv_shape.h. Called by depthwise_planes and conv_planes_f32.
QR_INLINE void copy_plane_rows(const Window &w, const float *x, std::int64_t first, std::int64_t rows,
                               std::int64_t phase_floats, float *to) noexcept {
  const std::int64_t count = conv_input_rows(w, rows), step = w.sw;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t iy = first * w.sh - w.pad_top + i;
    for (std::int64_t phase = 0; phase < step; ++phase, to += phase_floats) {
      std::int64_t begin = 0, end = 0;
      if (iy >= 0 && iy < w.ih) {
        const std::int64_t before = w.pad_left - phase;  // columns that lie before the image
        begin = min_of(phase_floats, before > 0 ? ceil_div(before, step) : 0);
        end = w.iw + before > 0 ? min_of(phase_floats, ceil_div(w.iw + before, step)) : 0;
        end = max_of(begin, end);
        const float *const from = x + iy * w.iw + begin * step - before;
        const auto inside = static_cast<std::size_t>(end - begin);
        if (step == 1) std::memcpy(to + begin, from, inside * 4);
        else if (step == 2) copy_steps<2>(from, to + begin, end - begin, 2);
        else copy_steps<0>(from, to + begin, end - begin, step);
      }
      std::memset(to, 0, bytes_of<float>(begin));
      std::memset(to + end, 0, bytes_of<float>(phase_floats - end));
    }
  }
}

// Where the first pixel's tap of column kx lies in such a row.
QR_INLINE std::int64_t plane_column(const Window &w, std::int64_t kx, std::int64_t phase_floats) noexcept {
  return kx * w.dw % w.sw * phase_floats + kx * w.dw / w.sw;
}

}  // namespace quarry::kernels::QR_ISA
