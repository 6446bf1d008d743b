// SPDX-License-Identifier: Apache-2.0
// What convolutions and matrix multiplications have in common: out(m, p) = sum over k of a(m, k) * b(k, p).
// Sums are doubles, in the order of k, from 0: the result does not depend on how the work is cut up. Integers up to 16
// bits come out exact.
#pragma once

#include <algorithm>
#include <type_traits>
#include <cstdint>

#include "kernels/reference/tensors.h"

namespace quarry::reference {

inline constexpr std::int64_t kTileRows = 32, kTileColumns = 32, kTileDepth = 64;

// A part of the operands, as doubles.
struct TileA {
  double at[kTileRows][kTileDepth];  // [m][k]
};
struct TileB {
  double at[kTileDepth][kTileColumns];  // [k][p]
};

// Reads a block of elements, numbers `first` + i * row_stride + k * stride of `from`, as doubles less zeros[i], into
// to[i * kTileDepth + k]. Without `zeros` nothing is taken off.
using LoadRows = void (*)(const void *from, std::int64_t first, std::int64_t row_stride, std::int64_t stride,
                          std::int64_t rows, std::int64_t count, const double *zeros, double *to);
// The same with numbers `first` + k * stride + j * column_stride less zeros[j], into to.at[k][j].
using LoadColumns = void (*)(const void *from, std::int64_t first, std::int64_t stride, std::int64_t column_stride,
                             std::int64_t count, std::int64_t columns, const double *zeros, TileB &to);
// Of f32, f64, i8 and u8; nullptr: of none of them.
LoadRows find_load_rows(DType dtype) noexcept;
LoadColumns find_load_columns(DType dtype) noexcept;

// sums[m][p] += the sum over k < depth of a.at[m][k] * b.at[k][p], in the order of k. Columns up to the next multiple
// of kTileWidth are read and written too.
inline constexpr std::int64_t kTileWidth = 4;
void add_tile(const TileA &a, const TileB &b, std::int64_t rows, std::int64_t columns, std::int64_t depth,
              double (*sums)[kTileColumns]) noexcept;

// One tile of the result. load_a(k, count, a) fills a.at[0..rows][0..count] from k on, load_b(k, count, b) fills
// b.at[0..count][0..columns]; store(m, sums) takes every row of results.
template <class LoadA, class LoadB, class Store>
void dot_tile(std::int64_t rows, std::int64_t columns, std::int64_t depth, LoadA &&load_a, LoadB &&load_b,
              Store &&store) {
  double sums[kTileRows][kTileColumns];
  TileA a;
  TileB b;
  const std::int64_t padded = (columns + kTileWidth - 1) / kTileWidth * kTileWidth;  // what add_tile touches
  for (std::int64_t m = 0; m < rows; ++m) std::fill_n(sums[m], padded, 0.0);
  for (std::int64_t k = 0; k < depth; k += kTileDepth) {
    const std::int64_t count = std::min(kTileDepth, depth - k);
    if constexpr (std::is_same_v<decltype(load_a(k, count, a)), bool>) {
      if (!load_a(k, count, a)) return;  // it was stopped
    } else {
      load_a(k, count, a);
    }
    load_b(k, count, b);
    for (std::int64_t i = 0; i < count; ++i) std::fill(b.at[i] + columns, b.at[i] + padded, 0.0);
    add_tile(a, b, rows, columns, count, sums);
  }
  for (std::int64_t m = 0; m < rows; ++m) store(m, sums[m]);
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
