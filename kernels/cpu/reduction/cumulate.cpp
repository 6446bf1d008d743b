// SPDX-License-Identifier: Apache-2.0
// Running sums and products.
#include "base/dtype.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

template <class T, bool product>
void scan_rows(const Cumulate &p, const Threads &threads, const T *x, T *y, std::int64_t outer, std::int64_t begin,
               std::int64_t end) noexcept {
  const auto combine = [](T a, T b) { return product ? static_cast<T>(a * b) : static_cast<T>(a + b); };
  const auto at = [&](std::int64_t i) { return (outer * p.n + (p.backwards ? p.n - 1 - i : i)) * p.inner; };
  if (p.inner == 1) {
    T sum = product ? 1 : 0;
    const std::int64_t first = at(0), step = p.backwards ? -1 : 1;
    x += first, y += first;
    for (Parts part(threads, p.n); part.next();) {
      if (p.exclusive) {
        for (std::int64_t i = part.begin; i < part.end; ++i) {
          const T next = combine(sum, x[i * step]);
          y[i * step] = sum;
          sum = next;
        }
      } else if (p.backwards) {
        for (std::int64_t i = part.begin; i < part.end; ++i) y[-i] = sum = combine(sum, x[-i]);
      } else {
        for (std::int64_t i = part.begin; i < part.end; ++i) y[i] = sum = combine(sum, x[i]);
      }
    }
    return;
  }
  // Whole rows, each from the one before.
  const std::int64_t count = end - begin;
  for (Parts part = Parts::of_rows(threads, p.n, count); part.next();)
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      T *const to = y + at(i) + begin;
      const T *const before = y + at(i - 1) + begin, *const from = x + at(p.exclusive ? i - 1 : i) + begin;
      if (i > 0) {
        for (std::int64_t j = 0; j < count; ++j) to[j] = combine(before[j], from[j]);
      } else if (p.exclusive) {
        for (std::int64_t j = 0; j < count; ++j) to[j] = product ? 1 : 0;
      } else {
        for (std::int64_t j = 0; j < count; ++j) to[j] = from[j];
      }
    }
}

template <class T>
void run_as(const Call &call) noexcept {
  const auto &p = call.as<Cumulate>();
  const T *const x = call.operand<const T>(0);
  T *const y = call.operand<T>(1);
  if (p.outer == 0 || p.n == 0 || p.inner == 0) return;
  // Columns of a task: what is shared is cut more finely; one worker reads memory as it lies.
  const std::int64_t part = call.threads.workers > 1 ? 256 : 2048, parts = ceil_div(p.inner, part);
  const std::uint64_t grain = static_cast<std::uint64_t>(32768 / (p.n * min_of(p.inner, part)) + 1);
  call.threads.run(
      static_cast<std::uint64_t>(p.outer * parts), grain, [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
        for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
          const std::int64_t outer = task / parts, from = task % parts * part, to = min_of(p.inner, from + part);
          if (p.product) scan_rows<T, true>(p, call.threads, x, y, outer, from, to);
          else scan_rows<T, false>(p, call.threads, x, y, outer, from, to);
        }
      });
}

}  // namespace

void run_Cumulate(const Call &call) {
  switch (static_cast<DType>(call.as<Cumulate>().dtype)) {
    case DType::F32: return run_as<float>(call);
    case DType::F64: return run_as<double>(call);
    case DType::I32:
    case DType::U32: return run_as<std::uint32_t>(call);
    default: return run_as<std::uint64_t>(call);
  }
}

}  // namespace quarry::kernels::QR_ISA
