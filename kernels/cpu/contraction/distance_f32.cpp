// SPDX-License-Identifier: Apache-2.0
// Distances of the rows of two matrices (CDist): by their differences, as sums of products would lose those of rows
// that are near each other.
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

// A tile: so many rows of a and of b, whose sums fit into registers; and rows of b of a task.
#if (defined(__AVX512F__) && QR_ISA_BYTES == 64) || defined(__aarch64__)
constexpr int kTileRows = 4;
#else
constexpr int kTileRows = 2;
#endif
constexpr int kTileColumns = 4;
constexpr std::int64_t kColumnsOfTask = 64;
// Sums are made of short sums, so that rounding errors do not grow with the size.
constexpr std::int64_t kShortSum = 32 * kLanes;
// Between these a sum of squares of f32 is as good as its differences.
constexpr float kLeastSum = 1e-30f, kGreatestSum = 1e38f;

// Elements k of rows r of a and c of b.
template <int rows, int columns, class Load>
QR_INLINE void add_squares(const DistanceF32 &p, const float *a, const float *b, std::int64_t k, Load &&load_at,
                           VecF (&sums)[rows][columns]) noexcept {
  VecF right[columns];
  QR_UNROLL for (int c = 0; c < columns; ++c) right[c] = load_at(b + c * p.k + k);
  QR_UNROLL for (int r = 0; r < rows; ++r) {
    const VecF left = load_at(a + r * p.k + k);
    QR_UNROLL for (int c = 0; c < columns; ++c) {
      const VecF difference = left - right[c];
      sums[r][c] = fma(difference, difference, sums[r][c]);
    }
  }
}

// Elements [k, end), a multiple of kLanes.
template <int rows, int columns>
QR_INLINE void add_short_sum(const DistanceF32 &p, const float *a, const float *b, std::int64_t k, std::int64_t end,
                             VecF (&sums)[rows][columns]) noexcept {
  VecF part[rows][columns] = {};
  const auto whole = [](const float *at) __attribute__((always_inline)) { return load(at); };
  for (; k < end; k += kLanes) add_squares<rows, columns>(p, a, b, k, whole, part);
  QR_UNROLL for (int r = 0; r < rows; ++r) QR_UNROLL for (int c = 0; c < columns; ++c) sums[r][c] += part[r][c];
}

// In f64: squares leave the range of f32 where their root does not.
double sum_in_f64(const Threads &threads, const float *a, const float *b, std::int64_t count) noexcept {
  double sum = 0;
  for (Parts part(threads, count); part.next();)
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
      sum += difference * difference;
    }
  return sum;
}

template <int rows, int columns>
QR_INLINE void tile(const DistanceF32 &p, const Threads &threads, const float *a, const float *b, float *y) noexcept {
  VecF sums[rows][columns] = {};
  const std::int64_t whole = p.k / kLanes * kLanes;
  for (Parts part(threads, whole); part.next();)
    for (std::int64_t k = part.begin; k < part.end; k += kShortSum)
      add_short_sum<rows, columns>(p, a, b, k, min_of(part.end, k + kShortSum), sums);
  if (const int rest = static_cast<int>(p.k - whole); rest > 0)
    add_squares<rows, columns>(
        p, a, b, whole, [rest](const float *at) __attribute__((always_inline)) { return load_part(at, rest); }, sums);
  QR_UNROLL for (int r = 0; r < rows; ++r) QR_UNROLL for (int c = 0; c < columns; ++c) {
    const float squares = sum(sums[r][c]);
    const bool fits = squares > kLeastSum && squares < kGreatestSum;  // 0 may be what is left of small differences
    const double exact = fits ? static_cast<double>(squares) : sum_in_f64(threads, a + r * p.k, b + c * p.k, p.k);
    y[r * p.n + c] = static_cast<float>(p.root != 0 ? __builtin_sqrt(exact) : exact);
  }
}

// Rows [row, row + kTileRows) of a, those that there are, and some columns.
template <int columns>
void strip(const DistanceF32 &p, const Threads &threads, const float *a, const float *b, float *y, std::int64_t row,
           std::int64_t column) noexcept {
  const std::int64_t end = min_of(p.m, row + kTileRows);
  const float *const right = b + column * p.k;
  if (end - row == kTileRows) return tile<kTileRows, columns>(p, threads, a + row * p.k, right, y + row * p.n + column);
  for (; row < end; ++row) tile<1, columns>(p, threads, a + row * p.k, right, y + row * p.n + column);
}

}  // namespace

void run_DistanceF32(const Call &call) {
  const auto &p = call.as<DistanceF32>();
  const auto *const a = call.operand<const float>(0), *const b = call.operand<const float>(1);
  auto *const y = call.operand<float>(2);
  const std::int64_t blocks = ceil_div(p.n, kColumnsOfTask), strips = ceil_div(p.m, std::int64_t{kTileRows});
  const double work = 3.0 * kTileRows * static_cast<double>(kColumnsOfTask) * static_cast<double>(p.k);
  call.threads.run(static_cast<std::uint64_t>(strips * blocks), static_cast<std::uint64_t>(1 + kWorthSharing / work),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     Asker asker(call.threads);
                     for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                       const std::int64_t row = task / blocks * kTileRows, first = task % blocks * kColumnsOfTask,
                                          last = min_of(p.n, first + kColumnsOfTask);
                       std::int64_t n = first;
                       for (; n + kTileColumns <= last; n += kTileColumns) {
                         if (asker.stopped(kTileRows * kTileColumns * p.k)) return;
                         strip<kTileColumns>(p, call.threads, a, b, y, row, n);
                       }
                       for (; n < last; ++n) strip<1>(p, call.threads, a, b, y, row, n);
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
