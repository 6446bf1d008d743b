// SPDX-License-Identifier: Apache-2.0
// From sums to stored integers: the end of ConvInt, dense and depthwise. Results are exact up to the rounding of one f32 product (and, with a residual,
// of one sum of two products): at most one quantum from exact arithmetic, and only next to ties.
#pragma once

#include "backends/common/kernels/isa/int_vec.h"

namespace quarry::kernels::QR_ISA {

// Rounded half to even; |v| < 2^31.
QR_INLINE VecF round_even(VecF v) noexcept { return to_float(round_to_int(v)); }

struct Requantise {
  float lo, hi;          // of y, without its zero point
  std::int32_t zero;
  std::uint32_t y_dtype, r_dtype;
  bool has_residual;
  float mid_lo, mid_hi, mid_scale, r_scale, r_zero;
  std::byte *y;
  const std::byte *r;
  std::int64_t y_stride, r_stride;
  const float *multiplier;

  static Requantise of(const ConvInt &p, const Call &call) noexcept {
    Requantise q{};
    q.lo = static_cast<float>(p.lo - p.y.zero);
    q.hi = static_cast<float>(p.hi - p.y.zero);
    q.zero = p.y.zero;
    q.y_dtype = p.y.dtype;
    q.r_dtype = p.r.dtype;
    q.has_residual = p.has_residual != 0;
    q.mid_lo = static_cast<float>(p.mid_lo - p.mid.zero);
    q.mid_hi = static_cast<float>(p.mid_hi - p.mid.zero);
    q.mid_scale = p.mid.scale / p.y.scale;
    q.r_scale = p.r.scale / p.y.scale;
    q.r_zero = static_cast<float>(p.r.zero);
    q.multiplier = call.operand<const float>(3);
    q.r = q.has_residual ? call.operand<const std::byte>(4) : nullptr;
    q.y = call.operand<std::byte>(q.has_residual ? 5 : 4);
    q.y_stride = p.y_stride;
    q.r_stride = p.r_stride;
    return q;
  }

  // `count` (at most kLanes) channels of a pixel from real values in quanta of mid or y.
  QR_MEMBER void store(VecF v, std::int64_t pixel, std::int64_t channel, int count) const noexcept;
};

QR_MEMBER void Requantise::store(VecF v, std::int64_t pixel, std::int64_t channel, int count) const noexcept {
  if (has_residual) {
    v = round_even(clamp(v, splat(mid_lo), splat(mid_hi)));
    const std::int64_t at = pixel * r_stride + channel;
    VecI ri{};
    with_dtype(r_dtype, [&](auto tag) {
      using T = decltype(tag);
      const T *from = reinterpret_cast<const T *>(r) + at;
      ri = count == kLanes ? widen(from) : widen_part(from, count);
    });
    v = v * mid_scale + (to_float(ri) - r_zero) * r_scale;
  }
  const VecI q = round_to_int(clamp(v, splat(lo), splat(hi))) + zero;
  const std::int64_t at = pixel * y_stride + channel;
  const auto put = [&](auto *to) {
    if (count == kLanes) narrow(to, q);
    else narrow_part(to, q, count);
  };
  if (y_dtype <= kI8) {
    if (y_dtype == kU8) put(reinterpret_cast<std::uint8_t *>(y) + at);
    else put(reinterpret_cast<std::int8_t *>(y) + at);
  } else {
    if (y_dtype == kU16) put(reinterpret_cast<std::uint16_t *>(y) + at);
    else put(reinterpret_cast<std::int16_t *>(y) + at);
  }
}

}  // namespace quarry::kernels::QR_ISA
