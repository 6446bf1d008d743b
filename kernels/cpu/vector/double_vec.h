// SPDX-License-Identifier: Apache-2.0
// Vectors of f64, and functions of them: within 4 ulp, but for what an argument is uncertain by (sines near zeros).
#pragma once

#include "kernels/cpu/vector/vec.h"

namespace quarry::kernels::QR_ISA {

inline constexpr int kDoubles = kBytes / 8;

typedef double VecD __attribute__((vector_size(QR_ISA_BYTES)));
typedef std::int64_t VecL __attribute__((vector_size(QR_ISA_BYTES)));
typedef double VecDUnaligned __attribute__((vector_size(QR_ISA_BYTES), aligned(8), may_alias));

QR_INLINE VecD load(const double *p) noexcept { return *reinterpret_cast<const VecDUnaligned *>(p); }
QR_INLINE void store(double *p, VecD v) noexcept { *reinterpret_cast<VecDUnaligned *>(p) = v; }
QR_INLINE VecD splat(double x) noexcept { return x - VecD{}; }
QR_INLINE VecL splat(std::int64_t x) noexcept { return x - VecL{}; }
// kDoubles neighbouring f32.
QR_INLINE VecD widen(const float *p) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecD>(_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(p)));
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecD>(_mm256_cvtps_pd(_mm_loadu_ps(p)));
#else
  VecD v{};
  QR_UNROLL for (int k = 0; k < kDoubles; ++k) v[k] = static_cast<double>(p[k]);
  return v;
#endif
}
// The first `count` elements, 0 < count < kDoubles; nothing beyond them is touched.
QR_INLINE VecD load_part(const double *p, int count) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecD>(_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), p));
#else
  VecD v{};
  for (int i = 0; i < count; ++i) v[i] = p[i];
  return v;
#endif
}
QR_INLINE void store_part(double *p, VecD v, int count) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << count) - 1), reinterpret_cast<__m512d>(v));
#else
  for (int i = 0; i < count; ++i) p[i] = v[i];
#endif
}
QR_INLINE VecL first_doubles(int count) noexcept {
  VecL lane;
  QR_UNROLL for (int i = 0; i < kDoubles; ++i) lane[i] = i;
  return lane < splat(static_cast<std::int64_t>(count));
}

QR_INLINE VecD fma(VecD a, VecD b, VecD c) noexcept { return a * b + c; }
// Of NaN and a number: the second operand's value as x86 has it.
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
QR_INLINE VecD min(VecD a, VecD b) noexcept {
  return reinterpret_cast<VecD>(_mm512_maskz_min_pd(0xff, reinterpret_cast<__m512d>(a), reinterpret_cast<__m512d>(b)));
}
QR_INLINE VecD max(VecD a, VecD b) noexcept {
  return reinterpret_cast<VecD>(_mm512_maskz_max_pd(0xff, reinterpret_cast<__m512d>(a), reinterpret_cast<__m512d>(b)));
}
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
QR_INLINE VecD min(VecD a, VecD b) noexcept {
  return reinterpret_cast<VecD>(_mm256_min_pd(reinterpret_cast<__m256d>(a), reinterpret_cast<__m256d>(b)));
}
QR_INLINE VecD max(VecD a, VecD b) noexcept {
  return reinterpret_cast<VecD>(_mm256_max_pd(reinterpret_cast<__m256d>(a), reinterpret_cast<__m256d>(b)));
}
#elif defined(__SSE2__) && QR_ISA_BYTES == 16
QR_INLINE VecD min(VecD a, VecD b) noexcept {
  return reinterpret_cast<VecD>(_mm_min_pd(reinterpret_cast<__m128d>(a), reinterpret_cast<__m128d>(b)));
}
QR_INLINE VecD max(VecD a, VecD b) noexcept {
  return reinterpret_cast<VecD>(_mm_max_pd(reinterpret_cast<__m128d>(a), reinterpret_cast<__m128d>(b)));
}
#else
QR_INLINE VecD min(VecD a, VecD b) noexcept { return a < b ? a : b; }
QR_INLINE VecD max(VecD a, VecD b) noexcept { return a > b ? a : b; }
#endif
// NaN stays NaN.
QR_INLINE VecD clamp(VecD x, VecD low, VecD high) noexcept { return min(high, max(low, x)); }
QR_INLINE VecD sqrt(VecD v) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecD>(_mm512_maskz_sqrt_pd(0xff, reinterpret_cast<__m512d>(v)));
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecD>(_mm256_sqrt_pd(reinterpret_cast<__m256d>(v)));
#elif defined(__SSE2__) && QR_ISA_BYTES == 16
  return reinterpret_cast<VecD>(_mm_sqrt_pd(reinterpret_cast<__m128d>(v)));
#elif defined(__ARM_NEON) && defined(__aarch64__) && QR_ISA_BYTES == 16
  return reinterpret_cast<VecD>(vsqrtq_f64(reinterpret_cast<float64x2_t>(v)));
#else
  for (int i = 0; i < kDoubles; ++i) v[i] = __builtin_sqrt(v[i]);
  return v;
#endif
}
QR_INLINE VecL bits_of(VecD v) noexcept { return reinterpret_cast<VecL>(v); }
QR_INLINE VecD of_bits(VecL v) noexcept { return reinterpret_cast<VecD>(v); }
QR_INLINE VecD abs(VecD x) noexcept { return of_bits(bits_of(x) & splat(INT64_MAX)); }
QR_INLINE VecD with_sign_of(VecD magnitude, VecD sign) noexcept {
  return of_bits((bits_of(magnitude) & splat(INT64_MAX)) | (bits_of(sign) & splat(INT64_MIN)));
}
QR_INLINE bool any(VecL mask) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return _mm512_test_epi64_mask(reinterpret_cast<__m512i>(mask), reinterpret_cast<__m512i>(mask)) != 0;
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  return _mm256_movemask_pd(reinterpret_cast<__m256d>(mask)) != 0;
#elif defined(__SSE2__) && QR_ISA_BYTES == 16
  return _mm_movemask_pd(reinterpret_cast<__m128d>(mask)) != 0;
#else
  std::int64_t all = 0;
  QR_UNROLL for (int i = 0; i < kDoubles; ++i) all |= mask[i];
  return all != 0;
#endif
}
QR_INLINE double sum(VecD v) noexcept {
  double parts[kDoubles];
  store(parts, v);
  for (int half = kDoubles / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
  return parts[0];
}

// A number of less than 2^51 plus this is rounded, half to even; the integer stands in the lowest bits.
inline constexpr double kRounder = 0x1.8p52;
// Half to even; the sign of zero stays.
QR_INLINE VecD round(VecD x) noexcept {
  const VecD t = abs(x), whole = (t + splat(0x1p52)) - splat(0x1p52);
  return t < splat(0x1p52) ? with_sign_of(whole, x) : x;
}
QR_INLINE VecD floor(VecD x) noexcept {
  const VecD r = round(x);
  return r > x ? r - splat(1.0) : r;
}
QR_INLINE VecD ceil(VecD x) noexcept { return -floor(-x); }
// 2^n of a whole n from -1022 to 1023.
QR_INLINE VecD power_of_two(VecD n) noexcept {
  return of_bits((bits_of(n + splat(kRounder)) << 52) + (std::int64_t{1023} << 52));
}

// exp(r) - 1 of |r| <= log(2) / 2.
QR_INLINE VecD expm1_near_zero(VecD r) noexcept {
  constexpr double kFactors[] = {1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0, 1 / 40320.0, 1 / 5040.0,
                                 1 / 720.0,       1 / 120.0,      1 / 24.0,      1 / 6.0,      0.5};
  VecD p = splat(1 / 6227020800.0);
  QR_UNROLL for (int i = 0; i < 11; ++i) p = fma(p, r, splat(kFactors[i]));
  return fma(p * r, r, r);
}
struct Powers {  // x = n * log(2) + r
  VecD n, r;
};
QR_INLINE Powers powers_in(VecD x) noexcept {
  const VecD n = fma(x, splat(1.44269504088896338700), splat(kRounder)) - splat(kRounder);
  // The first part is short: n times it is exact without fused operations too.
  return {n, fma(n, splat(-1.90821492927058770002e-10), fma(n, splat(-6.93147180369123816490e-01), x))};
}
QR_INLINE VecD exp(VecD x) noexcept {
  const Powers p = powers_in(clamp(x, splat(-746.0), splat(710.0)));
  // In two steps, for results of less than the least exponent.
  const VecD half = fma(p.n, splat(0.5), splat(kRounder)) - splat(kRounder);
  return (expm1_near_zero(p.r) + splat(1.0)) * power_of_two(half) * power_of_two(p.n - half);
}
// exp(x) - 1 of x <= 0.
QR_INLINE VecD expm1_of_negative(VecD x) noexcept {
  const Powers p = powers_in(max(splat(-60.0), x));
  const VecD scale = power_of_two(p.n);
  return fma(scale, expm1_near_zero(p.r), scale - splat(1.0));
}
QR_INLINE VecD tanh(VecD x) noexcept {
  const VecD m = expm1_of_negative(abs(x) * splat(-2.0));
  return with_sign_of(m / (m + splat(2.0)), x);
}
QR_INLINE VecD sigmoid(VecD x) noexcept { return splat(1.0) / (splat(1.0) + exp(-x)); }

// log(x) of x > 0 and not infinite.
QR_INLINE VecD log_of_positive(VecD x) noexcept {
  const VecL tiny = x < splat(0x1p-1022);
  const VecD normal = tiny ? x * splat(0x1p54) : x;
  // x = 2^k * m, m from sqrt(1/2) to sqrt(2); the exponent is made a number by its place in 2^52's lowest bits.
  constexpr std::int64_t kRootHalf = 0x3fe6a09e667f3bcd, kBias = std::int64_t{1024} << 52;
  const VecL from = bits_of(normal) - splat(kRootHalf) + splat(kBias);
  typedef std::uint64_t VecUL __attribute__((vector_size(QR_ISA_BYTES)));
  const VecL exponent = reinterpret_cast<VecL>(reinterpret_cast<VecUL>(from) >> 52);
  const VecD k = of_bits(exponent | splat(std::int64_t{0x4330000000000000})) - splat(0x1p52 + 1024) -
                 (tiny ? splat(54.0) : VecD{});
  const VecD m = of_bits((from & splat(std::int64_t{0x000fffffffffffff})) + splat(kRootHalf));
  const VecD f = m - splat(1.0), s = f / (m + splat(1.0)), z = s * s, half = splat(0.5) * f * f;
  VecD p = splat(1.479819860511658591e-01);
  p = fma(p, z, splat(1.531383769920937332e-01));
  p = fma(p, z, splat(1.818357216161805012e-01));
  p = fma(p, z, splat(2.222219843214978396e-01));
  p = fma(p, z, splat(2.857142874366239149e-01));
  p = fma(p, z, splat(3.999999999940941908e-01));
  p = fma(p, z, splat(6.666666666666735130e-01));
  return k * splat(6.93147180369123816490e-01) -
         ((half - fma(s, half + z * p, k * splat(1.90821492927058770002e-10))) - f);
}
QR_INLINE VecD log(VecD x) noexcept {
  const VecD y = log_of_positive(x), inf = splat(__builtin_inf());
  const VecD odd = x < VecD{} ? splat(__builtin_nan("")) : x == VecD{} ? -inf : x;
  return (x > VecD{}) & (x < inf) ? y : odd;
}
// log(1 + u), u from 0 to 1.
QR_INLINE VecD log1p_of_positive(VecD u) noexcept {
  const VecD w = u + splat(1.0);
  return log_of_positive(w) + (u - (w - splat(1.0))) / w;
}
QR_INLINE VecD softplus(VecD x) noexcept {
  const VecD y = max(VecD{}, x) + log1p_of_positive(exp(-abs(x)));
  return x != x ? x : y;
}

// Sine and cosine of r where x = turns * pi / 2 + r; only the lowest bits of `turns` are meant.
struct Waves {
  VecD sine, cosine;
  VecL turns;
};
// Beyond that, pi / 2 in three parts is not enough.
inline constexpr double kFarthest = 1e5;
QR_INLINE Waves waves_in(VecD x) noexcept {
  // The first two parts are short: n times them is exact without fused operations too.
  const VecD shifted = fma(x, splat(0.636619772367581343076), splat(kRounder)), n = shifted - splat(kRounder);
  VecD r = fma(n, splat(-1.57079632673412561417e+00), x);
  r = fma(n, splat(-6.07710050630396597660e-11), r);
  r = fma(n, splat(-2.02226624879595063154e-21), r);
  const VecD z = r * r;
  VecD s = fma(splat(1.58969099521155010221e-10), z, splat(-2.50507602534068634195e-08));
  s = fma(s, z, splat(2.75573137070700676789e-06));
  s = fma(s, z, splat(-1.98412698298579493134e-04));
  s = fma(s, z, splat(8.33333333332248946124e-03));
  s = fma(s, z, splat(-1.66666666666666324348e-01));
  VecD c = fma(splat(-1.13596475577881948265e-11), z, splat(2.08757232129817482790e-09));
  c = fma(c, z, splat(-2.75573143513906633035e-07));
  c = fma(c, z, splat(2.48015872894767294178e-05));
  c = fma(c, z, splat(-1.38888888888741095749e-03));
  c = fma(c, z, splat(4.16666666666666019037e-02));
  const VecD half = splat(0.5) * z, whole = splat(1.0) - half;
  return {fma(s * z, r, r), whole + fma(z * z, c, (splat(1.0) - whole) - half), bits_of(shifted)};
}
// Of |x| <= kFarthest.
QR_INLINE VecD cosine_near(VecD x) noexcept {
  const Waves w = waves_in(x);
  const VecL turn = w.turns + splat(std::int64_t{1}), odd = (turn & splat(std::int64_t{1})) == splat(std::int64_t{1});
  const VecD value = odd ? w.cosine : w.sine;  // cos(x) = sin(x + pi / 2)
  return of_bits(bits_of(value) ^ ((turn & splat(std::int64_t{2})) << 62));
}

// f of each element. Of a short function two vectors at a time; of a long one processors work on several vectors by
// themselves.
template <bool is_short, class F>
QR_INLINE void map_as(const double *x, double *y, std::int64_t count, F f) noexcept {
  std::int64_t i = 0;
  if constexpr (is_short)
    for (; i + 2 * kDoubles <= count; i += 2 * kDoubles) {
      const VecD a = f(load(x + i)), b = f(load(x + i + kDoubles));
      store(y + i, a), store(y + i + kDoubles, b);
    }
  for (; i + kDoubles <= count; i += kDoubles) store(y + i, f(load(x + i)));
  if (const int rest = static_cast<int>(count - i); rest > 0) store_part(y + i, f(load_part(x + i, rest)), rest);
}
template <class F>
QR_INLINE void map(const double *x, double *y, std::int64_t count, F f) noexcept {
  map_as<true>(x, y, count, f);
}
template <class F>
QR_INLINE void map_long(const double *x, double *y, std::int64_t count, F f) noexcept {
  map_as<false>(x, y, count, f);
}

}  // namespace quarry::kernels::QR_ISA
