// SPDX-License-Identifier: Apache-2.0
// The end of ConvInt from sums that are still in registers, where vectors have 64 bytes: saturating packs do most of
// the clamping. Results are those of Requantise::run(), which takes what cannot be ended here.
#pragma once

#include "kernels/cpu/quantization/requantise.h"
#include "kernels/cpu/vector/activate.h"

namespace quarry::kernels::QR_ISA {

// Whether sums times multipliers fit an integer.
QR_INLINE bool scaled_fit(const Requantise &q, std::int32_t channels) noexcept {
  VecF most{};
  for (std::int32_t c = 0; c < channels; c += kLanes) most = max(most, load(q.multiplier + c));
  return largest(most) < 0.99f;
}

// Bytes. Signed ones are unsigned ones whose upper bit is turned over.
struct FinishBytes {
  bool usable = false;
  bool plain = false;  // the type's whole range, unsigned, without a zero point: packs are all that it takes
  float mid_lo, mid_hi, mid_scale, r_scale;
  std::int32_t r_zero;
  std::int16_t zero, low, high;
  std::int8_t flip, r_flip;
  std::uint8_t *y;
  const std::uint8_t *r;  // or nullptr
  std::int64_t y_stride, r_stride;
  const float *multiplier;

  FinishBytes(const Requantise &q, const ConvInt &p, bool wide) noexcept;
};
QR_MEMBER FinishBytes::FinishBytes(const Requantise &q, const ConvInt &p, bool wide) noexcept {
  const bool is_signed = p.y.dtype == kI8, r_signed = p.r.dtype == kI8;
  usable = kPacksRows && !wide && quant_bytes(p.y.dtype) == 1 && is_quant_dtype(p.y.dtype) &&
           (!q.r || quant_bytes(p.r.dtype) == 1);
  // What is rounded must fit an integer: it is clamped as one.
  if (q.r) usable = usable && q.mid_scale < 65536 && q.r_scale < 65536;
  else usable = usable && scaled_fit(q, p.oc);
  mid_lo = q.mid_lo, mid_hi = q.mid_hi, mid_scale = q.mid_scale, r_scale = q.r_scale;
  r_zero = q.r_zero + (r_signed ? 128 : 0);
  zero = static_cast<std::int16_t>(q.zero + (is_signed ? 128 : 0));
  low = static_cast<std::int16_t>(static_cast<std::int32_t>(q.lo) + zero);
  high = static_cast<std::int16_t>(static_cast<std::int32_t>(q.hi) + zero);
  flip = is_signed ? -128 : 0, r_flip = r_signed ? -128 : 0;
  plain = zero == 0 && low <= 0 && high >= 255 && flip == 0;
  y = static_cast<std::uint8_t *>(q.y), r = static_cast<const std::uint8_t *>(q.r);
  y_stride = q.y_stride, r_stride = q.r_stride, multiplier = q.multiplier;
}

// Halves without residuals (those take as much code again, and sums of 16 bits are long ones), which are signed while
// they are packed and clamped.
struct FinishHalves {
  bool usable = false;
  std::int32_t zero;
  std::int16_t low, high, flip;
  std::uint16_t *y;
  std::int64_t y_stride;
  const float *multiplier;

  FinishHalves(const Requantise &q, const ConvInt &p, bool wide) noexcept;
};
QR_MEMBER FinishHalves::FinishHalves(const Requantise &q, const ConvInt &p, bool wide) noexcept {
  // What is rounded must fit an integer, with the zero point too.
  usable =
      kPacksRows && !wide && is_quant_dtype(p.y.dtype) && quant_bytes(p.y.dtype) == 2 && !q.r && scaled_fit(q, p.oc);
  flip = p.y.dtype == kI16 ? std::int16_t{0} : std::int16_t{-32768};
  zero = q.zero + flip;
  low = static_cast<std::int16_t>(static_cast<std::int32_t>(q.lo) + zero);
  high = static_cast<std::int16_t>(static_cast<std::int32_t>(q.hi) + zero);
  y = static_cast<std::uint16_t *>(q.y);
  y_stride = q.y_stride, multiplier = q.multiplier;
}

#if QR_ISA_BYTES == 64
// Rows of V vectors, `channels` of them there; the first row is pixel `pixel`. What differs between outputs (whether
// there is a residual, how much a pack has to do) is asked for in each row: compiled once for each answer it would be
// the most of every tile.
template <int R, int V>
QR_INLINE void finish_rows(const FinishBytes &f, const VecI (&sums)[R][V], std::int64_t pixel, std::int64_t channel,
                           std::int64_t channels) noexcept {
  const VecH zero = VecH{} + f.zero, low = VecH{} + f.low, high = VecH{} + f.high;
  const VecB flip = VecB{} + f.flip;
  const ByteMask mask = first_bytes(channels);
  const float *const multiplier = f.multiplier + channel;
  std::uint8_t *y = f.y + pixel * f.y_stride + channel;
  const std::int64_t y_stride = f.y_stride, r_stride = f.r_stride;
  const bool plain = f.plain;
  const std::uint8_t *r = f.r ? f.r + pixel * r_stride + channel : nullptr;
  QR_UNROLL
  for (int row = 0; row < R; ++row, y += y_stride) {
    VecF value[V];
    QR_UNROLL for (int v = 0; v < V; ++v) value[v] = to_float(sums[row][v]) * load(multiplier + v * kLanes);
    if (r) {
      // A byte under the exponent of 2^23 is a float 2^23 above it.
      const VecF r_zero = splat(8388608.0f + static_cast<float>(f.r_zero));
      VecB wide[4];
      interleave_four(for_pack(load_bytes(r, mask) ^ f.r_flip), VecB{}, VecB{}, VecB{} + std::int8_t{0x4b}, wide);
      QR_UNROLL
      for (int v = 0; v < V; ++v)
        value[v] = fma(round(clamp(value[v], splat(f.mid_lo), splat(f.mid_hi))), splat(f.mid_scale),
                       (reinterpret_cast<VecF>(wide[v]) - r_zero) * splat(f.r_scale));
      r += r_stride;
    }
    VecI d[V];
    QR_UNROLL for (int v = 0; v < V; ++v) d[v] = round_to_int(value[v]);
    const VecB packed = plain ? pack_bytes(d) : pack_bytes<std::uint8_t>(d, zero, low, high) ^ flip;
    store_bytes(y, mask, in_order(packed));
  }
}
template <int R, int V>
QR_INLINE void finish_rows(const FinishHalves &f, const VecI (&sums)[R][V], std::int64_t pixel, std::int64_t channel,
                           std::int64_t channels) noexcept {
  const VecI zero = splat(f.zero);
  const VecH low = VecH{} + f.low, high = VecH{} + f.high, flip = VecH{} + f.flip;
  const float *const multiplier = f.multiplier + channel;
  std::uint16_t *y = f.y + pixel * f.y_stride + channel;
  const std::int64_t y_stride = f.y_stride;
  QR_UNROLL
  for (int row = 0; row < R; ++row, y += y_stride) {
    VecI d[V + V % 2] = {};
    QR_UNROLL
    for (int v = 0; v < V; ++v) d[v] = round_to_int(to_float(sums[row][v]) * load(multiplier + v * kLanes)) + zero;
    QR_UNROLL
    for (int v = 0; v < V; v += 2)
      store_halves(y + v * kLanes, first_halves(channels - v * kLanes), pack_halves(d[v], d[v + 1], low, high) ^ flip);
  }
}
#endif

}  // namespace quarry::kernels::QR_ISA
