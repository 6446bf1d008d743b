// SPDX-License-Identifier: Apache-2.0
// Reductions of f32 over the middle one of three dimensions.
#include "kernels/cpu/loops/fold_rows.h"
#include "kernels/cpu/vector/activate.h"
#include "kernels/cpu/vector/double_vec.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Operations with an accumulator per lane. Sums of squares and products are not among them: they leave the range of f32
// too soon, and are taken in f64.
enum class Kind { Sum, Abs, Max, Min };

template <Kind kind>
struct Of {
  static constexpr Kind kKind = kind;
};

template <Kind kind>
QR_INLINE VecF first() noexcept {
  return kind == Kind::Max ? splat(-__builtin_inff()) : kind == Kind::Min ? splat(__builtin_inff()) : VecF{};
}
// NaN wins over everything: in sums by itself, else where either is one.
template <Kind kind>
QR_INLINE VecF take(VecF acc, VecF v) noexcept {
  if constexpr (kind == Kind::Sum) return acc + v;
  else if constexpr (kind == Kind::Abs) return acc + abs(v);
  else if constexpr (kind == Kind::Max) return v != v ? v : max(v, acc);  // a NaN in acc stays
  else return v != v ? v : min(v, acc);
}
template <Kind kind>
QR_INLINE VecF join(VecF a, VecF b) noexcept {
  return take < kind == Kind::Abs ? Kind::Sum : kind > (a, b);
}

// Sums are made of short sums, so that rounding errors do not grow with the size.
constexpr std::int64_t kShort = 32;

// Max and Min: NaN is looked for beside them, two vectors at a time.
template <Kind kind>
float extreme_of_row(const Threads &threads, const float *x, std::int64_t n) noexcept {
  const auto better = [](VecF a, VecF b) __attribute__((always_inline)) {
    return kind == Kind::Max ? max(a, b) : min(a, b);
  };
  VecF best[4];
  QR_UNROLL for (int k = 0; k < 4; ++k) best[k] = first<kind>();
  NanSeen nan[2] = {};
  const auto take_one = [&](VecF v) __attribute__((always_inline)) { best[0] = better(v, best[0]), nan[0].see(v, v); };
  for (Parts part(threads, n); part.next();) {
    std::int64_t i = part.begin;
    for (; i + 4 * kLanes <= part.end; i += 4 * kLanes) {
      VecF v[4];
      QR_UNROLL for (int k = 0; k < 4; ++k) v[k] = load(x + i + k * kLanes), best[k] = better(v[k], best[k]);
      nan[0].see(v[0], v[1]), nan[1].see(v[2], v[3]);
    }
    for (; i + kLanes <= part.end; i += kLanes) take_one(load(x + i));
    if (const int rest = static_cast<int>(part.end - i); rest > 0)
      take_one(select(first_lanes(rest), load_part(x + i, rest), first<kind>()));
  }
  if (nan[0].any() || nan[1].any()) return __builtin_nanf("");
  const VecF all = better(better(best[0], best[1]), better(best[2], best[3]));
  return kind == Kind::Max ? largest(all) : -largest(-all);
}

template <Kind kind>
float reduce_row(const Threads &threads, const float *x, std::int64_t n) noexcept {
  if constexpr (kind == Kind::Max || kind == Kind::Min) return extreme_of_row<kind>(threads, x, n);
  VecF total = first<kind>();
  for (Parts some(threads, n); some.next();)
    for (std::int64_t begin = some.begin; begin < some.end; begin += 4 * kShort * kLanes) {
      const std::int64_t end = min_of(some.end, begin + 4 * kShort * kLanes);
      VecF part[4];
      QR_UNROLL for (int k = 0; k < 4; ++k) part[k] = first<kind>();
      std::int64_t i = begin;
      for (; i + 4 * kLanes <= end; i += 4 * kLanes)
        QR_UNROLL for (int k = 0; k < 4; ++k) part[k] = take<kind>(part[k], load(x + i + k * kLanes));
      for (; i + kLanes <= end; i += kLanes) part[0] = take<kind>(part[0], load(x + i));
      if (const int rest = static_cast<int>(end - i); rest > 0)
        part[0] = take<kind>(part[0], select(first_lanes(rest), load_part(x + i, rest), first<kind>()));
      total = join<kind>(total, join<kind>(join<kind>(part[0], part[1]), join<kind>(part[2], part[3])));
    }
  return sum(total);
}

// As many short rows as a vector has lanes: what is folded at the end is folded for all of them at once. `n` is at most
// kShortRow, for which a row alone is summed in the same order.
constexpr std::int64_t kShortRow = 4 * kLanes - 1;
// Of the greatest and the least any order gives the same, so rows may be longer.
constexpr std::int64_t kShortExtremes = 16 * kLanes;
template <Kind kind>
QR_INLINE void reduce_short_rows(const float *x, float *y, std::int64_t n) noexcept {
  VecF rows[kLanes];
  const int rest = static_cast<int>(n % kLanes);
  QR_UNROLL for (int r = 0; r < kLanes; ++r) {
    const float *const row = x + r * n;
    VecF acc = first<kind>();
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) acc = take<kind>(acc, load(row + i));
    if (rest > 0) acc = take<kind>(acc, select(first_lanes(rest), load_part(row + i, rest), first<kind>()));
    rows[r] = acc;
  }
  store(y, fold_rows<kLanes>(
               rows, [](VecF a, VecF b) __attribute__((always_inline)) { return join<kind>(a, b); }));
}

// The same without NaN, which is looked for beside; false: there is one.
template <Kind kind>
QR_INLINE bool extremes_of_short_rows(const float *x, float *y, std::int64_t n) noexcept {
  const auto better = [](VecF a, VecF b) __attribute__((always_inline)) {
    return kind == Kind::Max ? max(a, b) : min(a, b);
  };
  VecF rows[kLanes];
  NanSeen nan;
  const int rest = static_cast<int>(n % kLanes);
  QR_UNROLL for (int r = 0; r < kLanes; ++r) {
    const float *const row = x + r * n;
    VecF acc = first<kind>(), other = acc;
    std::int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      const VecF v = load(row + i), w = load(row + i + kLanes);
      acc = better(v, acc), other = better(w, other);
      nan.see(v, w);
    }
    if (i + kLanes <= n) {
      const VecF v = load(row + i);
      acc = better(v, acc);
      nan.see(v, v);
      i += kLanes;
    }
    if (rest > 0) {
      const VecF v = select(first_lanes(rest), load_part(row + i, rest), first<kind>());
      acc = better(v, acc);
      nan.see(v, v);
    }
    rows[r] = better(acc, other);
  }
  store(y, fold_rows<kLanes>(rows, better));
  return !nan.any();
}

// `count` vectors of columns, the last of `lanes`; `step` elements from row to row.
template <Kind kind, int count>
QR_INLINE void reduce_columns(const Threads &threads, const float *x, float *y, std::int64_t n, std::int64_t step,
                              int lanes) noexcept {
  VecF total[count];
  QR_UNROLL for (int k = 0; k < count; ++k) total[k] = first<kind>();
  for (Parts some = Parts::of_rows(threads, n, count * kLanes); some.next();)
    for (std::int64_t i = some.begin; i < some.end;) {
      VecF part[count];
      QR_UNROLL for (int k = 0; k < count; ++k) part[k] = first<kind>();
      for (const std::int64_t end = min_of(some.end, i + kShort); i < end; ++i)
        QR_UNROLL for (int k = 0; k < count; ++k) {
          const float *from = x + i * step + k * kLanes;
          part[k] = take<kind>(part[k], lanes == kLanes || k < count - 1 ? load(from) : load_part(from, lanes));
        }
      QR_UNROLL for (int k = 0; k < count; ++k) total[k] = join<kind>(total[k], part[k]);
    }
  QR_UNROLL for (int k = 0; k < count; ++k) {
    if (lanes == kLanes || k < count - 1) store(y + k * kLanes, total[k]);
    else store_part(y + k * kLanes, total[k], lanes);
  }
}

constexpr std::int64_t kColumns = 4 * kLanes;  // of a task
static_assert(kColumns <= kReduceColumns && kLanes <= kReduceRows);

template <Kind kind>
void reduce_block(const Threads &threads, const float *x, float *y, std::int64_t n, std::int64_t step,
                  std::int64_t columns) noexcept {
  std::int64_t c = 0;
  if (columns == kColumns) return reduce_columns<kind, 4>(threads, x, y, n, step, kLanes);
  for (; c + kLanes <= columns; c += kLanes) reduce_columns<kind, 1>(threads, x + c, y + c, n, step, kLanes);
  if (c < columns) reduce_columns<kind, 1>(threads, x + c, y + c, n, step, static_cast<int>(columns - c));
}

// Products and sums of squares, of which only the last is rounded to f32. Eight chains, or a vector's worth of columns.
template <bool product, class V>
QR_INLINE V take_wide(V sum, V v) noexcept {
  if constexpr (product) return sum * v;
  else return sum + v * v;
}
template <bool product>
double wide_row(const Threads &threads, const float *x, std::int64_t n) noexcept {
  VecD part[4];
  QR_UNROLL for (int k = 0; k < 4; ++k) part[k] = splat(product ? 1.0 : 0.0);
  double last = product ? 1 : 0;
  for (Parts some(threads, n); some.next();) {
    std::int64_t i = some.begin;
    for (; i + 4 * kDoubles <= some.end; i += 4 * kDoubles)
      QR_UNROLL for (int k = 0; k < 4; ++k) part[k] = take_wide<product>(part[k], widen(x + i + k * kDoubles));
    for (; i + kDoubles <= some.end; i += kDoubles) part[0] = take_wide<product>(part[0], widen(x + i));
    for (; i < some.end; ++i) last = take_wide<product>(last, static_cast<double>(x[i]));
  }
  const auto both = [](auto a, auto b) __attribute__((always_inline)) { return product ? a * b : a + b; };
  const VecD all = both(both(part[0], part[1]), both(part[2], part[3]));
  double lanes[kDoubles];
  store(lanes, all);
  for (int half = kDoubles / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] = both(lanes[k], lanes[k + half]);
  return both(lanes[0], last);
}
template <bool product>
void wide_columns(const Threads &threads, const float *x, double *y, std::int64_t n, std::int64_t step,
                  std::int64_t columns) noexcept {
  const Parts rows = Parts::of_rows(threads, n, kDoubles);
  std::int64_t c = 0;
  for (; c + kDoubles <= columns; c += kDoubles) {
    VecD sum = splat(product ? 1.0 : 0.0);
    for (Parts part = rows; part.next();)
      for (std::int64_t i = part.begin; i < part.end; ++i) sum = take_wide<product>(sum, widen(x + i * step + c));
    store(y + c, sum);
  }
  for (; c < columns; ++c) {
    double sum = product ? 1 : 0;
    for (Parts part = rows; part.next();)
      for (std::int64_t i = part.begin; i < part.end; ++i)
        sum = take_wide<product>(sum, static_cast<double>(x[i * step + c]));
    y[c] = sum;
  }
}
// Rows of few elements, which have no chains.
constexpr std::int64_t kFew = 8;
template <bool product>
void wide_short_rows(const float *x, double *y, std::int64_t n, std::int64_t rows) noexcept {
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum = product ? 1 : 0;
    for (std::int64_t i = 0; i < n; ++i) sum = take_wide<product>(sum, static_cast<double>(x[r * n + i]));
    y[r] = sum;
  }
}
// `columns`: rows of few elements, where `step` is 1.
void reduce_wide(const Threads &threads, ReduceOp op, const float *x, float *y, std::int64_t n, std::int64_t step,
                 std::int64_t columns) noexcept {
  double sums[kColumns];
  if (step == 1 && n <= kFew) {
    if (op == ReduceOp::Prod) wide_short_rows<true>(x, sums, n, columns);
    else wide_short_rows<false>(x, sums, n, columns);
  } else if (step == 1) sums[0] = op == ReduceOp::Prod ? wide_row<true>(threads, x, n) : wide_row<false>(threads, x, n);
  else if (op == ReduceOp::Prod) wide_columns<true>(threads, x, sums, n, step, columns);
  else wide_columns<false>(threads, x, sums, n, step, columns);
  for (std::int64_t c = 0; c < columns; ++c)
    y[c] = static_cast<float>(op == ReduceOp::L2 ? __builtin_sqrt(sums[c]) : sums[c]);
}

// log(sum(exp(x))) as greatest + log(sum(exp(x - greatest))), which does not overflow; an infinity or a NaN among the
// greatest is the result.
QR_INLINE VecF log_sum(VecF greatest, VecF sum) noexcept {
  return abs(greatest) < splat(__builtin_inff()) ? greatest + log(sum) : greatest;
}
float log_sum_exp_row(const Threads &threads, const float *x, std::int64_t n) noexcept {
  const float greatest = reduce_row<Kind::Max>(threads, x, n);
  const VecF shift = splat(greatest);
  VecF total{};
  for (Parts some(threads, n); some.next();)
    for (std::int64_t i = some.begin; i < some.end;) {
      const std::int64_t end = min_of(some.end, i + kShort * 4 * kLanes);
      VecF part[4] = {};
      for (; i + 4 * kLanes <= end; i += 4 * kLanes)
        QR_UNROLL for (int k = 0; k < 4; ++k) part[k] += exp_of_negative(load(x + i + k * kLanes) - shift);
      for (; i + kLanes <= end; i += kLanes) part[0] += exp_of_negative(load(x + i) - shift);
      if (const int rest = static_cast<int>(end - i); rest > 0) {
        part[0] += select(first_lanes(rest), exp_of_negative(load_part(x + i, rest) - shift), VecF{});
        i = end;
      }
      total += (part[0] + part[1]) + (part[2] + part[3]);
    }
  return log_sum(shift, splat(sum(total)))[0];
}
void log_sum_exp_columns(const Threads &threads, const float *x, float *y, std::int64_t n, std::int64_t step,
                         std::int64_t columns) noexcept {
  reduce_block<Kind::Max>(threads, x, y, n, step, columns);
  for (std::int64_t c = 0; c < columns; c += kLanes) {
    const int lanes = static_cast<int>(min_of<std::int64_t>(kLanes, columns - c));
    const auto from = [&](const float *p) __attribute__((always_inline)) {
      return lanes == kLanes ? load(p) : load_part(p, lanes);
    };
    const VecF greatest = from(y + c);
    VecF total{};
    for (Parts some = Parts::of_rows(threads, n, kLanes); some.next();)
      for (std::int64_t i = some.begin; i < some.end;) {
        VecF part{};
        for (const std::int64_t end = min_of(some.end, i + kShort); i < end; ++i)
          part += exp_of_negative(from(x + i * step + c) - greatest);
        total += part;
      }
    const VecF result = log_sum(greatest, total);
    if (lanes == kLanes) store(y + c, result);
    else store_part(y + c, result, lanes);
  }
}

template <Kind kind>
void reduce_task(const Threads &threads, const float *x, float *y, std::int64_t n, std::int64_t step,
                 std::int64_t columns) noexcept {
  if (step == 1) *y = reduce_row<kind>(threads, x, n);
  else reduce_block<kind>(threads, x, y, n, step, columns);
}

// How the work of a call is cut up: short rows by as many as a vector has lanes; else rows, or blocks of columns.
struct ReduceTasks {
  std::int64_t blocks, together, grain;
  explicit ReduceTasks(const ReduceF32 &p) noexcept {
    const bool lanes = p.op < ReduceOp::Prod || p.op == ReduceOp::L1;  // that have a sum per lane
    const bool extremes = (p.op == ReduceOp::Max || p.op == ReduceOp::Min) && p.x_type == NumberType::F32;
    const std::int64_t longest = extremes                      ? kShortExtremes
                                 : lanes                       ? kShortRow
                                 : p.op == ReduceOp::LogSumExp ? -1
                                                               : kFew;
    blocks = ceil_div(p.inner, kColumns), together = p.inner == 1 && p.reduced <= longest ? kLanes : 1;
    const std::int64_t width = min_of(p.inner, kColumns);
    grain = max_of<std::int64_t>(
        1, 32768 / max_of<std::int64_t>(1, p.reduced > 32768 ? 32768 : p.reduced * width * together));
  }
};

// A task's elements of 16 bits as f32, dense: a row, or several, or columns side by side.
void widen_task(const Threads &threads, const ReduceF32 &p, const std::uint16_t *halves, std::int64_t rows,
                std::int64_t columns, float *wide) noexcept {
  if (columns == p.inner) {
    for (Parts part(threads, p.reduced * columns * rows); part.next();)
      widen_weights(p.x_type, halves + part.begin, wide + part.begin, part.end - part.begin);
    return;
  }
  for (Parts part = Parts::of_rows(threads, p.reduced, columns); part.next();)
    for (std::int64_t i = part.begin; i < part.end; ++i)
      widen_weights(p.x_type, halves + i * p.inner, wide + i * columns, columns);
}

// `there` rows together, of at most as many as a vector has lanes; or columns.
template <Kind kind>
QR_INLINE void reduce_kind(const Threads &threads, const float *from, float *to, std::int64_t n, std::int64_t step,
                           std::int64_t columns, bool is_together, std::int64_t there) noexcept {
  if (!is_together) return reduce_task<kind>(threads, from, to, n, step, columns);
  if (there == kLanes) {
    if constexpr (kind == Kind::Max || kind == Kind::Min)
      if (extremes_of_short_rows<kind>(from, to, n)) return;
    return reduce_short_rows<kind>(from, to, n);
  }
  for (std::int64_t r = 0; r < there; ++r) to[r] = reduce_row<kind>(threads, from + r * n, n);
}

QR_INLINE void reduce_one(const Threads &threads, const ReduceF32 &p, const float *from, float *to, std::int64_t step,
                          std::int64_t columns, bool is_together, std::int64_t there) noexcept {
  const auto as = [&](auto tag) __attribute__((always_inline)) {
    reduce_kind<decltype(tag)::kKind>(threads, from, to, p.reduced, step, columns, is_together, there);
  };
  switch (p.op) {
    case ReduceOp::Sum:
    case ReduceOp::Mean: return as(Of<Kind::Sum>{});
    case ReduceOp::L1: return as(Of<Kind::Abs>{});
    case ReduceOp::Max: return as(Of<Kind::Max>{});
    case ReduceOp::Min: return as(Of<Kind::Min>{});
    case ReduceOp::LogSumExp:
      if (p.inner == 1) *to = log_sum_exp_row(threads, from, p.reduced);
      else log_sum_exp_columns(threads, from, to, p.reduced, step, columns);
      return;
    default: reduce_wide(threads, p.op, from, to, p.reduced, step, is_together ? there : columns);
  }
}

// What makes means of sums, and the activation.
__attribute__((noinline)) void finish_f32(const ReduceF32 &p, float *y, std::int64_t count) noexcept {
  if (p.op == ReduceOp::Mean)
    for (std::int64_t c = 0; c < count; ++c) y[c] /= static_cast<float>(p.reduced);
  activate_in_place(p.act, y, count);
}

// (One copy of it, for one thread and for several.)
__attribute__((noinline)) void run_tasks(const Call &call, const ReduceF32 &p, const ReduceTasks &tasks,
                                         std::int64_t first, std::int64_t last, std::uint32_t worker) noexcept {
  const float *const x = call.operand<const float>(0);
  float *const y = call.operand<float>(1);
  const std::int64_t together = tasks.together;
  for (std::int64_t task = first; task < last; ++task) {
    const std::int64_t outer = task / tasks.blocks * together, column = task % tasks.blocks * kColumns,
                       columns = min_of(kColumns, p.inner - column), there = min_of(together, p.outer - outer);
    const std::int64_t at = outer * p.reduced * p.inner + column;
    std::int64_t step = p.inner;
    const float *from = x + at;
    if (p.x_type != NumberType::F32) {
      auto *const wide = reinterpret_cast<float *>(call.worker_scratch(worker));
      widen_task(call.threads, p, reinterpret_cast<const std::uint16_t *>(x) + at, there, columns, wide);
      from = wide, step = columns;
    }
    float *const to = y + outer * p.inner + column;
    reduce_one(call.threads, p, from, to, step, columns, together > 1, there);
    if (p.inner > 1) finish_f32(p, to, columns);
  }
  // Results that lie side by side are finished together.
  if (p.inner == 1) finish_f32(p, y + first * together, min_of(p.outer, last * together) - first * together);
}

}  // namespace

void run_ReduceF32(const Call &call) {
  const auto &p = call.as<ReduceF32>();
  if (p.outer == 0 || p.inner == 0) return;
  const ReduceTasks tasks(p);
  call.threads.run(
      static_cast<std::uint64_t>(ceil_div(p.outer, tasks.together) * tasks.blocks),
      static_cast<std::uint64_t>(tasks.grain), [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
        run_tasks(call, p, tasks, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end), worker);
      });
}

}  // namespace quarry::kernels::QR_ISA
