// SPDX-License-Identifier: Apache-2.0
// 1 where the first of the greatest of a line stands, 0 elsewhere. NaN is greater than nothing, and nothing than NaN.
#include "base/dtype.h"
#include "kernels/cpu/vector/double_vec.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

template <class T>
struct Of;
template <>
struct Of<float> {
  using Vec = VecF;
  using Mask = VecI;
  static constexpr int kCount = kLanes;
};
template <>
struct Of<double> {
  using Vec = VecD;
  using Mask = VecL;
  static constexpr int kCount = kDoubles;
};

// The greatest first, then its first place; both without branches but for the end.
template <class T>
std::int64_t greatest_at(const Threads &threads, const T *x, std::int64_t n) noexcept {
  using V = typename Of<T>::Vec;
  constexpr int kCount = Of<T>::kCount;
  T greatest = x[0];
  if (greatest != greatest) return 0;
  V best[4];
  QR_UNROLL for (int k = 0; k < 4; ++k) best[k] = splat(greatest);
  std::int64_t i = 0;
  for (Parts part(threads, n); part.next();)
    for (; i + 4 * kCount <= part.end; i += 4 * kCount)
      QR_UNROLL for (int k = 0; k < 4; ++k) best[k] = max(load(x + i + k * kCount), best[k]);
  if (i + 4 * kCount <= n) return 0;  // it was stopped
  const V all = max(max(best[0], best[1]), max(best[2], best[3]));
  for (int k = 0; k < kCount; ++k) greatest = all[k] > greatest ? all[k] : greatest;
  for (; i < n; ++i) greatest = x[i] > greatest ? x[i] : greatest;
  const V wanted = splat(greatest);
  const auto has = [&](const T *from) __attribute__((always_inline)) {
    typename Of<T>::Mask found{};
    QR_UNROLL for (int k = 0; k < 4; ++k) found |= load(from + k * kCount) == wanted;
    return any(reinterpret_cast<VecL>(found) != VecL{});
  };
  i = 0;
  for (Parts part(threads, n); part.next();) {
    while (i + 4 * kCount <= part.end && !has(x + i)) i += 4 * kCount;
    if (i < part.end) break;
  }
  if (i + 4 * kCount <= n && !has(x + i)) return 0;  // it was stopped
  while (x[i] != greatest) ++i;
  return i;
}

// A row whose elements lie side by side.
template <class T>
void mark_row(const Threads &threads, const T *x, T *y, std::int64_t n) noexcept {
  const std::int64_t greatest = greatest_at(threads, x, n);
  for (Parts part(threads, n); part.next();) std::memset(y + part.begin, 0, bytes_of<T>(part.end - part.begin));
  y[greatest] = 1;
}

// A vector of columns, of which `lanes` exist, `step` elements from row to row.
template <class T>
QR_INLINE void mark_columns(const Threads &threads, const T *x, T *y, std::int64_t n, std::int64_t step,
                            int lanes) noexcept {
  using V = typename Of<T>::Vec;
  using Mask = typename Of<T>::Mask;
  constexpr int kCount = Of<T>::kCount;
  const auto from = [&](const T *q) __attribute__((always_inline)) {
    return lanes == kCount ? load(q) : load_part(q, lanes);
  };
  V best = from(x);
  Mask rows_of_best{};
  using Row = decltype(rows_of_best[0] + 0);
  const Parts rows = Parts::of_rows(threads, n, kCount);
  for (Parts part = rows; part.next();)
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      const V v = from(x + i * step);
      const Mask better = v > best;
      best = better ? v : best;
      rows_of_best = better ? Mask{} + static_cast<Row>(i) : rows_of_best;
    }
  for (Parts part = rows; part.next();)
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      const V one = rows_of_best == Mask{} + static_cast<Row>(i) ? splat(T{1}) : V{};
      if (lanes == kCount) store(y + i * step, one);
      else store_part(y + i * step, one, lanes);
    }
}

template <class T>
void run_as(const Call &call) {
  const auto &p = call.as<Hardmax>();
  constexpr int kCount = Of<T>::kCount;
  const std::int64_t blocks = p.inner == 1 ? 1 : ceil_div<std::int64_t>(p.inner, kCount);
  call.threads.run(static_cast<std::uint64_t>(p.outer * blocks), static_cast<std::uint64_t>(1 + 16384 / p.n),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                       const std::int64_t column = task % blocks * kCount, at = task / blocks * p.n * p.inner + column;
                       const T *const x = call.operand<const T>(0) + at;
                       T *const y = call.operand<T>(1) + at;
                       const auto lanes = static_cast<int>(min_of<std::int64_t>(kCount, p.inner - column));
                       if (p.inner == 1) mark_row(call.threads, x, y, p.n);
                       else mark_columns(call.threads, x, y, p.n, p.inner, lanes);
                     }
                   });
}

}  // namespace

void run_Hardmax(const Call &call) {
  const auto &p = call.as<Hardmax>();
  if (p.outer == 0 || p.n == 0 || p.inner == 0) return;
  if (static_cast<DType>(p.dtype) == DType::F32) run_as<float>(call);
  else run_as<double>(call);
}

}  // namespace quarry::kernels::QR_ISA
