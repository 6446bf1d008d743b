// SPDX-License-Identifier: Apache-2.0
// Operators on one operand, element by element. Functions that are not exact are computed in double and rounded once.
#include <cmath>
#include <type_traits>

#include "base/real/real.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/tensors.h"

namespace quarry::reference {
namespace {

// to[i] = f(from[i]) for `count` elements, f being what `user` points to.
using UnaryRow = void (*)(const void *user, const void *from, void *to, std::int64_t count);
template <class T, class R, class F>
void unary_row(const void *user, const void *given, void *made, std::int64_t count) {
  const F f = *static_cast<const F *>(user);
  const T *const from = static_cast<const T *>(given);
  R *const to = static_cast<R *>(made);
  for (std::int64_t i = 0; i < count; ++i) to[i] = f(from[i]);
}
// `row` is nullptr where there is none for the type.
Status map_rows(Context &context, UnaryRow row, const void *user) {
  const View &in = *context.input(0);
  View &out = *context.output(0);
  if (!row) return type_error(context, in.dtype);
  for_stretches(context, in.count, [&](std::int64_t begin, std::int64_t end) {
    row(user, element(in, begin), element(out, begin), end - begin);
  });
  return {};
}

// out[i] = f(in[i]) in one of the types Ts.
template <class... Ts, class F>
Status unary_same_type(Context &context, F f) {
  const View &in = *context.input(0);
  View *out = context.output(0);
  if (!out) return {};
  if (in.dtype != out->dtype) return type_error(context, out->dtype);
  UnaryRow row = nullptr;
  dispatch<Ts...>(in.dtype, [&](auto tag) { row = unary_row<decltype(tag), decltype(tag), F>; });
  return map_rows(context, row, &f);
}
template <class F>
Status unary_numbers(Context &context, F f) {
  return unary_same_type<float, double, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                         std::uint32_t, std::int64_t, std::uint64_t>(context, f);
}
// f in the type of the elements: for what is exact.
template <class F>
Status exact(Context &context, F f) {
  return unary_same_type<float, double>(context, f);
}
// f(double) -> double.
template <class F>
Status real(Context &context, F f) {
  return unary_same_type<float, double>(context,
                                        [f](auto x) { return static_cast<decltype(x)>(f(static_cast<double>(x))); });
}

double attribute(Context &context, std::string_view name, float fallback) {
  return context.node().get_float(name, fallback);
}

double logistic(double x) { return 1 / (1 + real::exp(-x)); }
double softplus(double x) { return (x > 0 ? x : 0) + real::log1p(real::exp(-std::fabs(x))); }
double clamp01(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

// A truth value per element, of f32 and f64.
template <class F>
Status test(Context &context, F f) {
  if (!context.output(0)) return {};
  UnaryRow row = nullptr;
  dispatch<float, double>(context.input(0)->dtype, [&](auto tag) { row = unary_row<decltype(tag), std::uint8_t, F>; });
  return map_rows(context, row, &f);
}

}  // namespace

#define QR_REAL(name, expression)                              \
  Status kernel_##name(Context &context) {                     \
    return real(context, [](double x) { return expression; }); \
  }
QR_REAL(acos, real::acos(x))
QR_REAL(acosh, real::acosh(x))
QR_REAL(asin, real::asin(x))
QR_REAL(asinh, real::asinh(x))
QR_REAL(atan, real::atan(x))
QR_REAL(atanh, real::atanh(x))
QR_REAL(cos, real::cos(x))
QR_REAL(cosh, real::cosh(x))
QR_REAL(erf, real::erf(x))
QR_REAL(exp, real::exp(x))
QR_REAL(hard_swish, x *clamp01(x / 6 + 0.5))
QR_REAL(log, real::log(x))
QR_REAL(mish, x *real::tanh(softplus(x)))
QR_REAL(reciprocal, 1 / x)
QR_REAL(sigmoid, logistic(x))
QR_REAL(sin, real::sin(x))
QR_REAL(sinh, real::sinh(x))
QR_REAL(softplus, softplus(x))
QR_REAL(softsign, x / (1 + std::fabs(x)))
QR_REAL(sqrt, std::sqrt(x))
QR_REAL(tan, real::tan(x))
QR_REAL(tanh, real::tanh(x))
#undef QR_REAL

Status kernel_ceil(Context &context) {
  return exact(context, [](auto x) { return std::ceil(x); });
}
Status kernel_floor(Context &context) {
  return exact(context, [](auto x) { return std::floor(x); });
}
Status kernel_round(Context &context) {
  return exact(context, [](auto x) { return std::nearbyint(x); });  // half to even: nobody changes the rounding mode
}

Status kernel_abs(Context &context) {
  return unary_numbers(context, [](auto x) {
    using T = decltype(x);
    if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
    else if constexpr (std::is_signed_v<T>) return x < 0 ? static_cast<T>(0 - static_cast<std::uint64_t>(x)) : x;
    else return x;
  });
}
Status kernel_neg(Context &context) {
  return unary_same_type<float, double, std::int8_t, std::int16_t, std::int32_t, std::int64_t>(context, [](auto x) {
    using T = decltype(x);
    if constexpr (std::is_floating_point_v<T>) return -x;
    else return static_cast<T>(0 - static_cast<std::uint64_t>(x));
  });
}
Status kernel_sign(Context &context) {
  return unary_numbers(context, [](auto x) {
    using T = decltype(x);
    if constexpr (std::is_floating_point_v<T>)
      if (x != x) return x;
    return static_cast<T>(static_cast<int>(x > T{0}) - static_cast<int>(x < T{0}));
  });
}
Status kernel_relu(Context &context) {
  return unary_same_type<float, double, std::int8_t, std::int16_t, std::int32_t, std::int64_t>(
      context, [](auto x) { return x < 0 ? decltype(x){0} : x; });  // NaN stays
}
Status kernel_leaky_relu(Context &context) {
  const float alpha = context.node().get_float("alpha", 0.01f);
  return exact(context, [alpha](auto x) { return x < 0 ? static_cast<decltype(x)>(alpha) * x : x; });
}
Status kernel_thresholded_relu(Context &context) {
  const float alpha = context.node().get_float("alpha", 1.0f);
  return exact(context, [alpha](auto x) { return x > static_cast<decltype(x)>(alpha) ? x : decltype(x){0}; });
}
Status kernel_Binarizer(Context &context) {
  const double threshold = attribute(context, "threshold", 0.0f);
  return unary_same_type<float, double, std::int32_t, std::int64_t>(context, [threshold](auto x) {
    return static_cast<decltype(x)>(static_cast<double>(x) > threshold ? 1 : 0);  // NaN is not greater
  });
}
Status kernel_elu(Context &context) {
  const double alpha = attribute(context, "alpha", 1.0f);
  return real(context, [alpha](double x) { return x < 0 ? alpha * real::expm1(x) : x; });
}
Status kernel_celu(Context &context) {
  const double alpha = attribute(context, "alpha", 1.0f);
  return real(context, [alpha](double x) { return x < 0 ? alpha * real::expm1(x / alpha) : x; });
}
Status kernel_selu(Context &context) {
  const double alpha = attribute(context, "alpha", 1.67326319f), gamma = attribute(context, "gamma", 1.05070102f);
  return real(context, [alpha, gamma](double x) { return gamma * (x <= 0 ? alpha * real::expm1(x) : x); });
}
Status kernel_hard_sigmoid(Context &context) {
  const double alpha = attribute(context, "alpha", 0.2f), beta = attribute(context, "beta", 0.5f);
  return real(context, [alpha, beta](double x) { return clamp01(alpha * x + beta); });
}
Status kernel_gelu(Context &context) {
  if (context.node().get_string("approximate", "none") == "tanh") {
    constexpr double kRootTwoByPi = 0.79788456080286535588;
    return real(context,
                [](double x) { return 0.5 * x * (1 + real::tanh(kRootTwoByPi * (x + 0.044715 * x * x * x))); });
  }
  constexpr double kRootHalf = 0.70710678118654752440;
  return real(context, [](double x) { return 0.5 * x * (1 + real::erf(x * kRootHalf)); });
}
Status kernel_swish(Context &context) {
  const double alpha = attribute(context, "alpha", 1.0f);
  return real(context, [alpha](double x) { return x * logistic(alpha * x); });
}
Status kernel_quick_gelu(Context &context) {
  const double alpha = attribute(context, "alpha", 1.702f);
  return real(context, [alpha](double x) { return x * logistic(alpha * x); });
}
Status kernel_shrink(Context &context) {
  const double lambd = attribute(context, "lambd", 0.5f), bias = attribute(context, "bias", 0.0f);
  return unary_numbers(context, [lambd, bias](auto x) {
    const double value = static_cast<double>(x);
    return cast_to<decltype(x)>(value < -lambd   ? value + bias
                                : value > lambd  ? value - bias
                                : value != value ? value
                                                 : 0.0);
  });
}

Status kernel_not(Context &context) {
  const View &in = *context.input(0);
  View *out = context.output(0);
  if (!out) return {};
  for (std::int64_t i = 0; i < in.count; ++i) out->as<std::uint8_t>()[i] = in.as<const std::uint8_t>()[i] == 0;
  return {};
}
Status kernel_bitwise_not(Context &context) {
  return unary_same_type<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
                         std::int64_t, std::uint64_t>(context, [](auto x) { return static_cast<decltype(x)>(~x); });
}

Status kernel_is_inf(Context &context) {
  const bool negative = context.node().get_int("detect_negative", 1) != 0,
             positive = context.node().get_int("detect_positive", 1) != 0;
  return test(context, [=](auto x) { return std::isinf(x) && (x < 0 ? negative : positive); });
}
Status kernel_is_nan(Context &context) {
  return test(context, [](auto x) { return x != x; });
}

namespace {

// Min(max, Max(x, min)); NaN stays.
struct Clip {
  const View *low_view, *high_view;
  std::uint64_t low = 0, high = 0;  // their bits

  Clip(const View *low_given, const View *high_given) : low_view(low_given), high_view(high_given) {
    if (low_view) std::memcpy(&low, low_view->data, low_view->width);
    if (high_view) std::memcpy(&high, high_view->data, high_view->width);
  }
  template <class T>
  T operator()(T x) const noexcept {
    using Limits = std::numeric_limits<T>;
    constexpr T kLowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest(),
                kHighest = Limits::has_infinity ? Limits::infinity() : Limits::max();
    T least, most;
    std::memcpy(&least, &low, sizeof(T)), std::memcpy(&most, &high, sizeof(T));
    if (!low_view) least = kLowest;
    if (!high_view) most = kHighest;
    x = x < least ? least : x;
    return x > most ? most : x;
  }
};

}  // namespace

Status kernel_clip(Context &context) {
  const View *low = context.input(1), *high = context.input(2);
  for (const View *bound : {low, high})
    if (bound && (bound->count != 1 || bound->dtype != context.input(0)->dtype))
      return type_error(context, bound->dtype);
  return unary_numbers(context, Clip(low, high));
}

}  // namespace quarry::reference
