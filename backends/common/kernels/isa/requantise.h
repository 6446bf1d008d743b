// SPDX-License-Identifier: Apache-2.0
// From sums to stored integers: the end of ConvInt, dense and depthwise. Results are exact up to the rounding of one
// f32 product (and, with a residual, of one sum of two products): at most one quantum from exact arithmetic, and only
// next to ties.
#pragma once

#include "backends/common/kernels/isa/activate.h"
#include "backends/common/kernels/isa/int_vec.h"

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
  void (*run)(const Requantise &q, const Sums &sums) noexcept;

  Requantise(const ConvInt &p, const Call &call, bool wide) noexcept;
};

namespace requantise_impl {

QR_INLINE VecF load_sums(const std::int32_t *sums) noexcept { return to_float(load(sums)); }
QR_INLINE VecF load_sums(const double *sums) noexcept { return to_float(load(sums), load(sums + kLanes / 2)); }

struct Constants {
  VecF lo, hi, mid_lo, mid_hi, mid_scale, r_scale;
  VecI zero, r_zero;
  VecH zero_halves, lo_halves;  // of bytes
};
QR_INLINE VecI finish(const Constants &c, VecF v) noexcept { return round_to_int(clamp(v, c.lo, c.hi)) + c.zero; }
QR_INLINE VecF add_residual(const Constants &c, VecF v, VecI r) noexcept {
  const VecF mid = to_float(round_to_int(clamp(v, c.mid_lo, c.mid_hi)));
  return fma(mid, c.mid_scale, to_float(r - c.r_zero) * c.r_scale);
}

#if defined(__AVX2__) && QR_ISA_BYTES == 32
// Two rows of 2 * kLanes bytes from values that are yet to be clamped: the saturating packs do most of it.
template <class Y>
QR_INLINE void finish_rows(const Constants &c, VecF a0, VecF a1, VecF b0, VecF b1, Y *a, Y *b) noexcept {
  // Not beyond the upper bound, so that what is too large for an integer is not taken for a small one.
  const auto round = [&](VecF v) __attribute__((always_inline)) {
    return reinterpret_cast<__m256i>(round_to_int(v < c.hi ? v : c.hi));
  };
  const __m256i zero = reinterpret_cast<__m256i>(c.zero_halves), low = reinterpret_cast<__m256i>(c.lo_halves);
  const __m256i halves_a = _mm256_max_epi16(_mm256_adds_epi16(_mm256_packs_epi32(round(a0), round(a1)), zero), low);
  const __m256i halves_b = _mm256_max_epi16(_mm256_adds_epi16(_mm256_packs_epi32(round(b0), round(b1)), zero), low);
  const __m256i bytes = _mm256_permutevar8x32_epi32(
      Y(-1) < Y(0) ? _mm256_packs_epi16(halves_a, halves_b) : _mm256_packus_epi16(halves_a, halves_b),
      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(a), _mm256_castsi256_si128(bytes));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(b), _mm256_extracti128_si256(bytes, 1));
}
inline constexpr bool kFinishRows = true;
#else
template <class Y>
QR_INLINE void finish_rows(const Constants &, VecF, VecF, VecF, VecF, Y *, Y *) noexcept {}
inline constexpr bool kFinishRows = false;
#endif

// R: the residual's type; float: none.
template <class Sum, class Y, class R>
__attribute__((noinline)) void run(const Requantise &q, const Sums &s) noexcept {
  constexpr bool kResidual = sizeof(R) < 4;
  const Constants c{splat(q.lo),
                    splat(q.hi),
                    splat(q.mid_lo),
                    splat(q.mid_hi),
                    splat(q.mid_scale),
                    splat(q.r_scale),
                    splat(q.zero),
                    splat(q.r_zero),
                    VecH{} + static_cast<std::int16_t>(q.zero),
                    VecH{} + static_cast<std::int16_t>(static_cast<int>(q.lo) + q.zero)};
  const std::int64_t step = std::int64_t{s.vectors} * kLanes;
  for (std::int64_t at = 0; at < s.channels;) {
    const Sum *sums = static_cast<const Sum *>(s.data) + at;
    const float *const multiplier = q.multiplier + s.channel + at;
    Y *y = static_cast<Y *>(q.y) + s.pixel * q.y_stride + s.channel + at;
    const R *r = kResidual ? static_cast<const R *>(q.r) + s.pixel * q.r_stride + s.channel + at : nullptr;
    if (at + 2 * kLanes <= s.channels) {
      const VecF m0 = load(multiplier), m1 = load(multiplier + kLanes);
      int i = 0;
      if constexpr (kFinishRows && sizeof(Y) == 1) {
        for (; i + 2 <= s.rows; i += 2, sums += 2 * step, y += 2 * q.y_stride) {
          VecF v[4] = {load_sums(sums) * m0, load_sums(sums + kLanes) * m1, load_sums(sums + step) * m0,
                       load_sums(sums + step + kLanes) * m1};
          if constexpr (kResidual) {
            v[0] = add_residual(c, v[0], widen(r)), v[1] = add_residual(c, v[1], widen(r + kLanes));
            v[2] = add_residual(c, v[2], widen(r + q.r_stride)),
            v[3] = add_residual(c, v[3], widen(r + q.r_stride + kLanes));
            r += 2 * q.r_stride;
          }
          finish_rows(c, v[0], v[1], v[2], v[3], y, y + q.y_stride);
        }
      }
      for (; i < s.rows; ++i, sums += step, y += q.y_stride) {
        VecF v0 = load_sums(sums) * m0, v1 = load_sums(sums + kLanes) * m1;
        if constexpr (kResidual) {
          v0 = add_residual(c, v0, widen(r));
          v1 = add_residual(c, v1, widen(r + kLanes));
          r += q.r_stride;
        }
        narrow(y, finish(c, v0), finish(c, v1));
      }
      at += 2 * kLanes;
      continue;
    }
    const VecF m = load(multiplier);
    const int count = static_cast<int>(min_of<std::int64_t>(kLanes, s.channels - at));
    if (count == kLanes) {
      for (int i = 0; i < s.rows; ++i, sums += step, y += q.y_stride) {
        VecF v = load_sums(sums) * m;
        if constexpr (kResidual) v = add_residual(c, v, widen(r)), r += q.r_stride;
        narrow(y, finish(c, v));
      }
    } else {
      for (int i = 0; i < s.rows; ++i, sums += step, y += q.y_stride) {
        VecF v = load_sums(sums) * m;
        if constexpr (kResidual) v = add_residual(c, v, widen_part(r, count)), r += q.r_stride;
        narrow_part(y, finish(c, v), count);
      }
    }
    at += kLanes;
  }
}

QR_INLINE std::int32_t whole(std::int32_t sum) noexcept { return sum; }
QR_INLINE std::int32_t whole(double sum) noexcept {  // modulo 2^32
  return static_cast<std::int32_t>(
      static_cast<std::uint32_t>(static_cast<std::uint64_t>(static_cast<std::int64_t>(sum))));
}
// The sums as they are.
template <class Sum>
__attribute__((noinline)) void keep(const Requantise &q, const Sums &s) noexcept {
  const Sum *sums = static_cast<const Sum *>(s.data);
  std::int32_t *y = static_cast<std::int32_t *>(q.y) + s.pixel * q.y_stride + s.channel;
  for (int i = 0; i < s.rows; ++i, sums += s.vectors * kLanes, y += q.y_stride)
    for (std::int64_t c = 0; c < s.channels; ++c) y[c] = whole(sums[c]);
}

using Run = void (*)(const Requantise &q, const Sums &sums) noexcept;
template <class Sum, class R>
QR_INLINE Run choose(std::uint32_t y_dtype) noexcept {
  switch (y_dtype) {
    case kU8: return run<Sum, std::uint8_t, R>;
    case kI8: return run<Sum, std::int8_t, R>;
    case kU16: return run<Sum, std::uint16_t, R>;
    default: return run<Sum, std::int16_t, R>;
  }
}
template <class Sum>
QR_INLINE Run choose(std::uint32_t y_dtype, std::uint32_t r_dtype) noexcept {
  if (y_dtype == kI32) return keep<Sum>;
  switch (r_dtype) {
    case 0: return choose<Sum, float>(y_dtype);
    case kU8: return choose<Sum, std::uint8_t>(y_dtype);
    case kI8: return choose<Sum, std::int8_t>(y_dtype);
    case kU16: return choose<Sum, std::uint16_t>(y_dtype);
    default: return choose<Sum, std::int16_t>(y_dtype);
  }
}

}  // namespace requantise_impl

QR_MEMBER Requantise::Requantise(const ConvInt &p, const Call &call, bool wide) noexcept {
  const bool has_residual = p.has_residual != 0;
  lo = static_cast<float>(p.lo - p.y.zero);
  hi = static_cast<float>(p.hi - p.y.zero);
  zero = p.y.zero;
  mid_lo = static_cast<float>(p.mid_lo - p.mid.zero);
  mid_hi = static_cast<float>(p.mid_hi - p.mid.zero);
  mid_scale = p.mid.scale / p.y.scale;
  r_scale = p.r.scale / p.y.scale;
  r_zero = p.r.zero;
  multiplier = call.operand<const float>(3);
  r = has_residual ? call.operands[4] : nullptr;
  y = call.operands[has_residual ? 5 : 4];
  y_stride = p.y_stride;
  r_stride = p.r_stride;
  const std::uint32_t r_type = has_residual ? p.r.dtype : 0;
  run = wide ? requantise_impl::choose<double>(p.y.dtype, r_type)
             : requantise_impl::choose<std::int32_t>(p.y.dtype, r_type);
}

}  // namespace quarry::kernels::QR_ISA
