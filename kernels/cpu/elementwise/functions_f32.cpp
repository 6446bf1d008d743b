// SPDX-License-Identifier: Apache-2.0
// Functions of one f32 that are no activations: trigonometry, and what is rare.
#include "kernels/cpu/vector/functions_f32.h"

#include "kernels/cpu/vector/activate.h"
#include "kernels/cpu/vector/written.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Beyond that, pi / 2 in four parts is not enough: lanes by the C library.
constexpr float kFarthest = 8192;

template <class F>
QR_INLINE VecF by_lane(VecF x, F f) noexcept {
  VecF y{};
  for (int i = 0; i < kLanes; ++i) y[i] = f(x[i]);
  return y;
}

// x = n * pi / 2 + r, |r| <= pi / 4: sin(r), cos(r) and n. Within 1 ulp of the sine, 1.5 of the larger one.
struct Quadrant {
  VecF sine, cosine;
  VecI n;
};
QR_INLINE Quadrant quadrant(VecF x) noexcept {
  const VecF near = abs(x) <= splat(kFarthest) ? x : VecF{};
  const VecF n = round(near * splat(0.636619772f));
  // All but the last part are short: n times them is exact without fused operations too. A float may lie within 1e-7 of
  // a multiple, and what is left of it must be right. r + rest is what is left: r alone, rounded, would be 2 ulp off
  // where it is just above a power of two and its sine just below.
  const VecF part = splat(-7.549533620476723e-8f);
  VecF whole = fma(n, splat(-1.5703125f), near);
  whole = fma(n, splat(-4.837512969970703125e-4f), whole);
  const VecF r = fma(n, part, whole);
  const VecF rest = fma(n, splat(-2.5633440682570896e-12f), fma(n, part, whole - r));
  const VecF z = r * r;
  VecF s = fma(splat(-1.9515295891e-4f), z, splat(8.3321608736e-3f));
  s = fma(s, z, splat(-1.6666654611e-1f));
  VecF c = fma(splat(2.443315711809948e-5f), z, splat(-1.388731625493765e-3f));
  c = fma(c, z, splat(4.166664568298827e-2f));
  return {r + fma(s * z, r, rest), fma(c * z, z, fma(splat(-0.5f), z, splat(1.0f))), truncate(n)};
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
    const VecF y = odd ? -(q.cosine / q.sine) : q.sine / q.cosine;
    return nan_of(x, x == VecF{} ? x : y);  // the sign of zero stays
  } else {
    const VecI turn = op == ElementOp::Sin ? q.n : q.n + splat(1);  // cos(x) = sin(x + pi / 2)
    const VecI use_cosine = op == ElementOp::Sin ? odd : ~odd;
    const VecF value = use_cosine ? q.cosine : q.sine;
    const VecF y = of_bits(bits_of(value) ^ ((turn & splat(2)) << 30));
    return nan_of(x, op == ElementOp::Sin ? (x == VecF{} ? x : y) : y);
  }
}

QR_INLINE VecF sinh(VecF x) noexcept {
  const VecF t = abs(x), m = expm1_of_negative(-min(splat(2.0f), t));
  const VecF small = -m * (m + splat(2.0f)) / (splat(2.0f) * (m + splat(1.0f)));
  const VecF half = exp(t * splat(0.5f));
  const VecF large = fma(splat(0.5f) * half, half, splat(-0.5f) / half / half);
  return with_sign_of(abs(t < splat(2.0f) ? small : nan_of(x, large)), x);
}
QR_INLINE VecF cosh(VecF x) noexcept {
  const VecF half = exp(abs(x) * splat(0.5f));
  return nan_of(x, fma(splat(0.5f) * half, half, splat(0.5f) / half / half));
}

// asin of a in [0, 1]; NaN beyond.
QR_INLINE VecF arc_sine(VecF a) noexcept {
  const VecF half = splat(0.5f);
  const VecI steep = a > half;
  const VecF z = steep ? fma(a, -half, half) : a * a, r = steep ? sqrt(z) : a;
  VecF p = fma(splat(4.2163199048e-2f), z, splat(2.4181311049e-2f));
  p = fma(p, z, splat(4.5470025998e-2f));
  p = fma(p, z, splat(7.4953002686e-2f));
  p = fma(p, z, splat(1.6666752422e-1f));
  const VecF y = fma(p * z, r, r);
  return steep ? fma(y, splat(-2.0f), splat(1.57079632679f)) : y;
}
QR_INLINE VecF arc_cosine(VecF x) noexcept {
  const VecF a = abs(x), half = splat(0.5f), s = arc_sine(sqrt(fma(a, -half, half)));
  const VecF far = x < VecF{} ? fma(s, splat(-2.0f), splat(3.14159265359f)) : splat(2.0f) * s;
  return a > half ? far : splat(1.57079632679f) - with_sign_of(arc_sine(a), x);
}
QR_INLINE VecF arc_tangent(VecF x) noexcept {
  const VecF t = abs(x), one = splat(1.0f);
  const VecI far = t > splat(2.414213562f), middle = t > splat(0.4142135624f);
  const VecF v = far ? -one / t : middle ? (t - one) / (t + one) : t, z = v * v;
  const VecF from = far ? splat(1.57079632679f) : middle ? splat(0.785398163397f) : VecF{};
  VecF p = fma(splat(8.05374449538e-2f), z, splat(-1.38776856032e-1f));
  p = fma(p, z, splat(1.99777106478e-1f));
  p = fma(p, z, splat(-3.33329491539e-1f));
  return nan_of(x, with_sign_of(from + fma(p * z, v, v), x));
}
// log(1 + u) for u >= 0: of what is large it is that of u.
QR_INLINE VecF log1p_of_any(VecF u) noexcept {
  const VecF small = min(u, splat(1e9f));
  return nan_of(u, u > splat(1e9f) ? log(u) : log1p_of_positive(small));
}
// Of what is large it is log(2 t).
QR_INLINE VecF arc_sinh(VecF x) noexcept {
  const VecF t = abs(x), one = splat(1.0f), small = min(t, splat(1e5f)), z = small * small;
  const VecF near = log1p_of_positive(small + z / (one + sqrt(one + z)));
  return nan_of(x, with_sign_of(t > splat(1e5f) ? log(t) + splat(0.693147180560f) : near, x));
}
QR_INLINE VecF arc_cosh(VecF x) noexcept {
  const VecF u = min(x, splat(1e5f)) - splat(1.0f);
  const VecF near = log1p_of_any(u + sqrt(u * (u + splat(2.0f))));
  const VecF inside = x < splat(1.0f) ? splat(__builtin_nanf("")) : nan_of(x, near);
  return x > splat(1e5f) ? log(x) + splat(0.693147180560f) : inside;
}
QR_INLINE VecF arc_tanh(VecF x) noexcept {
  const VecF t = abs(x), one = splat(1.0f), inside = min(t, one);
  const VecF y = splat(0.5f) * log1p_of_any(splat(2.0f) * inside / (one - inside));
  return t <= one ? with_sign_of(y, x) : splat(__builtin_nanf(""));
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
      return map(x, y, count, [=](VecF v) { return vb * (v < zero ? va * expm1_of_negative(min(zero, v)) : v); });
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
    case ElementOp::Asin: return map(x, y, count, [](VecF v) { return with_sign_of(arc_sine(abs(v)), v); });
    case ElementOp::Acos: return map(x, y, count, [](VecF v) { return arc_cosine(v); });
    case ElementOp::Atan: return map(x, y, count, [](VecF v) { return arc_tangent(v); });
    case ElementOp::Asinh: return map(x, y, count, [](VecF v) { return arc_sinh(v); });
    case ElementOp::Acosh: return map(x, y, count, [](VecF v) { return arc_cosh(v); });
    case ElementOp::Atanh: return map(x, y, count, [](VecF v) { return arc_tanh(v); });
#define QR_EXPRESSION(op, ...) \
  case ElementOp::op:          \
    return map(x, y, count, [=](VecF v) { return written_##op<float>(v, va, vb); });
#include "graph/ops/functions.inc"
    default: return;
  }
}

}  // namespace quarry::kernels::QR_ISA
