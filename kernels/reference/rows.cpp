// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/rows.h"

#include <algorithm>

namespace quarry::reference {

bool is_loadable(DType dtype) noexcept {
  return dispatch_any(dtype, [](auto) {});
}

void load_reals(const View &from, std::int64_t first, std::int64_t step, std::int64_t count, double *to) noexcept {
  dispatch_any(from.dtype, [&](auto tag) {
    const auto *const in = from.as<const decltype(tag)>() + first;
    if (step == 1) std::copy_n(in, count, to);
    else
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(in[i * step]);
  });
}

void load_integers(const View &from, std::int64_t first, std::int64_t step, std::int64_t count,
                   std::int64_t *to) noexcept {
  dispatch_any(from.dtype, [&](auto tag) {
    const auto *const in = from.as<const decltype(tag)>() + first;
    if (step == 1) std::copy_n(in, count, to);
    else
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::int64_t>(in[i * step]);
  });
}

void store_integers(const View &to, std::int64_t first, std::int64_t count, const std::int64_t *from) noexcept {
  const auto cut = [&](auto unit) {
    auto *const out = to.as<decltype(unit)>() + first;
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<decltype(unit)>(from[i]);
  };
  switch (to.width) {
    case 1: return cut(std::uint8_t{});
    case 2: return cut(std::uint16_t{});
    case 4: return cut(std::uint32_t{});
    default: return cut(std::uint64_t{});
  }
}

void store_rounded(const View &to, std::int64_t first, std::int64_t count, const double *from) noexcept {
  dispatch_any(to.dtype, [&](auto tag) {
    using T = decltype(tag);
    T *const out = to.as<T>() + first;
    for (std::int64_t i = 0; i < count; ++i) out[i] = round_to<T>(from[i]);
  });
}

}  // namespace quarry::reference
