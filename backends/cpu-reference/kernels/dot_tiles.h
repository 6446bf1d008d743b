// SPDX-License-Identifier: Apache-2.0
// What convolutions and matrix products have in common: out(m, p) = sum over k of a(m, k) * b(k, p).
// Sums are doubles, in the order of k, from 0: the result does not depend on how the work is cut up. Integers up to 16
// bits come out exact.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu-reference/kernels/tensors.h"

namespace quarry::reference {

inline constexpr std::int64_t kTileRows = 32, kTileColumns = 32, kTileDepth = 64;

// A part of the operands, as doubles.
struct TileA {
  double at[kTileRows][kTileDepth];  // [m][k]
};
struct TileB {
  double at[kTileDepth][kTileColumns];  // [k][p]
};

namespace detail {

inline constexpr std::int64_t kWidth = 4;  // 4 rows of so many sums fit into registers

template <std::int64_t Rows>
inline void add_rows(const TileA &a, const TileB &b, std::int64_t m, std::int64_t columns, std::int64_t depth,
                     double (*sums)[kTileColumns]) noexcept {
  for (std::int64_t p = 0; p < columns; p += kWidth) {
    double sum[Rows][kWidth];
    for (std::int64_t r = 0; r < Rows; ++r) {
      for (std::int64_t j = 0; j < kWidth; ++j) sum[r][j] = sums[m + r][p + j];
    }
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t r = 0; r < Rows; ++r) {
        for (std::int64_t j = 0; j < kWidth; ++j) sum[r][j] += a.at[m + r][k] * b.at[k][p + j];
      }
    }
    for (std::int64_t r = 0; r < Rows; ++r) {
      for (std::int64_t j = 0; j < kWidth; ++j) sums[m + r][p + j] = sum[r][j];
    }
  }
}

}  // namespace detail

// One tile of the result. load_a(k, count, a) fills a.at[0..rows][0..count] from k on, load_b(k, count, b) fills
// b.at[0..count][0..columns]; store(m, p, sum) takes every result.
template <class LoadA, class LoadB, class Store>
void dot_tile(std::int64_t rows, std::int64_t columns, std::int64_t depth, LoadA &&load_a, LoadB &&load_b,
              Store &&store) {
  double sums[kTileRows][kTileColumns];
  TileA a;
  TileB b;
  const std::int64_t padded =
      (columns + detail::kWidth - 1) / detail::kWidth * detail::kWidth;  // what add_rows touches
  for (std::int64_t m = 0; m < rows; ++m) std::fill_n(sums[m], padded, 0.0);
  for (std::int64_t k = 0; k < depth; k += kTileDepth) {
    const std::int64_t count = std::min(kTileDepth, depth - k);
    load_a(k, count, a);
    load_b(k, count, b);
    for (std::int64_t i = 0; i < count; ++i) std::fill(b.at[i] + columns, b.at[i] + padded, 0.0);
    std::int64_t m = 0;
    for (; m + 4 <= rows; m += 4) detail::add_rows<4>(a, b, m, columns, count, sums);
    for (; m < rows; ++m) detail::add_rows<1>(a, b, m, columns, count, sums);
  }
  for (std::int64_t m = 0; m < rows; ++m) {
    for (std::int64_t p = 0; p < columns; ++p) store(m, p, sums[m][p]);
  }
}

// How rows x columns results are cut into tiles: tile i covers rows [row, row + rows) and columns [column, column +
// columns).
struct Tiling {
  std::int64_t all_rows, all_columns;
  std::int64_t across() const noexcept { return (all_columns + kTileColumns - 1) / kTileColumns; }
  std::int64_t count() const noexcept { return (all_rows + kTileRows - 1) / kTileRows * across(); }
  struct Tile {
    std::int64_t row, rows, column, columns;
  };
  Tile operator[](std::int64_t i) const noexcept {
    const std::int64_t row = i / across() * kTileRows, column = i % across() * kTileColumns;
    return {row, std::min(kTileRows, all_rows - row), column, std::min(kTileColumns, all_columns - column)};
  }
};

}  // namespace quarry::reference
