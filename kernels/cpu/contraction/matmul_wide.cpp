// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications of f64 and of integers of 32 and 64 bits, which wrap around. A panel of b's columns is copied,
// and rows of a pass over it.
#include "base/dtype.h"
#include "kernels/cpu/shapes/matmul_shape.h"
#include "kernels/cpu/vector/isa_kernels.h"
#include "kernels/cpu/vector/number_vec.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Rows and vectors of a tile: so many sums, and what is multiplied, fit into registers.
#if (defined(__AVX512F__) && QR_ISA_BYTES == 64) || defined(__aarch64__)
constexpr int kRows = 8;
#else
constexpr int kRows = 4;
#endif
constexpr int kVectors = 2;

template <class T>
inline constexpr int kColumnsOf = kVectors *Of<T>::kCount;

// y[0..rows][0..columns] (+)= a * panel over `depth`.
template <int rows, class T>
QR_INLINE void tile(const T *a, std::int64_t a_row, std::int64_t a_col, const T *panel, std::int64_t depth, T *y,
                    std::int64_t y_row, std::int64_t columns, bool add) noexcept {
  using V = typename Of<T>::Vec;
  constexpr int kCount = Of<T>::kCount;
  V sums[rows][kVectors] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    V b[kVectors];
    QR_UNROLL for (int v = 0; v < kVectors; ++v) b[v] = get(panel + (k * kVectors + v) * kCount);
    QR_UNROLL for (int r = 0; r < rows; ++r) {
      const V factor = a[r * a_row + k * a_col] - V{};
      QR_UNROLL for (int v = 0; v < kVectors; ++v) sums[r][v] += factor * b[v];
    }
  }
  QR_UNROLL for (int r = 0; r < rows; ++r) {
    T *const to = y + r * y_row;
    if (columns == kColumnsOf<T>) {
      QR_UNROLL for (int v = 0; v < kVectors; ++v)
          put(to + v * kCount, add ? static_cast<V>(get(to + v * kCount) + sums[r][v]) : sums[r][v]);
    } else {
      T row[kColumnsOf<T>];
      QR_UNROLL for (int v = 0; v < kVectors; ++v) put(row + v * kCount, sums[r][v]);
      for (std::int64_t c = 0; c < columns; ++c) to[c] = add ? static_cast<T>(to[c] + row[c]) : row[c];
    }
  }
}

// One panel of columns of one matrix.
template <class T>
void run_panel(const MatMulWide &p, const Threads &threads, const T *a, const T *b, T *y, std::int64_t columns,
               T *panel) noexcept {
  Asker asker(threads);
  constexpr int kColumns = kColumnsOf<T>;
  for (std::int64_t from = 0; from == 0 || from < p.k; from += kWideDepth) {
    const std::int64_t depth = min_of(kWideDepth, p.k - from);
    const T *const chunk = b + from * p.b_row;
    if (p.b_col == 1) {
      for (std::int64_t k = 0; k < depth; ++k) {
        for (std::int64_t c = 0; c < columns; ++c) panel[k * kColumns + c] = chunk[k * p.b_row + c];
        for (std::int64_t c = columns; c < kColumns; ++c) panel[k * kColumns + c] = 0;
      }
    } else {
      for (std::int64_t c = 0; c < kColumns; ++c)
        for (std::int64_t k = 0; k < depth; ++k)
          panel[k * kColumns + c] = c < columns ? chunk[k * p.b_row + c * p.b_col] : T{0};
    }
    const T *const rows = a + from * p.a_col;
    std::int64_t m = 0;
    for (; m + kRows <= p.m && !asker.stopped(kRows * depth); m += kRows)
      tile<kRows>(rows + m * p.a_row, p.a_row, p.a_col, panel, depth, y + m * p.y_row, p.y_row, columns, from != 0);
    if (asker.stopped(8 * depth)) return;
    for (; m < p.m && m + kRows > p.m; ++m)
      tile<1>(rows + m * p.a_row, p.a_row, p.a_col, panel, depth, y + m * p.y_row, p.y_row, columns, from != 0);
  }
}

template <class T>
void run_as(const Call &call) {
  const auto &p = call.as<MatMulWide>();
  std::int64_t batches = 1;
  for (const std::int64_t dim : p.batch) batches *= dim;
  if (batches == 0 || p.m == 0 || p.n == 0) return;
  constexpr std::int64_t kColumns = kColumnsOf<T>;
  const std::int64_t panels = ceil_div(p.n, kColumns);
  const double each = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.k + 1) * kColumns;
  call.threads.run(static_cast<std::uint64_t>(batches * panels), static_cast<std::uint64_t>(1 + kWorthSharing / each),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                       const T *a = call.operand<const T>(0), *b = call.operand<const T>(1);
                       T *y = call.operand<T>(2);
                       std::int64_t rest = task / panels;
                       for (int i = kBatchRank - 1; i >= 0; --i) {
                         const std::int64_t at = rest % p.batch[i];
                         rest /= p.batch[i];
                         a += at * p.a_batch[i], b += at * p.b_batch[i], y += at * p.y_batch[i];
                       }
                       const std::int64_t column = task % panels * kColumns;
                       run_panel(p, call.threads, a, b + column * p.b_col, y + column, min_of(kColumns, p.n - column),
                                 reinterpret_cast<T *>(call.worker_scratch(worker)));
                     }
                   });
}

}  // namespace

void run_MatMulWide(const Call &call) {
  switch (static_cast<DType>(call.as<MatMulWide>().dtype)) {
    case DType::F64: return run_as<double>(call);
    case DType::I32:
    case DType::U32: return run_as<std::uint32_t>(call);
    default: return run_as<std::uint64_t>(call);
  }
}

}  // namespace quarry::kernels::QR_ISA
