// SPDX-License-Identifier: Apache-2.0
// From sums to stored integers: the end of ConvInt, dense and depthwise. Results are exact up to the rounding of one
// f32 product (and, with a residual, of one sum of two products): at most one quantum from exact arithmetic, and only
// next to ties.
#pragma once

#include "kernels/cpu/vector/int_vec.h"

namespace quarry::kernels::QR_ISA {

// A rectangle of sums, i32 or f64: `rows` pixels of `vectors` * kLanes channels, adjacent.
struct Sums {
  const void *data;
  int rows, vectors;
  std::int64_t pixel, channel;  // the first
  std::int64_t channels;        // that are there, at most vectors * kLanes
};

struct Requantise {
  float lo, hi;  // of y, without its zero point
  std::int32_t zero;
  float mid_lo, mid_hi, mid_scale, r_scale;
  std::int32_t r_zero;
  void *y;
  const void *r;
  std::int64_t y_stride, r_stride;
  const float *multiplier;
  bool wide;  // sums are f64
  std::int32_t y_flip, r_flip;
  void (*run)(const Requantise &q, const Sums &sums) noexcept;

  Requantise(const ConvInt &p, const Call &call, bool wide) noexcept;
};

}  // namespace quarry::kernels::QR_ISA
