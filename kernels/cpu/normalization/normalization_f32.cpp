// SPDX-License-Identifier: Apache-2.0
// Softmax and layer normalisation: rows that are read two or three times while they are in the cache.
#include "kernels/cpu/loops/prefetch.h"
#include "kernels/cpu/vector/activate.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Elements that are worth another thread.
constexpr std::int64_t kGrain = 8192;
std::uint64_t grain_of(std::int64_t elements_of_a_task) noexcept {
  return static_cast<std::uint64_t>(max_of<std::int64_t>(1, kGrain / max_of<std::int64_t>(1, elements_of_a_task)));
}

// Calls body(index, lanes) for the vectors of a row; `lanes` is kLanes, a constant, for all but a last part.
template <class Some = Parts, class Body>
QR_INLINE void for_vectors(const Threads &threads, std::int64_t n, Body &&body) noexcept {
  std::int64_t i = 0;
  for (Some part(threads, n); part.next();)
    for (; i + kLanes <= part.end; i += kLanes) body(i, kLanes);
  if (n - i < kLanes && i < n) body(i, static_cast<int>(n - i));  // (where it was not stopped)
}
QR_INLINE VecF load_lanes(const float *p, int lanes) noexcept {
  return lanes == kLanes ? load(p) : load_part(p, lanes);
}
QR_INLINE void store_lanes(float *p, VecF v, int lanes) noexcept {
  if (lanes == kLanes) store(p, v);
  else store_part(p, v, lanes);
}
// Long sums are made of short ones, so that rounding errors do not grow with the row.
constexpr std::int64_t kBlock = 64 * kLanes;

// sum of term(i, lanes) over a row, in four chains.
template <class Some = Parts, class Term>
QR_INLINE float sum_of(const Threads &threads, std::int64_t n, Term &&term) noexcept {
  VecF total{};
  for (Some some(threads, n); some.next();)
    for (std::int64_t begin = some.begin; begin < some.end; begin += kBlock) {
      const std::int64_t end = min_of(some.end, begin + kBlock);
      VecF part[4]{};
      std::int64_t i = begin;
      for (; i + 4 * kLanes <= end; i += 4 * kLanes)
        QR_UNROLL for (int k = 0; k < 4; ++k) part[k] += term(i + k * kLanes, kLanes);
      for (; i + kLanes <= end; i += kLanes) part[0] += term(i, kLanes);
      if (i < end) part[1] += term(i, static_cast<int>(end - i));
      total += (part[0] + part[1]) + (part[2] + part[3]);
    }
  return sum(total);
}

// The sum of term(i, lanes) over a row, and that of its squares.
struct Moments {
  float sum, squares;
};
template <class Term>
QR_INLINE Moments moments_of(const Threads &threads, std::int64_t n, Term &&term) noexcept {
  VecF sums{}, squares{};
  for (Parts some(threads, n); some.next();)
    for (std::int64_t begin = some.begin; begin < some.end; begin += kBlock) {
      const std::int64_t end = min_of(some.end, begin + kBlock);
      VecF first[4]{}, second[4]{};
      const auto take = [&](int k, VecF v) __attribute__((always_inline)) {
        first[k] += v;
        second[k] = fma(v, v, second[k]);
      };
      std::int64_t i = begin;
      for (; i + 4 * kLanes <= end; i += 4 * kLanes)
        QR_UNROLL for (int k = 0; k < 4; ++k) take(k, term(i + k * kLanes, kLanes));
      for (; i + kLanes <= end; i += kLanes) take(0, term(i, kLanes));
      if (i < end) take(1, term(i, static_cast<int>(end - i)));
      sums += (first[0] + first[1]) + (first[2] + first[3]);
      squares += (second[0] + second[1]) + (second[2] + second[3]);
    }
  return {sum(sums), sum(squares)};
}

// A few rows step by step, so that none waits for the sum of its own lanes.
constexpr std::int64_t kSoftmaxRows = 16;     // at least the lanes of a vector
constexpr std::int64_t kSoftmaxBlock = 4096;  // elements that stay in the first cache

template <class Some>
QR_INLINE float greatest_of_row(const Threads &threads, const float *x, std::int64_t n, VecF scale) noexcept {
  const VecF lowest = splat(-__builtin_inff());
  // NaN does not count here: it comes out of the sum.
  VecF m[4] = {lowest, lowest, lowest, lowest};
  for (Some part(threads, n); part.next();) {
    std::int64_t i = part.begin;
    for (; i + 4 * kLanes <= part.end; i += 4 * kLanes)
      QR_UNROLL for (int k = 0; k < 4; ++k) m[k] = max(load(x + i + k * kLanes) * scale, m[k]);
    for (; i + kLanes <= part.end; i += kLanes) m[0] = max(load(x + i) * scale, m[0]);
    if (const int rest = static_cast<int>(part.end - i); rest > 0)
      m[0] = max(select(first_lanes(rest), load_part(x + i, rest) * scale, lowest), m[0]);
  }
  return largest(max(max(m[0], m[1]), max(m[2], m[3])));
}

template <bool log_, class Some>
void softmax_rows(const Threads &threads, const float *x, float *y, std::int64_t rows, std::int64_t n,
                  float scale_) noexcept {
  constexpr bool keep = !log_;  // the exponentials, in y
  const VecF scale = splat(scale_);
  float greatest[kSoftmaxRows], all[kSoftmaxRows];
  for (std::int64_t row = 0; row < kSoftmaxRows; ++row) all[row] = 1;
  for (std::int64_t row = 0; row < rows; ++row) greatest[row] = greatest_of_row<Some>(threads, x + row * n, n, scale);
  const std::int64_t ahead = rows * n;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float *const from = x + row * n;
    float *const to = y + row * n;
    const VecF top = splat(greatest[row]);
    all[row] = sum_of<Some>(
        threads, n, [=](std::int64_t at, int lanes) __attribute__((always_inline)) {
          prefetch_near(from + at + ahead);
          const VecF e = exp_of_negative(fma(load_lanes(from + at, lanes), scale, -top));
          if (keep) store_lanes(to + at, e, lanes);
          return lanes == kLanes ? e : select(first_lanes(lanes), e, VecF{});
        });
  }
  for (std::int64_t row = 0; row < rows; row += kLanes)
    store(all + row, log_ ? log(load(all + row)) : splat(1.0f) / load(all + row));
  for (std::int64_t row = 0; row < rows; ++row) {
    const float *const from = x + row * n;
    float *const to = y + row * n;
    const VecF top = splat(greatest[row]), last = splat(all[row]);
    for_vectors<Some>(
        threads, n, [=](std::int64_t at, int lanes) __attribute__((always_inline)) {
          prefetch_write(to + at + ahead);
          store_lanes(to + at,
                      log_ ? (load_lanes(from + at, lanes) * scale - top) - last : load_lanes(to + at, lanes) * last,
                      lanes);
        });
  }
}

// `lanes` columns at once, `step` elements from row to row.
QR_INLINE void softmax_columns(const Threads &threads, const float *x, float *y, std::int64_t n, std::int64_t step,
                               int lanes, float scale_, bool log_) noexcept {
  const Parts rows = Parts::of_rows(threads, n, kLanes);
  const VecF scale = splat(scale_);
  VecF greatest = splat(-__builtin_inff());
  for (Parts part = rows; part.next();)
    for (std::int64_t i = part.begin; i < part.end; ++i)
      greatest = max(load_lanes(x + i * step, lanes) * scale, greatest);
  VecF total{};
  for (Parts part = rows; part.next();)
    for (std::int64_t begin = part.begin; begin < part.end; begin += 64) {
      VecF block{};
      for (std::int64_t i = begin; i < min_of(part.end, begin + 64); ++i) {
        const VecF e = exp_of_negative(load_lanes(x + i * step, lanes) * scale - greatest);
        block += e;
        if (!log_) store_lanes(y + i * step, e, lanes);
      }
      total += block;
    }
  if (log_) {
    const VecF shift = log(total);
    for (Parts part = rows; part.next();)
      for (std::int64_t i = part.begin; i < part.end; ++i)
        store_lanes(y + i * step, (load_lanes(x + i * step, lanes) * scale - greatest) - shift, lanes);
  } else {
    const VecF factor = splat(1.0f) / total;
    for (Parts part = rows; part.next();)
      for (std::int64_t i = part.begin; i < part.end; ++i)
        store_lanes(y + i * step, load_lanes(y + i * step, lanes) * factor, lanes);
  }
}

// What a row was normalised by: its mean, and the inverse of its deviation.
struct RowStatistics {
  float mean, inverse;
};

struct LayerNormRow {
  const LayerNormF32 &p;
  const Threads &threads;
  const float *gamma, *beta;  // beta may be nullptr, or both
  VecF low, high;             // bounds of the result

  // `r` and `s` may be nullptr.
  RowStatistics operator()(const float *x, const float *r, float *y, float *s) const noexcept {
    // The sum lies where it is wanted, or in y until that is written.
    if (r && s) return run<true, true>(x, r, y, s);
    if (r) return run<true, true>(x, r, y, y);
    if (s) return run<false, true>(x, r, y, s);
    return run<false, false>(x, r, y, nullptr);
  }

  template <bool residual, bool keep>
  RowStatistics run(const float *x, const float *r, float *y, float *s) const noexcept {
    const std::int64_t n = p.cols;
    const auto value = [=](std::int64_t at, int lanes) __attribute__((always_inline)) {
      VecF v = load_lanes(x + at, lanes);
      if constexpr (residual) v += load_lanes(r + at, lanes);
      if constexpr (keep) store_lanes(s + at, v, lanes);
      return v;
    };
    const float count = static_cast<float>(n);
    if (p.rms) {
      const float squares = sum_of(
          threads, n, [=](std::int64_t at, int lanes) __attribute__((always_inline)) {
            const VecF v = value(at, lanes);
            return v * v;
          });
      return finish(keep ? s : x, y, 0, 0, squares / count);
    }
    const float mean = sum_of(threads, n, value) / count;
    const float *const from = keep ? s : x;
    const VecF center = splat(mean);
    const Moments moments = moments_of(
        threads, n, [=](std::int64_t at, int lanes) __attribute__((always_inline)) {
          const VecF d = load_lanes(from + at, lanes) - center;
          return lanes == kLanes ? d : select(first_lanes(lanes), d, VecF{});
        });
    // A float lies beside the true mean by its own rounding, which is much where elements differ by little: the mean of
    // the differences says by how much.
    const float rest = moments.sum / count, variance = moments.squares / count - rest * rest;
    return finish(from, y, mean, rest, variance < 0 ? 0 : variance);
  }

  // Of elements whose mean is mean_ + rest.
  RowStatistics finish(const float *from, float *y, float mean_, float rest, float variance) const noexcept {
    const float factor = 1.0f / __builtin_sqrtf(variance + p.epsilon);
    const VecF mean = splat(mean_), inverse = splat(factor), shift = splat(-(rest * factor));
    if (beta) {
      for_vectors(
          threads, p.cols, [&](std::int64_t at, int lanes) __attribute__((always_inline)) {
            const VecF v = fma(load_lanes(from + at, lanes) - mean, inverse, shift);
            store_lanes(y + at, clamp(fma(v, load_lanes(gamma + at, lanes), load_lanes(beta + at, lanes)), low, high),
                        lanes);
          });
    } else if (!gamma) {
      for_vectors(
          threads, p.cols, [&](std::int64_t at, int lanes) __attribute__((always_inline)) {
            store_lanes(y + at, clamp(fma(load_lanes(from + at, lanes) - mean, inverse, shift), low, high), lanes);
          });
    } else {
      for_vectors(
          threads, p.cols, [&](std::int64_t at, int lanes) __attribute__((always_inline)) {
            const VecF v = fma(load_lanes(from + at, lanes) - mean, inverse, shift);
            store_lanes(y + at, clamp(v * load_lanes(gamma + at, lanes), low, high), lanes);
          });
    }
    if (p.act.kind != Act::Clip)
      for (Parts part(threads, p.cols); part.next();) activate_in_place(p.act, y + part.begin, part.end - part.begin);
    // (Of a mean that is infinite there is no rest.)
    return {rest == rest ? mean_ + rest : mean_, factor};
  }
};

}  // namespace

void run_SoftmaxF32(const Call &call) {
  const auto &p = call.as<SoftmaxF32>();
  if (p.outer == 0 || p.n == 0 || p.inner == 0) return;
  const float *x = call.operand<const float>(0);
  float *y = call.operand<float>(1);
  if (p.inner == 1) {
    const bool is_short = p.n <= Parts::kElements;
    const auto rows = p.log      ? is_short ? softmax_rows<true, OnePart> : softmax_rows<true, Parts>
                           : is_short ? softmax_rows<false, OnePart>
                                 : softmax_rows<false, Parts>;
    return call.threads.run(
        static_cast<std::uint64_t>(p.outer), grain_of(p.n), [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
          const std::int64_t block = min_of(kSoftmaxRows, max_of<std::int64_t>(1, kSoftmaxBlock / p.n));
          for (auto row = static_cast<std::int64_t>(begin), last = static_cast<std::int64_t>(end); row < last;
               row += block)
            rows(call.threads, x + row * p.n, y + row * p.n, min_of(block, last - row), p.n, p.scale);
        });
  }
  const std::int64_t groups = ceil_div<std::int64_t>(p.inner, kLanes);
  call.threads.run(static_cast<std::uint64_t>(p.outer * groups), grain_of(p.n * kLanes),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                       const std::int64_t column = task % groups * kLanes, at = task / groups * p.n * p.inner + column;
                       const std::int64_t lanes = min_of<std::int64_t>(kLanes, p.inner - column);
                       if (lanes == kLanes)
                         softmax_columns(call.threads, x + at, y + at, p.n, p.inner, kLanes, p.scale, p.log != 0);
                       else
                         softmax_columns(call.threads, x + at, y + at, p.n, p.inner, static_cast<int>(lanes), p.scale,
                                         p.log != 0);
                     }
                   });
}

void run_LayerNormF32(const Call &call) {
  const auto &p = call.as<LayerNormF32>();
  if (p.rows == 0 || p.cols == 0) return;
  std::size_t next = 0;
  const float *x = call.operand<const float>(next++);
  const float *r = p.has_residual ? call.operand<const float>(next++) : nullptr;
  const float *gamma = p.plain ? nullptr : call.operand<const float>(next++);
  const float *beta = p.has_beta ? call.operand<const float>(next++) : nullptr;
  float *y = call.operand<float>(next++);
  float *s = p.has_sum ? call.operand<float>(next++) : nullptr;
  float *means = p.has_statistics ? call.operand<float>(next++) : nullptr;
  float *inverses = p.has_statistics ? call.operand<float>(next++) : nullptr;
  const bool bounded = p.act.kind == Act::Clip;
  const LayerNormRow normalize{p,
                               call.threads,
                               gamma,
                               beta,
                               splat(bounded ? p.act.a : -__builtin_inff()),
                               splat(bounded ? p.act.b : __builtin_inff())};
  call.threads.run(static_cast<std::uint64_t>(p.rows), grain_of(p.cols),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (auto row = static_cast<std::int64_t>(begin); row < static_cast<std::int64_t>(end); ++row) {
                       const std::int64_t at = row * p.cols;
                       const RowStatistics of = normalize(x + at, r ? r + at : nullptr, y + at, s ? s + at : nullptr);
                       if (means) means[row] = of.mean, inverses[row] = of.inverse;
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
