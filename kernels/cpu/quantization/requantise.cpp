// SPDX-License-Identifier: Apache-2.0
// From sums to stored integers, compiled for widths and not for types (stored_flip()).
#include "kernels/cpu/quantization/requantise.h"

#include "kernels/cpu/vector/activate.h"

namespace quarry::kernels::QR_ISA {

namespace {

QR_INLINE VecF load_sums(const std::int32_t *sums) noexcept { return to_float(load(sums)); }
QR_INLINE VecF load_sums(const double *sums) noexcept { return to_float(load(sums), load(sums + kLanes / 2)); }

struct Constants {
  VecF lo, hi, mid_lo, mid_hi, mid_scale, r_scale;
  VecI zero, y_flip, r_zero, r_flip;
  VecH halves_zero, halves_lo, halves_flip;  // of what is packed
  VecB bytes_flip;
};
QR_INLINE VecI finish(const Constants &c, VecF v) noexcept { return round_to_int(clamp(v, c.lo, c.hi)) + c.zero; }
QR_INLINE VecF add_residual(const Constants &c, VecF v, VecI r) noexcept {
  const VecF mid = to_float(round_to_int(clamp(v, c.mid_lo, c.mid_hi)));
  return fma(mid, c.mid_scale, to_float((r ^ c.r_flip) - c.r_zero) * c.r_scale);
}

#if defined(__AVX2__) && QR_ISA_BYTES == 32
// Two rows of 2 * kLanes bytes from values that are yet to be clamped: the saturating packs do most of it.
QR_INLINE void finish_rows(const Constants &c, const VecF (&v)[4], std::uint8_t *a, std::uint8_t *b) noexcept {
  // Not beyond the upper bound, so that what is too large for an integer is not taken for a small one.
  const auto round = [&](VecF x) __attribute__((always_inline)) {
    return reinterpret_cast<__m256i>(round_to_int(x < c.hi ? x : c.hi));
  };
  const auto halves = [&](VecF x, VecF y) __attribute__((always_inline)) {
    return _mm256_max_epi16(
        _mm256_adds_epi16(_mm256_packs_epi32(round(x), round(y)), reinterpret_cast<__m256i>(c.halves_zero)),
        reinterpret_cast<__m256i>(c.halves_lo));
  };
  const __m256i bytes =
      _mm256_xor_si256(_mm256_permutevar8x32_epi32(_mm256_packus_epi16(halves(v[0], v[1]), halves(v[2], v[3])),
                                                   _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)),
                       reinterpret_cast<__m256i>(c.bytes_flip));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(a), _mm256_castsi256_si128(bytes));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(b), _mm256_extracti128_si256(bytes, 1));
}
inline constexpr bool kFinishRows = true;
#else
template <class Y>
QR_INLINE void finish_rows(const Constants &, const VecF (&)[4], Y *, Y *) noexcept {}
inline constexpr bool kFinishRows = false;
#endif

// 2 * kLanes elements, turned when they are packed.
QR_INLINE void put(const Constants &c, std::uint8_t *y, VecI a, VecI b) noexcept {
#if defined(__SSE2__) && QR_ISA_BYTES == 16
  const __m128i halves = _mm_packs_epi32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b));
  _mm_storel_epi64(reinterpret_cast<__m128i *>(y),
                   _mm_xor_si128(_mm_packus_epi16(halves, halves), reinterpret_cast<__m128i>(c.bytes_flip)));
#else
  narrow(y, a ^ c.y_flip, b ^ c.y_flip);
#endif
}
QR_INLINE void put(const Constants &c, std::int16_t *y, VecI a, VecI b) noexcept {
#if defined(__SSE2__) && QR_ISA_BYTES == 16
  store(y, reinterpret_cast<VecH>(_mm_packs_epi32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b))) ^
               c.halves_flip);
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  store(y, reinterpret_cast<VecH>(_mm256_permute4x64_epi64(
               _mm256_packs_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)), 0xd8)) ^
               c.halves_flip);
#else
  narrow(y, a ^ c.y_flip, b ^ c.y_flip);
#endif
}

// Y: u8 or s16; R: the residual's, float: none.
template <class Sum, class Y, class R>
__attribute__((noinline)) void run(const Requantise &q, const Sums &s) noexcept {
  constexpr bool kResidual = sizeof(R) < 4;
  const std::int32_t zero = q.zero + q.y_flip;
  const Constants c{splat(q.lo),
                    splat(q.hi),
                    splat(q.mid_lo),
                    splat(q.mid_hi),
                    splat(q.mid_scale),
                    splat(q.r_scale),
                    splat(zero),
                    splat(q.y_flip),
                    splat(q.r_zero + q.r_flip),
                    splat(q.r_flip),
                    VecH{} + static_cast<std::int16_t>(zero),
                    VecH{} + static_cast<std::int16_t>(static_cast<int>(q.lo) + zero),
                    VecH{} + static_cast<std::int16_t>(q.y_flip),
                    VecB{} + static_cast<std::int8_t>(q.y_flip)};
  const std::int64_t step = std::int64_t{s.vectors} * kLanes, y_stride = q.y_stride, r_stride = q.r_stride;
  const int rows = s.rows;
  for (std::int64_t at = 0; at < s.channels;) {
    const Sum *sums = static_cast<const Sum *>(s.data) + at;
    const float *const multiplier = q.multiplier + s.channel + at;
    Y *y = static_cast<Y *>(q.y) + s.pixel * y_stride + s.channel + at;
    const R *r = kResidual ? static_cast<const R *>(q.r) + s.pixel * r_stride + s.channel + at : nullptr;
    if (at + 2 * kLanes <= s.channels) {
      const VecF m[2] = {load(multiplier), load(multiplier + kLanes)};
      const auto row = [&](VecF * v) __attribute__((always_inline)) {
        QR_UNROLL
        for (int i = 0; i < 2; ++i) {
          v[i] = load_sums(sums + i * kLanes) * m[i];
          if constexpr (kResidual) v[i] = add_residual(c, v[i], widen(r + i * kLanes));
        }
        sums += step;
        if constexpr (kResidual) r += r_stride;
      };
      int i = 0;
      if constexpr (kFinishRows && sizeof(Y) == 1) {
        for (; i + 2 <= rows; i += 2, y += 2 * y_stride) {
          VecF v[4];
          row(v), row(v + 2);
          finish_rows(c, v, y, y + y_stride);
        }
      }
      for (; i < rows; ++i, y += y_stride) {
        VecF v[2];
        row(v);
        put(c, y, finish(c, v[0]), finish(c, v[1]));
      }
      at += 2 * kLanes;
      continue;
    }
    const VecF m = load(multiplier);
    const int count = static_cast<int>(min_of<std::int64_t>(kLanes, s.channels - at));
    const bool whole = count == kLanes;
    for (int i = 0; i < rows; ++i, sums += step, y += y_stride) {
      VecF v = load_sums(sums) * m;
      if constexpr (kResidual) v = add_residual(c, v, whole ? widen(r) : widen_part(r, count)), r += r_stride;
      if (whole) narrow(y, finish(c, v) ^ c.y_flip);
      else narrow_part(y, finish(c, v) ^ c.y_flip, count);
    }
    at += kLanes;
  }
}

// The sums as they are, f64 modulo 2^32.
__attribute__((noinline)) void keep(const Requantise &q, const Sums &s) noexcept {
  std::int32_t *y = static_cast<std::int32_t *>(q.y) + s.pixel * q.y_stride + s.channel;
  const std::int64_t step = std::int64_t{s.vectors} * kLanes;
  for (int i = 0; i < s.rows; ++i, y += q.y_stride) {
    if (q.wide) {
      const double *const sums = static_cast<const double *>(s.data) + i * step;
      for (std::int64_t c = 0; c < s.channels; ++c)
        y[c] = static_cast<std::int32_t>(
            static_cast<std::uint32_t>(static_cast<std::uint64_t>(static_cast<std::int64_t>(sums[c]))));
    } else {
      std::memcpy(y, static_cast<const std::int32_t *>(s.data) + i * step, bytes_of<std::int32_t>(s.channels));
    }
  }
}

using Run = void (*)(const Requantise &q, const Sums &sums) noexcept;
template <class Sum, class Y>
Run choose(std::uint32_t r_dtype) noexcept {
  if (r_dtype == 0) return run<Sum, Y, float>;
  return quant_bytes(r_dtype) == 1 ? run<Sum, Y, std::uint8_t> : run<Sum, Y, std::int16_t>;
}
template <class Sum>
Run choose(std::uint32_t y_dtype, std::uint32_t r_dtype) noexcept {
  if (y_dtype == kI32) return keep;
  return quant_bytes(y_dtype) == 1 ? choose<Sum, std::uint8_t>(r_dtype) : choose<Sum, std::int16_t>(r_dtype);
}

}  // namespace

Requantise::Requantise(const ConvInt &p, const Call &call, bool wide_sums) noexcept {
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
  wide = wide_sums;
  y_flip = stored_flip(p.y.dtype), r_flip = stored_flip(p.r.dtype);
  const std::uint32_t r_dtype = has_residual ? p.r.dtype : 0;
  run = wide ? choose<double>(p.y.dtype, r_dtype) : choose<std::int32_t>(p.y.dtype, r_dtype);
}

}  // namespace quarry::kernels::QR_ISA
