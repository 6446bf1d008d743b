// SPDX-License-Identifier: Apache-2.0
// Where the greatest or least of rows stands: first what it is, then where.
#include "backends/common/kernels/isa/kernels.h"
#include "backends/common/kernels/isa/lanes.h"

namespace quarry::kernels::QR_ISA {

namespace {

template <bool least>
QR_INLINE VecF better(VecF a, VecF b) noexcept {
  return least ? min(a, b) : max(a, b);
}
template <bool least>
QR_INLINE float better(float a, float b) noexcept {
  return (least ? b < a : b > a) ? b : a;
}
QR_INLINE std::uint32_t equal_lanes(VecF v, VecF wanted) noexcept { return lanes_from(splat(-1), v == wanted); }

// The least or greatest of a row; NaN where there is one.
template <bool least>
float extreme(const float *x, std::int64_t n) noexcept {
  if (n < kLanes) {
    float best = x[0];
    bool nan = false;
    for (std::int64_t i = 0; i < n; ++i) best = better<least>(best, x[i]), nan |= x[i] != x[i];
    return nan ? __builtin_nanf("") : best;
  }
  VecF a = load(x), b = load(x + n - kLanes);  // the last vector, which may overlap another
  NanSeen nan;
  nan.see(a, b);
  std::int64_t i = kLanes;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const VecF v = load(x + i), w = load(x + i + kLanes);
    nan.see(v, w);
    a = better<least>(v, a), b = better<least>(w, b);
  }
  if (i + kLanes <= n) {
    const VecF v = load(x + i);
    nan.see(v, v);
    a = better<least>(v, a);
  }
  if (nan.any()) return __builtin_nanf("");
  a = better<least>(a, b);
  return least ? -largest(-a) : largest(a);
}

// The first or last place of a value that is there.
std::int64_t first_place(const float *x, float value) noexcept {
  std::int64_t i = 0;
  while (x[i] != value) ++i;
  return i;
}
template <bool least, bool last>
std::int64_t place(const float *x, std::int64_t n) noexcept {
  const float value = extreme<least>(x, n);
  if (value != value) {
    std::int64_t i = last ? n - 1 : 0;
    while (x[i] == x[i]) i += last ? -1 : 1;
    return i;
  }
  const VecF wanted = splat(value);
  if constexpr (last) {
    std::int64_t i = n;
    for (; i >= kLanes; i -= kLanes)
      if (const std::uint32_t found = equal_lanes(load(x + i - kLanes), wanted))
        return i - kLanes + 31 - __builtin_clz(found);
    while (x[i - 1] != value) --i;
    return i - 1;
  }
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    if (const std::uint32_t found = equal_lanes(load(x + i), wanted)) return i + __builtin_ctz(found);
  return i + first_place(x + i, value);
}

template <bool least, bool last>
void run_as(const Call &call) {
  const auto &p = call.as<ArgExtremeF32>();
  const auto *const x = call.operand<const float>(0);
  auto *const y = call.operand<std::int64_t>(1);
  call.threads.run(static_cast<std::uint64_t>(p.rows), static_cast<std::uint64_t>(1 + 65536 / p.cols),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end); ++i)
                       y[i] = place<least, last>(x + i * p.cols, p.cols);
                   });
}

}  // namespace

void run_ArgExtremeF32(const Call &call) {
  const auto &p = call.as<ArgExtremeF32>();
  if (p.least) return p.last ? run_as<true, true>(call) : run_as<true, false>(call);
  return p.last ? run_as<false, true>(call) : run_as<false, false>(call);
}

}  // namespace quarry::kernels::QR_ISA
