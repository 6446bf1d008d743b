// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/dot_tiles.h"

#include <utility>

namespace quarry::reference {

namespace {

template <class T>
void load_rows(const void *given, std::int64_t first, std::int64_t row_stride, std::int64_t stride, std::int64_t rows,
               std::int64_t count, const double *zeros, double *to) noexcept {
  const T *const from = static_cast<const T *>(given) + first;
  for (std::int64_t i = 0; i < rows; ++i, to += kTileDepth) {
    const T *const row = from + i * row_stride;
    if (stride == 1) std::copy_n(row, count, to);
    else
      for (std::int64_t k = 0; k < count; ++k) to[k] = static_cast<double>(row[k * stride]);
    for (std::int64_t k = 0; zeros && k < count; ++k) to[k] -= zeros[i];
  }
}

template <class T>
void load_columns(const void *given, std::int64_t first, std::int64_t stride, std::int64_t column_stride,
                  std::int64_t count, std::int64_t columns, const double *zeros, TileB &to) noexcept {
  const T *const from = static_cast<const T *>(given) + first;
  if (column_stride == 1) {
    for (std::int64_t k = 0; k < count; ++k) std::copy_n(from + k * stride, columns, to.at[k]);
  } else {
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t k = 0; k < count; ++k) to.at[k][j] = static_cast<double>(from[k * stride + j * column_stride]);
  }
  for (std::int64_t k = 0; zeros && k < count; ++k)
    for (std::int64_t j = 0; j < columns; ++j) to.at[k][j] -= zeros[j];
}

// Rows of kTileWidth sums: as many as fit into registers, which is why they are spelt out instead of counted in a loop.
template <std::size_t... Rows>
void add_rows(std::index_sequence<Rows...>, const TileA &a, const TileB &b, std::int64_t m, std::int64_t columns,
              std::int64_t depth, double (*sums)[kTileColumns]) noexcept {
  typedef double Pair __attribute__((vector_size(16)));
  const auto load = [](const double *from) { return Pair{from[0], from[1]}; };
  const auto store = [](double *to, Pair pair) { to[0] = pair[0], to[1] = pair[1]; };
  static_assert(kTileWidth == 4);
  for (std::int64_t p = 0; p < columns; p += kTileWidth) {
    Pair low[] = {load(sums[m + static_cast<std::int64_t>(Rows)] + p)...};
    Pair high[] = {load(sums[m + static_cast<std::int64_t>(Rows)] + p + 2)...};
    for (std::int64_t k = 0; k < depth; ++k) {
      const Pair left = load(b.at[k] + p), right = load(b.at[k] + p + 2);
      ((low[Rows] += a.at[m + static_cast<std::int64_t>(Rows)][k] * left,
        high[Rows] += a.at[m + static_cast<std::int64_t>(Rows)][k] * right),
       ...);
    }
    ((store(sums[m + static_cast<std::int64_t>(Rows)] + p, low[Rows]),
      store(sums[m + static_cast<std::int64_t>(Rows)] + p + 2, high[Rows])),
     ...);
  }
}

}  // namespace

LoadRows find_load_rows(DType dtype) noexcept {
  LoadRows found = nullptr;
  dispatch<float, double, std::int8_t, std::uint8_t>(dtype, [&](auto tag) { found = load_rows<decltype(tag)>; });
  return found;
}
LoadColumns find_load_columns(DType dtype) noexcept {
  LoadColumns found = nullptr;
  dispatch<float, double, std::int8_t, std::uint8_t>(dtype, [&](auto tag) { found = load_columns<decltype(tag)>; });
  return found;
}

void add_tile(const TileA &a, const TileB &b, std::int64_t rows, std::int64_t columns, std::int64_t depth,
              double (*sums)[kTileColumns]) noexcept {
  std::int64_t m = 0;
  for (; m + 4 <= rows; m += 4) add_rows(std::make_index_sequence<4>(), a, b, m, columns, depth, sums);
  for (; m < rows; ++m) add_rows(std::make_index_sequence<1>(), a, b, m, columns, depth, sums);
}

}  // namespace quarry::reference
