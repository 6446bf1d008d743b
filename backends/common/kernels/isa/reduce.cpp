// SPDX-License-Identifier: Apache-2.0
// Reductions of f64 and of integers over the middle one of three extents. Sums and products of integers wrap around.
#include "backends/common/kernels/isa/double_vec.h"
#include "backends/common/kernels/isa/kernels.h"
#include "base/dtype.h"

namespace quarry::kernels::QR_ISA {

namespace {

template <class T>
inline constexpr bool kReal = false;
template <>
inline constexpr bool kReal<double> = true;

template <class T>
struct Of {
  static constexpr int kCount = kBytes / static_cast<int>(sizeof(T));
  typedef T Vec __attribute__((vector_size(QR_ISA_BYTES)));
  struct __attribute__((packed, may_alias)) Memory {
    Vec value;
  };
  static constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);
};
template <class T>
QR_INLINE typename Of<T>::Vec get(const T *p) noexcept {
  return reinterpret_cast<const typename Of<T>::Memory *>(p)->value;
}
template <class T>
QR_INLINE void put(T *p, typename Of<T>::Vec v) noexcept {
  reinterpret_cast<typename Of<T>::Memory *>(p)->value = v;
}

// The least and the greatest of a type.
template <class T>
QR_INLINE T end_of(bool greatest) noexcept {
  if constexpr (kReal<T>) return greatest ? __builtin_inf() : -__builtin_inf();
  else if constexpr (!Of<T>::kSigned) return greatest ? static_cast<T>(~T{0}) : T{0};
  else {
    const T top = static_cast<T>((std::uint64_t{1} << (sizeof(T) * 8 - 1)) - 1);
    return greatest ? top : static_cast<T>(-top - 1);
  }
}
template <ReduceOp op, class T>
QR_INLINE T first() noexcept {
  return op == ReduceOp::Prod  ? T{1}
         : op == ReduceOp::Max ? end_of<T>(false)
         : op == ReduceOp::Min ? end_of<T>(true)
                               : T{0};
}
// Of vectors and of single elements.
template <ReduceOp op, class V>
QR_INLINE V join(V a, V b) noexcept {
  if constexpr (op == ReduceOp::Prod) return a * b;
  else if constexpr (op == ReduceOp::Max) {
    if constexpr (__is_same(V, VecD)) return max(a, b);
    else return a > b ? a : b;
  } else if constexpr (op == ReduceOp::Min) {
    if constexpr (__is_same(V, VecD)) return min(a, b);
    else return a < b ? a : b;
  } else return a + b;
}
template <ReduceOp op, class V>
QR_INLINE V value_of(V v) noexcept {
  if constexpr (op == ReduceOp::L1) {
    if constexpr (__is_same(V, VecD)) return abs(v);
    else return v < V{} ? V{} - v : v;
  } else if constexpr (op == ReduceOp::SumSquare) return v * v;
  else return v;
}
template <ReduceOp op, class T>
inline constexpr bool kAsksForNan = kReal<T> && (op == ReduceOp::Max || op == ReduceOp::Min);

// Elements side by side. (Unsigned arithmetic wraps around; -fwrapv for the rest.)
template <ReduceOp op, class T>
T reduce_row(const T *x, std::int64_t n) noexcept {
  using V = typename Of<T>::Vec;
  constexpr int kCount = Of<T>::kCount;
  V part[4];
  QR_UNROLL for (int k = 0; k < 4; ++k) part[k] = V{} + first<op, T>();
  VecL nan{};
  bool nan_seen = false;
  std::int64_t i = 0;
  const auto take = [&](V v, V & to) __attribute__((always_inline)) {
    if constexpr (kAsksForNan<op, T>) nan |= v != v;
    to = join<op>(value_of<op>(v), to);  // (of NaN and a number max and min give the second)
  };
  for (; i + 4 * kCount <= n; i += 4 * kCount)
    QR_UNROLL for (int k = 0; k < 4; ++k) take(get(x + i + k * kCount), part[k]);
  for (; i + kCount <= n; i += kCount) take(get(x + i), part[0]);
  T result = first<op, T>();
  for (; i < n; ++i) {
    if constexpr (kAsksForNan<op, T>) nan_seen |= x[i] != x[i];
    result = static_cast<T>(join<op>(result, static_cast<T>(value_of<op>(x[i]))));
  }
  part[0] = join<op>(join<op>(part[0], part[1]), join<op>(part[2], part[3]));
  // Halves onto each other.
  alignas(64) T lanes[kCount];
  put(lanes, part[0]);
#if QR_ISA_BYTES == 64
  {
    typedef T Half __attribute__((vector_size(32)));
    Half *const h = reinterpret_cast<Half *>(lanes);
    const Half a = h[0], b = h[1];
    if constexpr (op == ReduceOp::Max) h[0] = a > b ? a : b;
    else if constexpr (op == ReduceOp::Min) h[0] = a < b ? a : b;
    else h[0] = join<op>(a, b);
  }
#endif
#if QR_ISA_BYTES >= 32
  {
    typedef T Sixteen __attribute__((vector_size(16)));
    Sixteen *const s = reinterpret_cast<Sixteen *>(lanes);
    const Sixteen a = s[0], b = s[1];
    if constexpr (op == ReduceOp::Max) s[0] = a > b ? a : b;
    else if constexpr (op == ReduceOp::Min) s[0] = a < b ? a : b;
    else s[0] = join<op>(a, b);
  }
#endif
  asm("" : "+m"(lanes));  // the rest is read from memory: gcc takes bytes out of vectors one at a time
  for (int k = 0; k < 16 / static_cast<int>(sizeof(T)); ++k) result = static_cast<T>(join<op>(result, lanes[k]));
  if constexpr (kAsksForNan<op, T>)
    if (nan_seen || any(nan)) return __builtin_nan("");
  return result;
}

// `count` vectors of columns; `step` elements from row to row.
template <ReduceOp op, class T, int count>
QR_INLINE void reduce_columns(const T *x, T *y, std::int64_t n, std::int64_t step) noexcept {
  using V = typename Of<T>::Vec;
  constexpr int kCount = Of<T>::kCount;
  V total[count];
  VecL nan[count] = {};
  QR_UNROLL for (int k = 0; k < count; ++k) total[k] = V{} + first<op, T>();
  for (std::int64_t i = 0; i < n; ++i) QR_UNROLL for (int k = 0; k < count; ++k) {
      const V v = get(x + i * step + k * kCount);
      if constexpr (kAsksForNan<op, T>) nan[k] |= v != v;
      total[k] = join<op>(value_of<op>(v), total[k]);
    }
  QR_UNROLL for (int k = 0; k < count; ++k) {
    if constexpr (kAsksForNan<op, T>) total[k] = nan[k] ? splat(__builtin_nan("")) : total[k];
    put(y + k * kCount, total[k]);
  }
}

constexpr int kVectors = 4;  // of columns in a task

template <ReduceOp op, class T>
void reduce_task(const T *x, T *y, std::int64_t n, std::int64_t step, std::int64_t columns) noexcept {
  constexpr int kCount = Of<T>::kCount;
  if (step == 1) {
    *y = reduce_row<op>(x, n);
    return;
  }
  std::int64_t c = 0;
  if (columns == kVectors * kCount) return reduce_columns<op, T, kVectors>(x, y, n, step);
  for (; c + kCount <= columns; c += kCount) reduce_columns<op, T, 1>(x + c, y + c, n, step);
  for (; c < columns; ++c) {
    T total = first<op, T>();
    bool nan = false;
    for (std::int64_t i = 0; i < n; ++i) {
      const T v = x[i * step + c];
      if constexpr (kAsksForNan<op, T>) nan |= v != v;
      total = static_cast<T>(join<op>(total, static_cast<T>(value_of<op>(v))));
    }
    if constexpr (kAsksForNan<op, T>)
      if (nan) total = __builtin_nan("");
    y[c] = total;
  }
}

template <ReduceOp op, class T>
void run_as(const Call &call) {
  const auto &p = call.as<Reduce>();
  constexpr std::int64_t kColumns = kVectors * Of<T>::kCount;
  const T *x = call.operand<const T>(0);
  T *y = call.operand<T>(1);
  const std::int64_t blocks = ceil_div(p.inner, kColumns), width = min_of(p.inner, kColumns);
  const std::int64_t grain =
      max_of<std::int64_t>(1, 16384 / max_of<std::int64_t>(1, p.reduced > 16384 ? 16384 : p.reduced * width));
  call.threads.run(static_cast<std::uint64_t>(p.outer * blocks), static_cast<std::uint64_t>(grain),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                       const std::int64_t outer = task / blocks, column = task % blocks * kColumns,
                                          columns = min_of(kColumns, p.inner - column);
                       T *const to = y + outer * p.inner + column;
                       reduce_task<op>(x + outer * p.reduced * p.inner + column, to, p.reduced, p.inner, columns);
                       if constexpr (kReal<T>) {
                         if (p.op == ReduceOp::Mean)
                           for (std::int64_t c = 0; c < columns; ++c) to[c] /= static_cast<T>(p.reduced);
                         if (p.op == ReduceOp::L2)
                           for (std::int64_t c = 0; c < columns; ++c) to[c] = __builtin_sqrt(to[c]);
                       }
                     }
                   });
}

template <class T>
void run_of(const Call &call) {
  switch (call.as<Reduce>().op) {
    case ReduceOp::Max: return run_as<ReduceOp::Max, T>(call);
    case ReduceOp::Min: return run_as<ReduceOp::Min, T>(call);
    default: break;
  }
  if constexpr (sizeof(T) >= 4) {
    switch (call.as<Reduce>().op) {
      case ReduceOp::Prod: return run_as<ReduceOp::Prod, T>(call);
      case ReduceOp::L1: return run_as<ReduceOp::L1, T>(call);
      case ReduceOp::L2:
      case ReduceOp::SumSquare: return run_as<ReduceOp::SumSquare, T>(call);
      default: return run_as<ReduceOp::Sum, T>(call);
    }
  }
}

}  // namespace

void run_Reduce(const Call &call) {
  const auto &p = call.as<Reduce>();
  if (p.outer == 0 || p.inner == 0) return;
  switch (static_cast<DType>(p.dtype)) {
    case DType::I8: return run_of<std::int8_t>(call);
    case DType::U8: return run_of<std::uint8_t>(call);
    case DType::I32: return run_of<std::int32_t>(call);
    case DType::U32: return run_of<std::uint32_t>(call);
    case DType::I64: return run_of<std::int64_t>(call);
    case DType::U64: return run_of<std::uint64_t>(call);
    default: return run_of<double>(call);
  }
}

}  // namespace quarry::kernels::QR_ISA
