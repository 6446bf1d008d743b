// SPDX-License-Identifier: Apache-2.0
// Reductions of f64 and of integers over the middle one of three dimensions. Sums and products of integers wrap around.
#include "kernels/cpu/vector/double_vec.h"
#include "kernels/cpu/vector/isa_kernels.h"
#include "kernels/cpu/vector/lanes.h"
#include "kernels/cpu/vector/number_vec.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Of integers ReduceOp::Max is of what order is changed to (change_to_order): so it is the least too, and of ones with
// and without a sign.
template <ReduceOp op, class T>
inline constexpr bool kChanges = op == ReduceOp::Max && !kReal<T>;

template <ReduceOp op, class T>
QR_INLINE T first() noexcept {
  if constexpr (op == ReduceOp::Prod) return 1;
  else if constexpr (op == ReduceOp::Min) return __builtin_inf();
  else if constexpr (op != ReduceOp::Max || __is_same(T, std::uint8_t)) return 0;
  else if constexpr (kReal<T>) return -__builtin_inf();
  else return static_cast<T>(std::uint64_t{1} << (sizeof(T) * 8 - 1));
}
// Of vectors and of single elements.
template <ReduceOp op, class V>
QR_INLINE V join(V a, V b) noexcept {
  if constexpr (op == ReduceOp::Prod) return a * b;
  else if constexpr (op == ReduceOp::Max) return greater_of(a, b);
  else if constexpr (op == ReduceOp::Min) {
    if constexpr (__is_same(V, VecD)) return min(a, b);
    else return a < b ? a : b;
  } else return a + b;
}
template <ReduceOp op, class T, class V>
QR_INLINE V value_of(V v, [[maybe_unused]] BitsOf<T> change) noexcept {
  if constexpr (op == ReduceOp::L1) {
    if constexpr (__is_same(V, VecD)) return abs(v);
    else return v < V{} ? V{} - v : v;
  } else if constexpr (op == ReduceOp::SumSquare) return v * v;
  else if constexpr (kChanges<op, T>) return changed<T>(v, change);
  else return v;
}
template <ReduceOp op, class T>
inline constexpr bool kAsksForNan = kReal<T> && (op == ReduceOp::Max || op == ReduceOp::Min);

// The way back of a result.
template <ReduceOp op, class T, class V>
QR_INLINE V result_of(V v, [[maybe_unused]] BitsOf<T> change) noexcept {
  if constexpr (kChanges<op, T>) return changed<T>(v, change);
  else return v;
}

// Elements side by side. (Unsigned arithmetic wraps around; -fwrapv for the rest.)
template <ReduceOp op, class T>
QR_INLINE T reduce_row(const Threads &threads, const T *x, std::int64_t n, BitsOf<T> change) noexcept {
  using V = typename Of<T>::Vec;
  constexpr int kCount = Of<T>::kCount;
  V part[4];
  QR_UNROLL for (int k = 0; k < 4; ++k) part[k] = V{} + first<op, T>();
  VecL nan{};
  bool nan_seen = false;
  const auto take = [&](V v, V & to) __attribute__((always_inline)) {
    if constexpr (kAsksForNan<op, T>) nan |= v != v;
    to = join<op>(value_of<op, T>(v, change), to);  // (of NaN and a number max and min give the second)
  };
  T result = first<op, T>();
  for (Parts some(threads, n); some.next();) {
    std::int64_t i = some.begin;
    for (; i + 4 * kCount <= some.end; i += 4 * kCount)
      QR_UNROLL for (int k = 0; k < 4; ++k) take(get(x + i + k * kCount), part[k]);
    for (; i + kCount <= some.end; i += kCount) take(get(x + i), part[0]);
    for (; i < some.end; ++i) {
      if constexpr (sizeof(T) > 1) asm volatile("");  // no vectors for so few
      if constexpr (kAsksForNan<op, T>) nan_seen |= x[i] != x[i];
      result = static_cast<T>(join<op>(result, static_cast<T>(value_of<op, T>(x[i], change))));
    }
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
    h[0] = join<op>(a, b);
  }
#endif
#if QR_ISA_BYTES >= 32
  {
    typedef T Sixteen __attribute__((vector_size(16)));
    Sixteen *const s = reinterpret_cast<Sixteen *>(lanes);
    const Sixteen a = s[0], b = s[1];
    s[0] = join<op>(a, b);
  }
#endif
  asm("" : "+m"(lanes));  // the rest is read from memory: gcc takes bytes out of vectors one at a time
  for (int k = 0; k < 16 / static_cast<int>(sizeof(T)); ++k) result = static_cast<T>(join<op>(result, lanes[k]));
  if constexpr (kAsksForNan<op, T>)
    if (nan_seen || any(nan)) return __builtin_nan("");
  return result_of<op, T>(result, change);
}

__attribute__((noinline)) void copy_some(const void *from, std::size_t bytes, void *to) noexcept {
  std::memcpy(to, from, bytes);
}

// `count` vectors of columns; `step` elements from row to row.
template <ReduceOp op, class T, int count>
QR_INLINE void reduce_columns(Parts rows, const T *x, T *y, std::int64_t step, BitsOf<T> change) noexcept {
  using V = typename Of<T>::Vec;
  constexpr int kCount = Of<T>::kCount;
  V total[count];
  VecL nan[count] = {};
  QR_UNROLL for (int k = 0; k < count; ++k) total[k] = V{} + first<op, T>();
  while (rows.next())
    for (std::int64_t i = rows.begin; i < rows.end; ++i) QR_UNROLL for (int k = 0; k < count; ++k) {
        const V v = get(x + i * step + k * kCount);
        if constexpr (kAsksForNan<op, T>) nan[k] |= v != v;
        total[k] = join<op>(value_of<op, T>(v, change), total[k]);
      }
  QR_UNROLL for (int k = 0; k < count; ++k) {
    V result = result_of<op, T>(total[k], change);
    if constexpr (kAsksForNan<op, T>) result = nan[k] ? splat(__builtin_nan("")) : result;
    put(y + k * kCount, result);
  }
}

// A vector of columns or a part of one: what stands behind them in memory is read too, but nothing behind x's end.
template <ReduceOp op, class T>
QR_INLINE void reduce_part(Parts rows, const T *x, T *y, std::int64_t step, std::int64_t columns, BitsOf<T> change,
                           const T *end) noexcept {
  using V = typename Of<T>::Vec;
  constexpr int kCount = Of<T>::kCount;
  const auto bytes = bytes_of<T>(columns);
  V total = V{} + first<op, T>();
  VecL nan{};
  T row[kCount] = {};
  while (rows.next())
    for (std::int64_t i = rows.begin; i < rows.end; ++i, x += step) {
      const T *from = x;
      if (end - x < kCount) {
        copy_some(x, bytes, row);
        from = row;
      }
      const V v = get(from);
      if constexpr (kAsksForNan<op, T>) nan |= v != v;
      total = join<op>(value_of<op, T>(v, change), total);
    }
  total = result_of<op, T>(total, change);
  if constexpr (kAsksForNan<op, T>) total = nan ? splat(__builtin_nan("")) : total;
  if (columns == kCount) return put(y, total);
  put(row, total);
  copy_some(row, bytes, y);
}

constexpr int kVectors = 4;  // of columns in a task

// One column.
template <ReduceOp op, class T>
QR_INLINE T reduce_column(const Parts &rows, const T *x, std::int64_t step, BitsOf<T> change) noexcept {
  T total = first<op, T>();
  bool nan = false;
  for (Parts part = rows; part.next();)
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      const T v = x[i * step];
      if constexpr (kAsksForNan<op, T>) nan |= v != v;
      total = static_cast<T>(join<op>(total, static_cast<T>(value_of<op, T>(v, change))));
    }
  const T result = result_of<op, T>(total, change);
  if constexpr (kAsksForNan<op, T>)
    if (nan) return __builtin_nan("");
  return result;
}

// Columns [0, columns), `step` elements from row to row, of `times` blocks of rows.
template <ReduceOp op, class T>
void reduce_task(const Threads &threads, const std::byte *from, std::byte *to, std::int64_t n, std::int64_t step,
                 std::int64_t columns, std::int64_t times, std::int64_t bits,
                 [[maybe_unused]] const std::byte *end) noexcept {
  constexpr int kCount = Of<T>::kCount;
  const auto change = static_cast<BitsOf<T>>(bits);
  const T *x = reinterpret_cast<const T *>(from);
  T *y = reinterpret_cast<T *>(to);
  if (step == 1) {
    for (; times > 0; --times, x += n) *y++ = reduce_row<op>(threads, x, n, change);
    return;
  }
  const Parts rows = Parts::of_rows(threads, n, columns);
  for (; times > 0; --times, x += n * step, y += step) {
    if (columns == kVectors * kCount) {
      reduce_columns<op, T, kVectors>(rows, x, y, step, change);
      continue;
    }
    std::int64_t c = 0;
    if constexpr (kCount > 4) {
      for (; c < columns; c += kCount)
        reduce_part<op, T>(rows, x + c, y + c, step, min_of<std::int64_t>(kCount, columns - c), change,
                           reinterpret_cast<const T *>(end));
    } else {
      for (; c + kCount <= columns; c += kCount) reduce_columns<op, T, 1>(rows, x + c, y + c, step, change);
      for (; c < columns; ++c) y[c] = reduce_column<op, T>(rows, x + c, step, change);
    }
  }
}

using Task = void (*)(const Threads &threads, const std::byte *from, std::byte *to, std::int64_t n, std::int64_t step,
                      std::int64_t columns, std::int64_t times, std::int64_t bits, const std::byte *end) noexcept;
// Sums and products of integers with a sign are those of ones without. (Signed: what the greatest and L1 are of.)
template <class Signed, class T = Signed>
Task task_of(ReduceOp op, bool has_sign) noexcept {
  if constexpr (kReal<T>)
    if (op == ReduceOp::Min) return reduce_task<ReduceOp::Min, T>;
  switch (op) {
    case ReduceOp::Max:
    case ReduceOp::Min: return reduce_task<ReduceOp::Max, Signed>;
    case ReduceOp::Prod: return reduce_task<ReduceOp::Prod, T>;
    case ReduceOp::L2:
    case ReduceOp::SumSquare: return reduce_task<ReduceOp::SumSquare, T>;
    case ReduceOp::L1:
      if (has_sign) return reduce_task<ReduceOp::L1, Signed>;
      [[fallthrough]];
    default: return reduce_task<ReduceOp::Sum, T>;
  }
}

// What makes a mean of sums, a norm of sums of squares.
void finish_f64(const Reduce &p, double *y, std::int64_t count) noexcept {
  if (p.op == ReduceOp::Mean)
    for (std::int64_t c = 0; c < count; ++c) y[c] /= static_cast<double>(p.reduced);
  if (p.op == ReduceOp::L2)
    for (std::int64_t c = 0; c < count; ++c) y[c] = __builtin_sqrt(y[c]);
}

}  // namespace

void run_Reduce(const Call &call) {
  const auto &p = call.as<Reduce>();
  if (p.outer == 0 || p.inner == 0) return;
  const auto dtype = static_cast<DType>(p.dtype);
  Task task_body = reduce_task<ReduceOp::Max, std::uint8_t>;
  std::int64_t width = 8, bits = change_to_order(dtype, p.op == ReduceOp::Min);
  switch (dtype) {
    case DType::I8:
    case DType::U8: width = 1, bits ^= 0x80; break;  // (vectors have a maximum of bytes without a sign)
    case DType::I32:
    case DType::U32: width = 4, task_body = task_of<std::int32_t, std::uint32_t>(p.op, dtype == DType::I32); break;
    case DType::I64:
    case DType::U64: task_body = task_of<std::int64_t, std::uint64_t>(p.op, dtype == DType::I64); break;
    default: task_body = task_of<double>(p.op, true); break;
  }
  const std::int64_t most = kVectors * kBytes / width, blocks = ceil_div(p.inner, most), side = min_of(p.inner, most),
                     grain = max_of<std::int64_t>(
                         1, 16384 / max_of<std::int64_t>(1, p.reduced > 16384 ? 16384 : p.reduced * side));
  const std::byte *const x_end = call.operands[0] + p.outer * p.reduced * p.inner * width;
  call.threads.run(static_cast<std::uint64_t>(p.outer * blocks), static_cast<std::uint64_t>(grain),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end);) {
                       const std::int64_t outer = task / blocks, column = task % blocks * most,
                                          columns = min_of(most, p.inner - column),
                                          times = blocks == 1 ? static_cast<std::int64_t>(end) - task : 1;
                       std::byte *const to = call.operands[1] + (outer * p.inner + column) * width;
                       task_body(call.threads, call.operands[0] + (outer * p.reduced * p.inner + column) * width, to,
                                 p.reduced, p.inner, columns, times, bits, x_end);
                       if (dtype == DType::F64) finish_f64(p, reinterpret_cast<double *>(to), columns * times);
                       task += times;
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
