// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/gemm_tile.h"
#include "kernels/cpu/contraction/matmul_tasks.h"
#include "kernels/cpu/shapes/matmul_shape.h"

namespace quarry::kernels::QR_ISA {

namespace {

struct MatMul {
  const MatMulF32 &p;
  const MatMulShape &s;
  const float *a, *b, *bias, *row_bias, *r;
  float *y;
};

// What the sums of a row begin with.
void begin_row(const MatMul &g, std::int64_t m, std::int64_t first, std::int64_t columns, float *y) noexcept {
  if (g.bias) std::memmove(y, g.bias + first, bytes_of<float>(columns));
  else if (g.row_bias)
    for (std::int64_t n = 0; n < columns; ++n) y[n] = g.row_bias[m];
  else std::memset(y, 0, bytes_of<float>(columns));
}

// What its sums become, of columns from `first` on.
void end_row(const MatMul &g, std::int64_t m, std::int64_t first, std::int64_t columns, float *y) noexcept {
  const MatMulF32 &p = g.p;
  const float *const r = p.residual == Residual::None ? nullptr : g.r + m * p.y_row + first;
  if (p.residual == Residual::BeforeAct)
    for (std::int64_t n = 0; n < columns; ++n) y[n] += r[n];
  if (p.act.kind != Act::None || p.residual == Residual::AfterAct)
    finish_rows(p.act, y, 0, 1, columns, p.residual == Residual::AfterAct ? r : nullptr, 0);
}

// Adds `steps` rows of b, each times an element of a, to a row of y.
template <int steps>
QR_INLINE void add_rows(const MatMulF32 &p, const float *a, const float *b, float *y, std::int64_t columns) noexcept {
  VecF factors[steps];
  QR_UNROLL for (int i = 0; i < steps; ++i) factors[i] = splat(a[i * p.a_col] * p.alpha);
  const auto vector = [&](std::int64_t n, auto get, auto put) __attribute__((always_inline)) {
    VecF sum = get(y + n);
    QR_UNROLL for (int i = 0; i < steps; ++i) sum = fma(factors[i], get(b + i * p.b_row + n), sum);
    put(y + n, sum);
  };
  std::int64_t n = 0;
  for (; n + kLanes <= columns; n += kLanes)
    vector(
        n, [](const float *q) __attribute__((always_inline)) { return load(q); },
        [](float *q, VecF v) __attribute__((always_inline)) { store(q, v); });
  if (const int left = static_cast<int>(columns - n); left > 0)
    vector(
        n, [=](const float *q) __attribute__((always_inline)) { return load_part(q, left); },
        [=](float *q, VecF v) __attribute__((always_inline)) { store_part(q, v, left); });
}

// Few rows, b as it lies: bound by reading b, so its rows are read from end to end (of a part of the columns for which
// the sums stay in the first-level cache).
void run_few_rows(const MatMul &g, const Threads &threads, std::int64_t row, std::int64_t rows, std::int64_t begin,
                  std::int64_t end) noexcept {
  Asker asker(threads);
  const MatMulF32 &p = g.p;
  constexpr std::int64_t kColumns = 1024;
  for (std::int64_t m = row; m < row + rows; ++m) {
    const float *const a = g.a + m * p.a_row;
    for (std::int64_t first = begin; first < end; first += kColumns) {
      const std::int64_t columns = min_of(kColumns, end - first);
      float *const y = g.y + m * p.y_row + first;
      begin_row(g, m, first, columns, y);
      const float *const b = g.b + first;
      std::int64_t k = 0;
      for (; k + 4 <= p.k && !asker.stopped(2 * columns + 64); k += 4)
        add_rows<4>(p, a + k * p.a_col, b + k * p.b_row, y, columns);
      for (; k < p.k && k + 4 > p.k; ++k) add_rows<1>(p, a + k * p.a_col, b + k * p.b_row, y, columns);
      end_row(g, m, first, columns, y);
    }
  }
}

VecF dot(const Threads &threads, const float *a, const float *b, std::int64_t n) noexcept {
  VecF part[4] = {};
  for (Parts some(threads, n); some.next();) {
    std::int64_t k = some.begin;
    for (; k + 4 * kLanes <= some.end; k += 4 * kLanes)
      QR_UNROLL for (int i = 0; i < 4; ++i) part[i] = fma(load(a + k + i * kLanes), load(b + k + i * kLanes), part[i]);
    for (; k + kLanes <= some.end; k += kLanes) part[0] = fma(load(a + k), load(b + k), part[0]);
    if (const int rest = static_cast<int>(some.end - k); rest > 0)
      part[1] = fma(load_part(a + k, rest), load_part(b + k, rest), part[1]);
  }
  return (part[0] + part[1]) + (part[2] + part[3]);
}

// Columns [begin, end), which lie side by side as the rows do: of one, or of few rows, there is nothing to copy b's
// elements together for.
void run_dots(const MatMul &g, const Threads &threads, std::int64_t row, std::int64_t rows, std::int64_t begin,
              std::int64_t end) noexcept {
  const MatMulF32 &p = g.p;
  Asker asker(threads);
  for (std::int64_t m = row; m < row + rows; ++m) {
    float *const y = g.y + m * p.y_row;
    for (std::int64_t n = begin; n < end && !asker.stopped(p.k); ++n)
      y[n] = p.alpha * sum(dot(threads, g.a + m * p.a_row, g.b + n * p.b_col, p.k)) + (g.bias       ? g.bias[n]
                                                                                       : g.row_bias ? g.row_bias[m]
                                                                                                    : 0);
    end_row(g, m, begin, end - begin, y + begin);
  }
}

// Rows of a side by side: the smaller of the two strides is the inner loop.
void pack_rows(const MatMulF32 &p, const float *a, std::int64_t rows, std::int64_t count, float *to) noexcept {
  if (p.a_row < p.a_col) {
    for (std::int64_t k = 0; k < count; ++k)
      for (std::int64_t m = 0; m < rows; ++m) to[m * count + k] = a[m * p.a_row + k * p.a_col];
  } else {
    for (std::int64_t m = 0; m < rows; ++m)
      for (std::int64_t k = 0; k < count; ++k) to[m * count + k] = a[m * p.a_row + k * p.a_col];
  }
}

// Whole vectors of the bias of a panel's columns, of which the last may be short: then they are copied to `room`.
const float *panel_bias(const float *bias, std::int64_t columns, int tail, float *room) noexcept {
  if (tail == kLanes) return bias;
  std::memcpy(room, bias, bytes_of<float>(columns));
  return room;
}

// Rows [row, row + rows) and panels [first, last) of one matrix. Panels are the outer loop, unless chunks of a have to
// be packed.
void run_part(const MatMul &g, const Threads &threads, std::int64_t row, std::int64_t rows, std::int64_t first,
              std::int64_t last, float *scratch) noexcept {
  const MatMulF32 &p = g.p;
  const MatMulShape &s = g.s;
  const std::int64_t begin = first * kF32Panel * kLanes, end = min_of(p.n, last * kF32Panel * kLanes);
  if (p.m <= kFewRows && p.b_col == 1 && p.n > kF32Panel * kLanes)
    return run_few_rows(g, threads, row, rows, begin, end);
  if (p.a_col == 1 && p.b_row == 1 && (p.n == 1 || p.m <= kFewRows)) return run_dots(g, threads, row, rows, begin, end);
  float *const panel_at = scratch, *const bias_at = panel_at + s.panel_floats, *const a_at = bias_at + s.bias_floats;
  const bool pack_a = p.a_col != 1;
  // A few rows do not pay for copying b.
  const bool b_in_place = p.b_col == 1 && p.alpha == 1 && rows <= 8;
  Gemm job;
  job.rows = rows;
  job.y_step = p.y_row;
  job.few_rows = p.m <= kFewRows;
  job.end.step = p.y_row;
  job.end.act = &p.act;
  const std::int64_t panels = last - first;
  std::int64_t packed_chunk = -1;
  Asker asker(threads);
  for (std::int64_t i = 0; i < panels * s.chunks && !asker.stopped(job.k * (rows + kLanes)); ++i) {
    const std::int64_t panel = first + (pack_a ? i % panels : i / s.chunks), chunk = pack_a ? i / panels : i % s.chunks;
    const std::int64_t from = chunk * s.chunk, column = panel * kF32Panel * kLanes;
    const std::int64_t columns = min_of<std::int64_t>(kF32Panel * kLanes, p.n - column);
    job.k = max_of<std::int64_t>(0, min_of(s.chunk, p.k - from));
    job.vectors = static_cast<int>(ceil_div<std::int64_t>(columns, kLanes));
    job.tail = static_cast<int>(columns - (job.vectors - 1) * kLanes);
    const float *const b = g.b + from * p.b_row + column * p.b_col;
    if (b_in_place && job.tail == kLanes) {
      job.w = b, job.w_step = p.b_row;
    } else {
      pack_panel(b, p.b_row, p.b_col, job.k, columns, job.vectors, p.alpha, panel_at);
      job.w = panel_at, job.w_step = Gemm::kPacked;
    }
    if (!pack_a) {
      job.x = g.a + row * p.a_row + from, job.x_step = p.a_row;
    } else {
      if (chunk != packed_chunk) pack_rows(p, g.a + row * p.a_row + from * p.a_col, rows, job.k, a_at);
      packed_chunk = chunk;
      job.x = a_at, job.x_step = job.k;
    }
    job.accumulate = chunk > 0;
    job.finish = chunk == s.chunks - 1;
    if (g.bias && job.finish) job.bias = panel_bias(g.bias + column, columns, job.tail, bias_at);
    job.row_bias = g.row_bias && job.finish ? g.row_bias + row : nullptr;
    const std::int64_t at = row * p.y_row + column;
    job.y = g.y + at;
    job.end.before = p.residual == Residual::BeforeAct ? g.r + at : nullptr;
    job.end.after = p.residual == Residual::AfterAct ? g.r + at : nullptr;
    run_gemm(job);
  }
}

}  // namespace

void run_MatMulF32(const Call &call) {
  const auto &p = call.as<MatMulF32>();
  std::int64_t batches = 1;
  for (const std::int64_t dim : p.batch) batches *= dim;
  if (batches == 0 || p.m == 0 || p.n == 0) return;
  const MatMulShape s = matmul_shape(p, kLanes, kF32Panel);
  std::size_t operand = 2;
  MatMul whole{p, s, call.operand<const float>(0), call.operand<const float>(1), nullptr, nullptr, nullptr, nullptr};
  if (p.has_bias) (p.has_bias == kBiasPerRow ? whole.row_bias : whole.bias) = call.operand<const float>(operand++);
  if (p.residual != Residual::None) whole.r = call.operand<const float>(operand++);
  whole.y = call.operand<float>(operand);

  const MatMulTasks tasks(call.threads.workers, batches, p.m, p.n, p.k, s.panels, s.rows, 24);
  call.threads.run(static_cast<std::uint64_t>(tasks.count),
                   static_cast<std::uint64_t>(1 + kWorthSharing / tasks.operations),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     for (; begin < end; ++begin) {
                       const MatMulTasks::Part part = tasks.part(static_cast<std::int64_t>(begin), p.m, s.panels);
                       std::int64_t rest = part.batch;
                       MatMul g = whole;
                       for (int i = kBatchRank - 1; i >= 0; --i) {
                         const std::int64_t at = rest % p.batch[i];
                         rest /= p.batch[i];
                         g.a += at * p.a_batch[i], g.b += at * p.b_batch[i], g.y += at * p.y_batch[i];
                         if (g.r) g.r += at * p.y_batch[i];
                       }
                       run_part(g, call.threads, part.row, part.rows, part.first_panel, part.last_panel,
                                reinterpret_cast<float *>(call.worker_scratch(worker)));
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
