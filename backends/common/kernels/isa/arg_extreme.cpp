// SPDX-License-Identifier: Apache-2.0
// Where the greatest or least of rows stands: first what it is, then where.
#include "backends/common/kernels/isa/kernels.h"
#include "backends/common/kernels/isa/lanes.h"
#include "backends/common/kernels/isa/numbers.h"

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

// Numbers of other types, and lines whose elements lie apart: lanes of a few vectors are lines (of a row: its elements,
// some at a time). First the best of each, then where it stands.
template <class T>
inline constexpr std::int64_t kLinesTogether = 4 * kBytes / static_cast<std::int64_t>(sizeof(T));

// NaN is better than any number; the bars leave no branches.
template <bool least, class T>
QR_INLINE T better_of(T best, T value) noexcept {
  return ((least ? value < best : value > best) | (value != value)) ? value : best;
}
template <class T>
QR_INLINE bool is_best(T value, T best) noexcept {
  return (value == best) | (value != value);  // NaN stands nowhere but where it is the best
}

template <bool least, class T>
QR_INLINE void best_of_lines(const T *x, std::int64_t n, std::int64_t step, std::int64_t count, T *best) noexcept {
  for (std::int64_t j = 0; j < count; ++j) best[j] = x[j];
  for (std::int64_t i = 1; i < n; ++i)
    for (std::int64_t j = 0; j < count; ++j) best[j] = better_of<least>(best[j], x[i * step + j]);
}

template <bool least, bool last, class T>
std::int64_t place_in_row(const T *x, std::int64_t n) noexcept {
  constexpr std::int64_t kCount = kLinesTogether<T>;
  const std::int64_t rows = n / kCount;
  T best = x[0];
  if (rows > 0) {
    T some[kCount];
    best_of_lines<least>(x, rows, kCount, kCount, some);
    for (std::int64_t j = 0; j < kCount; ++j) best = better_of<least>(best, some[j]);
  }
  for (std::int64_t i = rows * kCount; i < n; ++i) best = better_of<least>(best, x[i]);
  const auto any_in = [&](std::int64_t from) __attribute__((always_inline)) {
    std::int32_t found = 0;
    for (std::int64_t j = 0; j < kCount; ++j) found |= is_best(x[from + j], best);
    return found != 0;
  };
  std::int64_t i;
  if constexpr (last) {
    i = n - 1;
    for (; i >= rows * kCount; --i)
      if (is_best(x[i], best)) return i;
    for (std::int64_t r = rows; r-- > 0; i = r * kCount - 1)
      if (any_in(r * kCount)) {
        i = r * kCount + kCount - 1;
        break;
      }
    while (!is_best(x[i], best)) --i;
  } else {
    i = 0;
    while (i < rows * kCount && !any_in(i)) i += kCount;
    while (!is_best(x[i], best)) ++i;
  }
  return i;
}

template <bool least, bool last, class T>
void places_of_lines(const T *x, std::int64_t n, std::int64_t step, std::int64_t count, std::int64_t *y) noexcept {
  constexpr std::int64_t kCount = kLinesTogether<T>;
  T best[kCount];
  std::int32_t at[kCount];
  const auto find = [&](std::int64_t width) __attribute__((always_inline)) {
    best_of_lines<least>(x, n, step, width, best);
    for (std::int64_t j = 0; j < width; ++j) at[j] = 0;
    // What is asked for comes last, and stays.
    for (std::int64_t k = 0; k < n; ++k) {
      const auto i = static_cast<std::int32_t>(last ? k : n - 1 - k);
      for (std::int64_t j = 0; j < width; ++j) at[j] = is_best(x[i * step + j], best[j]) ? i : at[j];
    }
    for (std::int64_t j = 0; j < width; ++j) y[j] = at[j];
  };
  if (count == kCount) find(kCount);
  else find(count);
}

template <bool least, bool last, class T>
void run_lines(const Call &call) noexcept {
  const auto &p = call.as<ArgExtreme>();
  const T *const x = call.operand<const T>(0);
  auto *const y = call.operand<std::int64_t>(1);
  constexpr std::int64_t kCount = kLinesTogether<T>;
  const std::int64_t parts = ceil_div(p.inner, kCount);
  call.threads.run(static_cast<std::uint64_t>(p.outer * parts),
                   static_cast<std::uint64_t>(1 + 65536 / p.n / (p.inner == 1 ? 1 : kCount)),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                       if (p.inner == 1) {
                         y[task] = place_in_row<least, last>(x + task * p.n, p.n);
                         continue;
                       }
                       const std::int64_t outer = task / parts, j = task % parts * kCount;
                       places_of_lines<least, last>(x + outer * p.n * p.inner + j, p.n, p.inner,
                                                    min_of(kCount, p.inner - j), y + outer * p.inner + j);
                     }
                   });
}

}  // namespace

void run_ArgExtremeF32(const Call &call) {
  const auto &p = call.as<ArgExtremeF32>();
  if (p.least) return p.last ? run_as<true, true>(call) : run_as<true, false>(call);
  return p.last ? run_as<false, true>(call) : run_as<false, false>(call);
}

void run_ArgExtreme(const Call &call) {
  const auto &p = call.as<ArgExtreme>();
  with_number(
      static_cast<DType>(p.dtype), [&]<class T>(T) __attribute__((always_inline)) {
        if (p.least) return p.last ? run_lines<true, true, T>(call) : run_lines<true, false, T>(call);
        return p.last ? run_lines<false, true, T>(call) : run_lines<false, false, T>(call);
      });
}

}  // namespace quarry::kernels::QR_ISA
