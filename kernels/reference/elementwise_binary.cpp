// SPDX-License-Identifier: Apache-2.0
// Operators on two broadcast operands. Integers wrap around; an integer division by zero gives 0.
#include <cmath>
#include <type_traits>

#include "base/real/real.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/rows.h"
#include "kernels/reference/tensors.h"

namespace quarry::reference {
namespace {

// One of the types Ts in and out, by f(a, b).
template <class... Ts, class F>
Status binary_same_type(Context &context, F f) {
  const View &a = *context.input(0), &b = *context.input(1);
  View *out = context.output(0);
  if (!out) return {};
  if (a.dtype != b.dtype || a.dtype != out->dtype) return type_error(context, b.dtype);
  const bool known = dispatch<Ts...>(a.dtype, [&](auto tag) {
    using T = decltype(tag);
    broadcast_binary<T, T, T>(context, a, b, *out, f);
  });
  return known ? Status() : type_error(context, a.dtype);
}
template <class... Ts, class F>
Status modular(Context &context, F f) {
  const View &a = *context.input(0), &b = *context.input(1);
  View *out = context.output(0);
  if (!out) return {};
  if (a.dtype != b.dtype || a.dtype != out->dtype) return type_error(context, b.dtype);
  const bool known =
      dispatch<Ts..., std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>(unsigned_of(a.dtype), [&](auto tag) {
        using T = decltype(tag);
        broadcast_binary<T, T, T>(context, a, b, *out, f);
      });
  return known ? Status() : type_error(context, a.dtype);
}
template <class F>
Status arithmetic(Context &context, F f) {
  return binary_same_type<float, double, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                          std::uint32_t, std::int64_t, std::uint64_t>(context, f);
}
// A truth value by f(a, b).
template <class... Ts, class F>
Status truth(Context &context, const View &a, const View &b, DType dtype, F f) {
  View *out = context.output(0);
  if (!out) return {};
  if (a.dtype != b.dtype || out->dtype != DType::Bool) return type_error(context, b.dtype);
  const bool known = dispatch<Ts...>(dtype, [&](auto tag) {
    using T = decltype(tag);
    broadcast_binary<T, T, std::uint8_t>(context, a, b, *out, f);
  });
  return known ? Status() : type_error(context, a.dtype);
}
template <class F>
Status order(Context &context, const View &a, const View &b, F f) {
  return truth<float, double, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
               std::int64_t, std::uint64_t>(context, a, b, a.dtype, f);
}
Status less(Context &context, const View &a, const View &b) {
  return order(context, a, b, [](auto x, auto y) { return x < y; });
}
Status less_or_equal(Context &context, const View &a, const View &b) {
  return order(context, a, b, [](auto x, auto y) { return x <= y; });
}
// Bools are read as bytes: a caller's may hold any value.
template <class F>
Status of_bools(Context &context, F f) {
  const View &a = *context.input(0), &b = *context.input(1);
  if (a.dtype != DType::Bool) return type_error(context, a.dtype);
  return truth<std::uint8_t>(context, a, b, DType::U8,
                             [f](std::uint8_t x, std::uint8_t y) { return f(x != 0, y != 0); });
}

struct Subtract {
  template <class T>
  T operator()(T a, T b) const noexcept {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
    else return a - b;
  }
};

// Quotients and remainders of integers are undefined in C++ for a zero divisor and for the lowest value by -1.
struct Divide {
  template <class T>
  T operator()(T a, T b) const noexcept {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return Subtract()(T{0}, a);
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};
template <class T>
T truncated_remainder(T a, T b) noexcept {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;
    return static_cast<T>(a % b);
  } else {
    return std::fmod(a, b);
  }
}
template <class T>
T floored_remainder(T a, T b) noexcept {
  const T rest = truncated_remainder(a, b);
  if constexpr (std::is_floating_point_v<T>) {
    if (rest == 0) return std::copysign(rest, b);
  } else if (rest == 0) {
    return 0;
  }
  return (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
}

template <class T>
T integer_power(T base, std::int64_t exponent) noexcept {
  if (exponent < 0) {  // 1 / base^n, towards zero
    if (base == 1) return 1;
    return base == -1 ? (exponent % 2 != 0 ? T{-1} : T{1}) : T{0};
  }
  std::uint64_t result = 1, factor = static_cast<std::uint64_t>(base);
  for (; exponent != 0; exponent >>= 1, factor *= factor)
    if (exponent & 1) result *= factor;
  return static_cast<T>(result);
}

// What does not fit becomes the nearest value that does, NaN 0.
template <class T>
T truncate_to(double value) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    if (value != value) return 0;
    if (value >= -static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::max();
    return value <= static_cast<double>(std::numeric_limits<T>::min()) ? std::numeric_limits<T>::min()
                                                                       : static_cast<T>(value);
  }
}

// A copy of an operand as f64 or, for integers, as i64.
View converted(Context &context, const View &view, DType dtype) {
  View copy = view;
  copy.dtype = dtype;
  copy.width = 8;
  copy.data = context.scratch(static_cast<std::uint64_t>(view.count) * 8);
  if (dtype == DType::F64) load_reals(view, 0, 1, view.count, copy.as<double>());
  else load_integers(view, 0, 1, view.count, copy.as<std::int64_t>());
  return copy;
}

template <class T>
T shift_left(T value, T amount) noexcept {
  using U = std::make_unsigned_t<T>;
  return static_cast<U>(amount) >= sizeof(T) * 8
             ? T{0}
             : static_cast<T>(static_cast<std::uint64_t>(value) << static_cast<U>(amount));
}
template <class T>
T shift_right(T value, T amount) noexcept {
  using U = std::make_unsigned_t<T>;
  const unsigned last = sizeof(T) * 8 - 1;
  if (static_cast<U>(amount) > last) return static_cast<T>(std::is_signed_v<T> && value < 0 ? -1 : 0);
  return static_cast<T>(value >> static_cast<U>(amount));
}

template <class T>
void select_row(const std::uint8_t *condition, const void *x, const void *y, const std::int64_t *steps, void *out,
                std::int64_t length) {
  const std::int64_t c_step = steps[0], x_step = steps[1], y_step = steps[2];
  const T *const p = static_cast<const T *>(x), *const q = static_cast<const T *>(y);
  T *const z = static_cast<T *>(out);
  for (std::int64_t i = 0; i < length; ++i) z[i] = condition[i * c_step] != 0 ? p[i * x_step] : q[i * y_step];
}

}  // namespace

Status kernel_add(Context &context) {
  return modular<float, double>(context, [](auto a, auto b) { return add(a, b); });
}
Status kernel_sub(Context &context) { return modular<float, double>(context, Subtract()); }
Status kernel_mul(Context &context) {
  return modular<float, double>(context, [](auto a, auto b) { return multiply(a, b); });
}
Status kernel_div(Context &context) { return arithmetic(context, Divide()); }

Status kernel_mod(Context &context) {
  if (context.node().get_int("fmod", 0) != 0)
    return arithmetic(context, [](auto a, auto b) { return truncated_remainder(a, b); });
  return arithmetic(context, [](auto a, auto b) { return floored_remainder(a, b); });
}

Status kernel_pow(Context &context) {
  const View &base = *context.input(0), &exponent = *context.input(1);
  View *out = context.output(0);
  if (!out) return {};
  if (is_integer(base.dtype) && is_integer(exponent.dtype)) {
    const View powers = converted(context, exponent, DType::I64);
    const bool known = dispatch<std::int32_t, std::int64_t>(base.dtype, [&](auto tag) {
      using T = decltype(tag);
      broadcast_binary<T, std::int64_t, T>(context, base, powers, *out,
                                           [](T a, std::int64_t b) { return integer_power(a, b); });
    });
    return known ? Status() : type_error(context, base.dtype);
  }
  const View powers = converted(context, exponent, DType::F64);
  const bool known = dispatch<float, double, std::int32_t, std::int64_t>(base.dtype, [&](auto tag) {
    using T = decltype(tag);
    broadcast_binary<T, double, T>(context, base, powers, *out, [](T a, double b) {
      return truncate_to<T>(b == 2 ? double(a) * double(a) : real::pow(double(a), b));
    });
  });
  return known ? Status() : type_error(context, base.dtype);
}

Status kernel_prelu(Context &context) {
  return binary_same_type<float, double, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t>(
      context, [](auto x, auto slope) { return x < 0 ? multiply(x, slope) : x; });
}

Status kernel_swiglu(Context &context) {
  const double alpha = context.node().get_float("alpha", 1.0f);
  return binary_same_type<float, double>(context, [alpha](auto gate, auto value) {
    const double g = gate;
    return static_cast<decltype(gate)>(g / (1 + real::exp(-alpha * g)) * static_cast<double>(value));
  });
}

Status kernel_equal(Context &context) {
  const View &a = *context.input(0), &b = *context.input(1);
  if (a.dtype == DType::Bool) return of_bools(context, [](bool x, bool y) { return x == y; });
  return truth<float, double, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>(
      context, a, b, unsigned_of(a.dtype), [](auto x, auto y) { return x == y; });
}
Status kernel_less(Context &context) { return less(context, *context.input(0), *context.input(1)); }
Status kernel_less_or_equal(Context &context) { return less_or_equal(context, *context.input(0), *context.input(1)); }
Status kernel_greater(Context &context) { return less(context, *context.input(1), *context.input(0)); }
Status kernel_greater_or_equal(Context &context) {
  return less_or_equal(context, *context.input(1), *context.input(0));
}
Status kernel_and(Context &context) {
  return of_bools(context, [](bool a, bool b) { return a & b; });
}
Status kernel_or(Context &context) {
  return of_bools(context, [](bool a, bool b) { return a | b; });
}
Status kernel_xor(Context &context) {
  return of_bools(context, [](bool a, bool b) { return a != b; });
}

Status kernel_bitwise_and(Context &context) {
  return modular<>(context, [](auto a, auto b) { return static_cast<decltype(a)>(a & b); });
}
Status kernel_bitwise_or(Context &context) {
  return modular<>(context, [](auto a, auto b) { return static_cast<decltype(a)>(a | b); });
}
Status kernel_bitwise_xor(Context &context) {
  return modular<>(context, [](auto a, auto b) { return static_cast<decltype(a)>(a ^ b); });
}
Status kernel_bit_shift(Context &context) {
  if (context.node().get_string("direction", "LEFT") == "LEFT")
    return modular<>(context, [](auto a, auto b) { return shift_left(a, b); });
  return binary_same_type<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
                          std::int64_t, std::uint64_t>(context, [](auto a, auto b) { return shift_right(a, b); });
}

Status kernel_where(Context &context) {
  const View &condition = *context.input(0), &x = *context.input(1), &y = *context.input(2);
  View *out = context.output(0);
  if (!out) return {};
  if (x.width != out->width || y.width != out->width) return type_error(context, y.dtype);
  const View *operands[3] = {&condition, &x, &y};
  const Broadcast<3> plan(*out, operands);
  const auto row = out->width == 1   ? select_row<std::uint8_t>
                   : out->width == 2 ? select_row<std::uint16_t>
                   : out->width == 4 ? select_row<std::uint32_t>
                                     : select_row<std::uint64_t>;
  std::int64_t steps[3];
  for (std::size_t k = 0; k < 3; ++k) steps[k] = plan.strides[k][plan.rank - 1];
  for_stretches(context, plan.count, [&](std::int64_t begin, std::int64_t end) {
    plan.walk(begin, end, [&](std::int64_t at, const std::int64_t *offsets, std::int64_t length) {
      row(condition.as<const std::uint8_t>() + offsets[0], element(x, offsets[1]), element(y, offsets[2]), steps,
          element(*out, at), length);
    });
  });
  return {};
}

}  // namespace quarry::reference
