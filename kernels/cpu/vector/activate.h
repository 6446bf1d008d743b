// SPDX-License-Identifier: Apache-2.0
// Elementary functions of a vector, and activations. Errors are in units of the last place (ulp), over all inputs where
// the result is a normal number; NaN gives NaN, infinities and overflows give what the C functions give, subnormal
// results are right to the last place or two.
#pragma once

#include "kernels/cpu/vector/vec.h"

namespace quarry::kernels::QR_ISA {

QR_INLINE VecI bits_of(VecF v) noexcept { return reinterpret_cast<VecI>(v); }
QR_INLINE VecF of_bits(VecI v) noexcept { return reinterpret_cast<VecF>(v); }
QR_INLINE VecF of_bits(VecU v) noexcept { return reinterpret_cast<VecF>(v); }
// The magnitude of one (without a sign) and the sign of the other.
QR_INLINE VecF with_sign_of(VecF magnitude, VecF sign) noexcept {
  return of_bits(bits_of(magnitude) | (bits_of(sign) & splat(INT32_MIN)));
}

// Rounding to whole numbers; what is 2^23 and beyond is whole already. The sign of zero stays.
QR_INLINE VecF trunc_small(VecF v) noexcept {
  return with_sign_of(to_float(truncate(abs(v) < splat(8388608.0f) ? v : VecF{})), v);
}
QR_INLINE VecF floor(VecF v) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecF>(
      _mm512_maskz_roundscale_ps(0xffff, reinterpret_cast<__m512>(v), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecF>(_mm256_floor_ps(reinterpret_cast<__m256>(v)));
#elif defined(__ARM_NEON) && QR_ISA_BYTES == 16
  return reinterpret_cast<VecF>(vrndmq_f32(reinterpret_cast<float32x4_t>(v)));
#else
  const VecF t = trunc_small(v);
  return abs(v) < splat(8388608.0f) ? (t > v ? t - splat(1.0f) : t) : v;
#endif
}
QR_INLINE VecF ceil(VecF v) noexcept { return -floor(-v); }
QR_INLINE VecF round(VecF v) noexcept {  // half to even
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecF>(
      _mm512_maskz_roundscale_ps(0xffff, reinterpret_cast<__m512>(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecF>(
      _mm256_round_ps(reinterpret_cast<__m256>(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__ARM_NEON) && QR_ISA_BYTES == 16
  return reinterpret_cast<VecF>(vrndnq_f32(reinterpret_cast<float32x4_t>(v)));
#else
  const VecF magic = splat(8388608.0f), t = (abs(v) + magic) - magic;
  return abs(v) < magic ? with_sign_of(t, v) : v;
#endif
}

// exp(x) = 2^n * (1 + q), q = exp(r) - 1, |r| <= ln 2 / 2.
struct ExpParts {
  VecF q, n;  // n is whole
  VecU bits;  // n in the low bits
};
QR_INLINE ExpParts exp_parts(VecF x) noexcept {
  const VecF magic = splat(12582912.0f), t = fma(x, splat(1.44269504f), magic), n = t - magic;
  // ln 2 in two parts, the first short enough for n times it to be exact without fused operations.
  const VecF r = fma(n, splat(2.12194440e-4f), fma(n, splat(-0.693359375f), x));
  VecF p = fma(splat(1.9875691500e-4f), r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  return {fma(p, r * r, r), n, reinterpret_cast<VecU>(t)};
}
// 2^n, for n within [-126, 127].
QR_INLINE VecF power_of_two(VecU n) noexcept { return of_bits((n + 127u) << 23); }

#if defined(__AVX512F__) && QR_ISA_BYTES == 64
// exp(x) where `wanted` is set, else 0: with n in sixteenths, whose powers fill one register, a third of the polynomial
// does. |x| <= 104 where wanted. 2 ulp.
QR_INLINE VecF exp_by_sixteenths(VecF x, __mmask16 wanted) noexcept {
  const VecF powers = {1.0f,         1.044273782f, 1.090507733f, 1.138788635f, 1.189207115f, 1.241857812f,
                       1.296839555f, 1.354255547f, 1.414213562f, 1.476826146f, 1.542210825f, 1.610490332f,
                       1.681792831f, 1.75625216f,  1.834008086f, 1.915206561f};
  const VecF magic = splat(786432.0f), t = fma(x, splat(1.44269504f), magic), n = t - magic;
  const VecF r = fma(n, splat(2.12194440e-4f), fma(n, splat(-0.693359375f), x));
  const VecF q = fma(fma(splat(1.66666667e-1f), r, splat(0.5f)), r * r, r), power = choose(powers, bits_of(t));
  // It takes the whole part of n.
  return reinterpret_cast<VecF>(
      _mm512_maskz_scalef_ps(wanted, reinterpret_cast<__m512>(fma(q, power, power)), reinterpret_cast<__m512>(n)));
}
#endif

// 2 ulp.
QR_INLINE VecF exp(VecF x) noexcept {
  const VecF bounded = clamp(x, splat(-104.0f), splat(89.0f));
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return exp_by_sixteenths(bounded, 0xffff);
#else
  const ExpParts e = exp_parts(bounded);
  // In two steps, so that subnormal results come out and 2^128 fits.
  const VecU half = reinterpret_cast<VecU>(reinterpret_cast<VecI>((e.bits - 0x4b400000u)) >> 1);
  return (e.q + splat(1.0f)) * power_of_two(half) * power_of_two(e.bits - 0x4b400000u - half);
#endif
}
// For x <= 0 (or NaN) only, and 0 where exp(x) is below the normal numbers: for sums, where less than 2e-38 of the
// largest term is nothing. 2 ulp.
QR_INLINE VecF exp_of_negative(VecF x) noexcept {
  const VecF low = splat(-87.336540f);
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return exp_by_sixteenths(x,
                           _mm512_cmp_ps_mask(reinterpret_cast<__m512>(x), reinterpret_cast<__m512>(low), _CMP_NLT_UQ));
#else
  const ExpParts e = exp_parts(max(low, x));
  const VecF y = fma(e.q, power_of_two(e.bits), power_of_two(e.bits));
  return x < low ? VecF{} : y;
#endif
}
// For x <= 0 (or NaN) only, subnormal results too. 2 ulp.
QR_INLINE VecF exp_of_any_negative(VecF x) noexcept {
  const VecF bounded = max(splat(-104.0f), x);
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return exp_by_sixteenths(bounded, 0xffff);
#else
  const ExpParts e = exp_parts(bounded);
  // 2^64 too large as long as it is put together: then everything is normal, and what is subnormal is rounded once.
  const VecF scale = power_of_two(e.bits + 64u);
  return fma(e.q, scale, scale) * splat(5.42101086e-20f);
#endif
}
// exp(x) - 1 for x <= 0 (or NaN). 2 ulp.
QR_INLINE VecF expm1_of_negative(VecF x) noexcept {
  const ExpParts e = exp_parts(max(splat(-80.0f), x));
  const VecF scale = power_of_two(e.bits);
  return fma(e.q, scale, scale - splat(1.0f));
}

// 2 ulp.
QR_INLINE VecF log(VecF x) noexcept {
  const VecI small = x < splat(1.17549435e-38f);
  const VecF normal = small ? x * splat(8388608.0f) : x;
  // The mantissa within [sqrt(1/2), sqrt(2)).
  const VecI shifted = bits_of(normal) - splat(0x3f3504f3);
  const VecF n = to_float((shifted >> 23) - (small & splat(23)));
  const VecF m = of_bits((shifted & splat(0x7fffff)) + splat(0x3f3504f3)) - splat(1.0f), z = m * m;
  VecF p = fma(splat(7.0376836292e-2f), m, splat(-1.1514610310e-1f));
  p = fma(p, m, splat(1.1676998740e-1f));
  p = fma(p, m, splat(-1.2420140846e-1f));
  p = fma(p, m, splat(1.4249322787e-1f));
  p = fma(p, m, splat(-1.6668057665e-1f));
  p = fma(p, m, splat(2.0000714765e-1f));
  p = fma(p, m, splat(-2.4999993993e-1f));
  p = fma(p, m, splat(3.3333331174e-1f));
  VecF y = fma(n, splat(-2.12194440e-4f), p * m * z);
  y = fma(z, splat(-0.5f), y);
  y = fma(n, splat(0.693359375f), m + y);
  // 0 gives -inf, what is below NaN; +inf and NaN stay.
  const VecF edge = x == VecF{} ? splat(-__builtin_inff()) : x < VecF{} ? splat(__builtin_nanf("")) : x;
  return (x > VecF{}) & (x < splat(__builtin_inff())) ? y : edge;
}
// log(1 + u) for u >= 0 and finite (or NaN). 2 ulp.
QR_INLINE VecF log1p_of_positive(VecF u) noexcept {
  const VecF w = splat(1.0f) + u;
  return log(w) + (u - (w - splat(1.0f))) / w;
}

// x times a quotient of polynomials of x^2, within 2.2e-8 before rounding; beyond 9.02 it is 1. 6 ulp next to 1, where
// all roundings meet (ONNX Runtime's has as many), 3 ulp up to 1/2.
QR_INLINE VecF tanh(VecF x_) noexcept {
  const VecF x = clamp(x_, splat(-9.02f), splat(9.02f)), s = x * x;
  VecF p = fma(splat(1.338394278e-8f), s, splat(2.063556620e-5f));
  p = fma(p, s, splat(3.497442100e-3f));
  p = fma(p, s, splat(1.338267422e-1f));
  VecF q = fma(splat(7.790104891e-7f), s, splat(3.288491833e-4f));
  q = fma(q, s, splat(2.588430184e-2f));
  q = fma(q, s, splat(4.671599547e-1f));
  return clamp(fma(x * s, p, x) / fma(q, s, splat(1.0f)), splat(-1.0f), splat(1.0f));
}
// 3 ulp.
QR_INLINE VecF sigmoid(VecF x) noexcept {
  const VecF e = exp_of_any_negative(-abs(x));
  return select_negative(x, e, splat(1.0f)) / (splat(1.0f) + e);
}

// erf in two ranges: erf(x) = x + x * near (|x| <= kErfSplit), else 1 - exp(far) with the sign of x. N. Juffa's
// polynomials.
inline constexpr float kErfSplit = 0.927734375f;
QR_INLINE VecF erf_near(VecF s) noexcept {  // s = x * x
  VecF r = fma(splat(-5.96761703e-4f), s, splat(4.99119423e-3f));
  r = fma(r, s, splat(-2.67681349e-2f));
  r = fma(r, s, splat(1.12819925e-1f));
  r = fma(r, s, splat(-3.76125336e-1f));
  return fma(r, s, splat(1.28379166e-1f));
}
QR_INLINE VecF erf_far(VecF t, VecF s) noexcept {  // t = |x|, s = x * x
  VecF r = fma(splat(-1.72853470e-5f), t, splat(3.83197126e-4f));
  r = fma(r, s, fma(splat(-3.88396438e-3f), t, splat(2.42546219e-2f)));
  r = fma(r, t, splat(-1.06777877e-1f));
  r = fma(r, t, splat(-6.34846687e-1f));
  r = fma(r, t, splat(-1.28717512e-1f));
  return exp_of_negative(fma(r, t, -t));
}
// 2 ulp.
QR_INLINE VecF erf(VecF x) noexcept {
  const VecF t = abs(x), s = x * x;
  return t > splat(kErfSplit) ? with_sign_of(splat(1.0f) - erf_far(t, s), x) : fma(erf_near(s), x, x);
}
// x / 2 * (1 + erf(x / sqrt 2)) = x * P(x), P the normal distribution: P(-t) = 2^(-1 - t * (a polynomial of t)), P(t) =
// 1 - P(-t). Within 8e-8 * (1 + |x|), as the functions below; nothing cancels, so that small results are good to 1e-3
// of themselves down to x = -6, where they become 0.
QR_INLINE VecF gelu(VecF x) noexcept {
  const VecF t = min(splat(6.0f), abs(x));
  VecF p = fma(splat(2.450587829e-7f), t, splat(-5.577578615e-6f));
  p = fma(p, t, splat(5.091743987e-5f));
  p = fma(p, t, splat(-2.07940916e-4f));
  p = fma(p, t, splat(-1.229553633e-4f));
  p = fma(p, t, splat(7.073789064e-3f));
  p = fma(p, t, splat(-5.251545231e-2f));
  p = fma(p, t, splat(-4.591994149e-1f));
  p = fma(p, t, splat(-1.151106365f));
  // 2^q, -29 <= q <= 0.
  const VecF q = p * t, magic = splat(12582912.0f), rounded = q + magic, r = q - (rounded - magic);
  VecF e = fma(splat(1.535336188e-4f), r, splat(1.339887440e-3f));
  e = fma(e, r, splat(9.618437358e-3f));
  e = fma(e, r, splat(5.550332471e-2f));
  e = fma(e, r, splat(2.402264791e-1f));
  e = fma(e, r, splat(6.931472029e-1f));
  e = fma(e, r, splat(1.0f)) *
      of_bits((reinterpret_cast<VecU>(rounded) + 126u) << 23);  // half of it: the exponent is one less
  e = abs(x) > splat(6.0f) ? VecF{} : e;
  return x * (x < VecF{} ? e : splat(1.0f) - e);
}
// x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 x^3)), which is what the approximation by tanh comes to.
QR_INLINE VecF gelu_tanh(VecF x) noexcept {
  return x * sigmoid(x * fma(x * x, splat(0.0713548163f), splat(1.59576912f)));
}
QR_INLINE VecF softplus(VecF x) noexcept { return max(x, VecF{}) + log1p_of_positive(exp_of_any_negative(-abs(x))); }
// tanh(log(1 + e)) = (e^2 + 2 e) / (e^2 + 2 e + 2) with e = exp(x); beyond 20 it is 1.
QR_INLINE VecF mish(VecF x) noexcept {
  const VecF e = exp(min(splat(20.0f), x)), n = e * (e + splat(2.0f));
  return x * (n / (n + splat(2.0f)));
}

// One activation whose kind the compiler knows.
template <Act kind>
QR_INLINE VecF activate_as(VecF x, VecF a, VecF b) noexcept {
  const VecF zero{}, one = splat(1.0f);
  if constexpr (kind == Act::None) return x;
  else if constexpr (kind == Act::Clip) return clamp(x, a, b);
  else if constexpr (kind == Act::LeakyRelu) return x < zero ? a * x : x;
  else if constexpr (kind == Act::HardSigmoid) return clamp(fma(a, x, b), zero, one);
  else if constexpr (kind == Act::HardSwish) return x * clamp(fma(x, splat(1.0f / 6), splat(0.5f)), zero, one);
  else if constexpr (kind == Act::Sigmoid) return sigmoid(x);
  else if constexpr (kind == Act::Silu) return x * sigmoid(a * x);
  else if constexpr (kind == Act::Tanh) return tanh(x);
  else if constexpr (kind == Act::Gelu) return gelu(x);
  else if constexpr (kind == Act::GeluTanh) return gelu_tanh(x);
  else if constexpr (kind == Act::Elu) return x < zero ? a * expm1_of_negative(min(zero, x)) : x;
  else if constexpr (kind == Act::Softplus) return softplus(x);
  else if constexpr (kind == Act::Mish) return mish(x);
  else if constexpr (kind == Act::Erf) return erf(x);
  else if constexpr (kind == Act::Exp) return exp(x);
  else if constexpr (kind == Act::Log) return log(x);
  else if constexpr (kind == Act::Sqrt) return sqrt(x);
  else if constexpr (kind == Act::Rsqrt) return one / sqrt(x);
  else if constexpr (kind == Act::Reciprocal) return one / x;
  else if constexpr (kind == Act::Abs) return abs(x);
  else if constexpr (kind == Act::Neg) return -x;
  else if constexpr (kind == Act::Floor) return floor(x);
  else if constexpr (kind == Act::Ceil) return ceil(x);
  else if constexpr (kind == Act::Round) return round(x);
  else if constexpr (kind == Act::Linear) return fma(a, x, b);
  else return x * x;  // Square
}

// clang-format off
#define QR_EACH_ACT(X)                                                                                                \
  X(None)                                                                                                             \
  X(Clip)                                                                                                             \
  X(LeakyRelu)                                                                                                        \
  X(HardSigmoid) X(HardSwish) X(Sigmoid) X(Silu) X(Tanh) X(Gelu) X(GeluTanh) X(Elu) X(Softplus) X(Mish) X(Erf) X(Exp) \
      X(Log) X(Sqrt) X(Rsqrt) X(Reciprocal) X(Abs) X(Neg) X(Floor) X(Ceil) X(Round) X(Linear) X(Square)
// clang-format on

// Any activation; chooses at every call.
QR_INLINE VecF activate(const Activation &act, VecF x) noexcept {
  switch (act.kind) {
#define QR_CASE(kind) \
  case Act::kind: return activate_as<Act::kind>(x, splat(act.a), splat(act.b));
    QR_EACH_ACT(QR_CASE)
#undef QR_CASE
    case Act::Count: break;
  }
  return x;
}

// What is handed to the bodies of with_activation(): f(v) is the activation of v.
template <Act known>
struct KnownActivation {
  static constexpr Act kind = known;
  VecF a, b;
  __attribute__((always_inline)) VecF operator()(VecF x) const noexcept { return activate_as<known>(x, a, b); }
};
struct AnyActivation {
  const Activation &act;
  __attribute__((always_inline)) VecF operator()(VecF x) const noexcept { return activate(act, x); }
};

// Calls body(f) once. The body is compiled three times: for none, for bounds, and for all others, which choose at every
// vector (a well predicted jump): for loops around products.
template <class Body>
QR_INLINE void with_activation(const Activation &act, Body &&body) noexcept {
  if (act.kind == Act::None) body(KnownActivation<Act::None>{});
  else if (act.kind == Act::Clip) body(KnownActivation<Act::Clip>{splat(act.a), splat(act.b)});
  else body(AnyActivation{act});
}
// The same, compiled once for each kind: for small loops that do little else.
template <class Body>
QR_INLINE void with_each_activation(const Activation &act, Body &&body) noexcept {
  switch (act.kind) {
#define QR_CASE(kind) \
  case Act::kind: return body(KnownActivation<Act::kind>{splat(act.a), splat(act.b)});
    QR_EACH_ACT(QR_CASE)
#undef QR_CASE
    case Act::Count: break;
  }
}

// data[i] = act(data[i]): for results that are in the first-level cache and whose kernel has no room for activations in
// its loop. In elementwise_f32.cpp.
void activate_in_place(const Activation &act, float *data, std::int64_t count) noexcept;

}  // namespace quarry::kernels::QR_ISA
