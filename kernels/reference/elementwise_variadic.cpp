// SPDX-License-Identifier: Apache-2.0
// Operators on any number of broadcast operands, folded from the left.
#include "kernels/reference/broadcast.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/tensors.h"

namespace quarry::reference {
namespace {

// The second operand is not looked at: it is one whose elements are neighbours.
void broadcast_copy(Context &context, const View &in, const View &out) {
  const auto copy = [&](auto unit) {
    using T = decltype(unit);
    broadcast_binary<T, T, T>(context, in, out, out, [](T a, T) { return a; });
  };
  switch (out.width) {
    case 1: return copy(std::uint8_t{});
    case 2: return copy(std::uint16_t{});
    case 4: return copy(std::uint32_t{});
    default: return copy(std::uint64_t{});
  }
}

template <class... Ts, class F>
Status fold(Context &context, F f, bool mean = false) {
  View *out = context.output(0);
  if (!out) return {};
  const std::uint32_t count = context.input_count();
  for (std::uint32_t k = 0; k < count; ++k)
    if (context.input(k)->dtype != out->dtype) return type_error(context, context.input(k)->dtype);
  const bool known = dispatch<Ts...>(out->dtype, [&](auto tag) {
    using T = decltype(tag);
    broadcast_copy(context, *context.input(0), *out);
    for (std::uint32_t k = 1; k < count; ++k) broadcast_binary<T, T, T>(context, *out, *context.input(k), *out, f);
    if (mean)
      for (std::int64_t i = 0; i < out->count; ++i) out->as<T>()[i] /= static_cast<T>(count);
  });
  return known ? Status() : type_error(context, out->dtype);
}
template <class F>
Status variadic_numbers(Context &context, F f) {
  return fold<float, double, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
              std::int64_t, std::uint64_t>(context, f);
}

}  // namespace

// A NaN on either side is the result.
Status kernel_max(Context &context) {
  return variadic_numbers(context, [](auto a, auto b) { return (a > b) | (a != a) ? a : b; });
}
Status kernel_min(Context &context) {
  return variadic_numbers(context, [](auto a, auto b) { return (a < b) | (a != a) ? a : b; });
}
Status kernel_sum(Context &context) {
  return fold<float, double>(context, [](auto a, auto b) { return a + b; });
}
Status kernel_mean(Context &context) {
  return fold<float, double>(
      context, [](auto a, auto b) { return a + b; }, true);
}

}  // namespace quarry::reference
