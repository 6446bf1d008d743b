// SPDX-License-Identifier: Apache-2.0
// Functions of one f32 that are no activations: trigonometry, and what is rare.
#include "backends/common/kernels/isa/functions_f32.h"

#include "backends/common/kernels/isa/activate.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Beyond that, pi / 2 in three parts is not enough: lanes by the C library.
constexpr float kFarthest = 8192;

template <class F>
QR_INLINE VecF by_lane(VecF x, F f) noexcept {
  VecF y{};
  for (int i = 0; i < kLanes; ++i) y[i] = f(x[i]);
  return y;
}

// x = n * pi / 2 + r, |r| <= pi / 4: sin(r), cos(r) and n. Within 1.5 ulp of the larger one.
struct Quadrant {
  VecF sine, cosine;
  VecI n;
};
QR_INLINE Quadrant quadrant(VecF x) noexcept {
  const VecF near = abs(x) <= splat(kFarthest) ? x : VecF{};
  const VecF n = round(near * splat(0.636619772f));
  // The first two parts are short: n times them is exact without fused operations too.
  VecF r = fma(n, splat(-1.5703125f), near);
  r = fma(n, splat(-4.837512969970703125e-4f), r);
  r = fma(n, splat(-7.54978995489188216e-8f), r);
  const VecF z = r * r;
  VecF s = fma(splat(-1.9515295891e-4f), z, splat(8.3321608736e-3f));
  s = fma(s, z, splat(-1.6666654611e-1f));
  VecF c = fma(splat(2.443315711809948e-5f), z, splat(-1.388731625493765e-3f));
  c = fma(c, z, splat(4.166664568298827e-2f));
  return {fma(s * z, r, r), fma(c * z, z, fma(splat(-0.5f), z, splat(1.0f))), truncate(n)};
}
QR_INLINE bool all_near(VecF x) noexcept {
  // NaN is near: it comes out as NaN.
  const VecF far = abs(x) > splat(kFarthest) ? splat(1.0f) : VecF{};
  return sum(far) == 0;
}
QR_INLINE VecF nan_of(VecF x, VecF y) noexcept { return x != x ? x : y; }

template <ElementOp op>
QR_INLINE VecF wave(VecF x) noexcept {
  if (!all_near(x)) {
    if constexpr (op == ElementOp::Sin) return by_lane(x, [](float v) { return __builtin_sinf(v); });
    else if constexpr (op == ElementOp::Cos) return by_lane(x, [](float v) { return __builtin_cosf(v); });
    else return by_lane(x, [](float v) { return __builtin_tanf(v); });
  }
  const Quadrant q = quadrant(x);
  const VecI odd = (q.n & splat(1)) == splat(1);
  if constexpr (op == ElementOp::Tan) {
    return nan_of(x, odd ? -(q.cosine / q.sine) : q.sine / q.cosine);
  } else {
    const VecI turn = op == ElementOp::Sin ? q.n : q.n + splat(1);  // cos(x) = sin(x + pi / 2)
    const VecI use_cosine = op == ElementOp::Sin ? odd : ~odd;
    const VecF value = use_cosine ? q.cosine : q.sine;
    const VecF y = of_bits(bits_of(value) ^ ((turn & splat(2)) << 30));
    // The sign of zero stays.
    return nan_of(x, op == ElementOp::Sin ? (x == VecF{} ? x : y) : y);
  }
}

QR_INLINE VecF sinh(VecF x) noexcept {
  const VecF t = abs(x), m = expm1_of_negative(-min(splat(2.0f), t));
  const VecF small = -m * (m + splat(2.0f)) / (splat(2.0f) * (m + splat(1.0f)));
  const VecF half = exp(t * splat(0.5f));
  const VecF large = fma(splat(0.5f) * half, half, splat(-0.5f) / half / half);
  return with_sign_of(t < splat(2.0f) ? small : nan_of(x, large), x);
}
QR_INLINE VecF cosh(VecF x) noexcept {
  const VecF half = exp(abs(x) * splat(0.5f));
  return nan_of(x, fma(splat(0.5f) * half, half, splat(0.5f) / half / half));
}

template <class F>
QR_INLINE void map(const float *x, float *y, std::int64_t count, F f) noexcept {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, f(load(x + i)));
  if (const int rest = static_cast<int>(count - i); rest > 0) store_part(y + i, f(load_part(x + i, rest)), rest);
}

}  // namespace

void function_row(ElementOp op, float a, float b, const float *x, float *y, std::int64_t count) noexcept {
  const VecF zero{}, one = splat(1.0f), va = splat(a), vb = splat(b);
  switch (op) {
    case ElementOp::Softsign: return map(x, y, count, [=](VecF v) { return v / (one + abs(v)); });
    case ElementOp::Selu:
      return map(x, y, count, [=](VecF v) { return vb * (v > zero ? v : va * expm1_of_negative(min(zero, v))); });
    case ElementOp::Celu:
      return map(x, y, count, [=](VecF v) { return v < zero ? va * expm1_of_negative(min(zero, v / va)) : v; });
    case ElementOp::ThresholdedRelu: return map(x, y, count, [=](VecF v) { return v > va ? v : zero; });
    case ElementOp::Shrink:
      return map(x, y, count, [=](VecF v) { return v < -va ? v + vb : v > va ? v - vb : v != v ? v : zero; });
    case ElementOp::Sin: return map(x, y, count, [](VecF v) { return wave<ElementOp::Sin>(v); });
    case ElementOp::Cos: return map(x, y, count, [](VecF v) { return wave<ElementOp::Cos>(v); });
    case ElementOp::Tan: return map(x, y, count, [](VecF v) { return wave<ElementOp::Tan>(v); });
    case ElementOp::Sinh: return map(x, y, count, [](VecF v) { return sinh(v); });
    case ElementOp::Cosh: return map(x, y, count, [](VecF v) { return cosh(v); });
#define QR_LIBRARY(name, function)                                  \
  case ElementOp::name:                                             \
    for (std::int64_t i = 0; i < count; ++i) y[i] = function(x[i]); \
    return;
      QR_LIBRARY(Asin, __builtin_asinf)
      QR_LIBRARY(Acos, __builtin_acosf)
      QR_LIBRARY(Atan, __builtin_atanf)
      QR_LIBRARY(Asinh, __builtin_asinhf)
      QR_LIBRARY(Acosh, __builtin_acoshf)
      QR_LIBRARY(Atanh, __builtin_atanhf)
#undef QR_LIBRARY
    default: return;
  }
}

}  // namespace quarry::kernels::QR_ISA
