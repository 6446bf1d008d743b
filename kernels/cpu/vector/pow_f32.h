// SPDX-License-Identifier: Apache-2.0
// x^y of f32 by way of f64: 2^(y * log2 |x|) with an error far below f32's last place, rounded once. Zeros, infinities,
// NaN and negative bases give what C's pow gives.
#pragma once

#include "kernels/cpu/vector/activate.h"
#include "kernels/cpu/vector/int_vec.h"

namespace quarry::kernels::QR_ISA {

typedef std::int64_t VecL __attribute__((vector_size(QR_ISA_BYTES)));
typedef float HalfF __attribute__((vector_size(QR_ISA_BYTES / 2)));

QR_INLINE VecD splat(double x) noexcept { return x - VecD{}; }

// Lanes [0, kLanes / 2) and the rest.
QR_INLINE VecD to_double(HalfF v) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecD>(_mm512_maskz_cvtps_pd(0xff, reinterpret_cast<__m256>(v)));
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecD>(_mm256_cvtps_pd(reinterpret_cast<__m128>(v)));
#else
  return __builtin_convertvector(v, VecD);
#endif
}
struct Halves {
  HalfF low, high;
};
QR_INLINE Halves halves_of(VecF v) noexcept {
  Halves h;
  std::memcpy(&h, &v, sizeof v);
  return h;
}

// log2(m) for m within [sqrt(1/2), sqrt(2)]: of (1 + t) / (1 - t), |t| <= 0.172, within 1e-13.
QR_INLINE VecD log2_of_mantissa(VecD m) noexcept {
  const VecD t = (m - 1.0) / (m + 1.0), z = t * t;
  VecD p = z * (2.8853900817779268 / 13) + 2.8853900817779268 / 11;
  p = p * z + 2.8853900817779268 / 9;
  p = p * z + 2.8853900817779268 / 7;
  p = p * z + 2.8853900817779268 / 5;
  p = p * z + 2.8853900817779268 / 3;
  p = p * z + 2.8853900817779268;
  return p * t;
}
// 2^x; beyond what f32 holds, something that is beyond it too. 5e-9.
QR_INLINE VecD exp2_of(VecD x) noexcept {
  const VecD low = splat(-200.0), high = splat(200.0);
  x = x < low ? low : x;
  x = x > high ? high : x;
  constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52: the lowest bits are the whole number
  const VecD rounded = x + magic, r = x - (rounded - magic);
  VecD p = r * 1.5252733804059840e-5 + 1.5403530393381609e-4;
  p = p * r + 1.3333558146428443e-3;
  p = p * r + 9.6181291076284772e-3;
  p = p * r + 5.5504108664821580e-2;
  p = p * r + 2.4022650695910072e-1;
  p = p * r + 6.9314718055994531e-1;
  p = p * r + 1.0;
  return p * reinterpret_cast<VecD>((reinterpret_cast<VecL>(rounded) + 1023) << 52);
}

QR_INLINE VecF pow(VecF x, VecF y) noexcept {
  const VecF inf = splat(__builtin_inff()), one = splat(1.0f), magnitude = abs(x);
  const VecI small = magnitude < splat(1.17549435e-38f);
  const VecF normal = small ? magnitude * splat(8388608.0f) : magnitude;
  const VecI shifted = bits_of(normal) - splat(0x3f3504f3);
  VecF n = to_float((shifted >> 23) - (small & splat(23)));
  const VecF m = of_bits((shifted & splat(0x7fffff)) + splat(0x3f3504f3));
  n = magnitude == VecF{} ? -inf : magnitude == inf ? inf : n;  // the mantissa is finite
  const Halves exponent = halves_of(n), mantissa = halves_of(m), factor = halves_of(y);
  const VecF power = to_float(
      exp2_of((to_double(exponent.low) + log2_of_mantissa(to_double(mantissa.low))) * to_double(factor.low)),
      exp2_of((to_double(exponent.high) + log2_of_mantissa(to_double(mantissa.high))) * to_double(factor.high)));
  const VecI whole = round(y) == y, half_whole = round(y * splat(0.5f)) == y * splat(0.5f);
  const VecI odd = whole & ~half_whole;
  VecF r = of_bits(bits_of(power) | (bits_of(x) & odd & splat(INT32_MIN)));
  const VecI none = (x != x) | (y != y) | ((x < VecF{}) & (magnitude < inf) & ~whole);
  r = none ? splat(__builtin_nanf("")) : r;
  return ((x == one) | (y == VecF{}) | ((magnitude == one) & (abs(y) == inf))) ? one : r;
}

}  // namespace quarry::kernels::QR_ISA
