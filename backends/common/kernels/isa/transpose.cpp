// SPDX-License-Identifier: Apache-2.0
#include "backends/common/kernels/isa/transpose.h"

#include "backends/common/kernels/isa/kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Four-byte units in registers: a square of kSide.
constexpr int kSide = QR_ISA_BYTES >= 32 ? 8 : 4;
typedef std::int32_t SideVec __attribute__((vector_size(kSide * 4)));
typedef std::int32_t SideVecUnaligned __attribute__((vector_size(kSide * 4), aligned(1), may_alias));

QR_INLINE void transpose_square(const std::byte *from, std::byte *to, std::int64_t from_step, std::int64_t to_step) noexcept {
  SideVec r[kSide], t[kSide];
  QR_UNROLL for (int i = 0; i < kSide; ++i) r[i] = *reinterpret_cast<const SideVecUnaligned *>(from + i * from_step);
#if QR_ISA_BYTES >= 32
  // Halves of rows i and i + 4 side by side, then 4 x 4 within each half.
  QR_UNROLL for (int i = 0; i < 4; ++i) {
    t[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    t[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  QR_UNROLL for (int i = 0; i < 8; i += 4) {
    r[i] = __builtin_shufflevector(t[i], t[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    r[i + 1] = __builtin_shufflevector(t[i], t[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    r[i + 2] = __builtin_shufflevector(t[i + 2], t[i + 3], 0, 8, 1, 9, 4, 12, 5, 13);
    r[i + 3] = __builtin_shufflevector(t[i + 2], t[i + 3], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  QR_UNROLL for (int i = 0; i < 8; i += 4) {
    t[i] = __builtin_shufflevector(r[i], r[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    t[i + 1] = __builtin_shufflevector(r[i], r[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    t[i + 2] = __builtin_shufflevector(r[i + 1], r[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    t[i + 3] = __builtin_shufflevector(r[i + 1], r[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
#else
  const SideVec a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5), b = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
  const SideVec c = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5), d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  t[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  t[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  t[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  t[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
#endif
  QR_UNROLL for (int j = 0; j < kSide; ++j) *reinterpret_cast<SideVecUnaligned *>(to + j * to_step) = t[j];
}

// A block that may be ragged.
template <class T>
QR_INLINE void transpose_plain(const std::byte *from, std::byte *to, std::int64_t rows, std::int64_t columns, std::int64_t from_step, std::int64_t to_step) noexcept {
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i) reinterpret_cast<T *>(to + j * to_step)[i] = reinterpret_cast<const T *>(from + i * from_step)[j];
}
// Few columns or few rows: channels of an image.
template <class T, int columns>
QR_INLINE void split_columns(const std::byte *from, std::byte *to, std::int64_t rows, std::int64_t from_step, std::int64_t to_step) noexcept {
  for (std::int64_t i = 0; i < rows; ++i)
    QR_UNROLL for (int j = 0; j < columns; ++j) reinterpret_cast<T *>(to + j * to_step)[i] = reinterpret_cast<const T *>(from + i * from_step)[j];
}
template <class T, int rows>
QR_INLINE void join_rows(const std::byte *from, std::byte *to, std::int64_t columns, std::int64_t from_step, std::int64_t to_step) noexcept {
  for (std::int64_t j = 0; j < columns; ++j)
    QR_UNROLL for (int i = 0; i < rows; ++i) reinterpret_cast<T *>(to + j * to_step)[i] = reinterpret_cast<const T *>(from + i * from_step)[j];
}

template <class T>
void transpose_as(const std::byte *from, std::byte *to, std::int64_t rows, std::int64_t columns, std::int64_t from_step, std::int64_t to_step) noexcept {
  switch (columns) {
    case 1: return split_columns<T, 1>(from, to, rows, from_step, to_step);
    case 2: return split_columns<T, 2>(from, to, rows, from_step, to_step);
    case 3: return split_columns<T, 3>(from, to, rows, from_step, to_step);
    case 4: return split_columns<T, 4>(from, to, rows, from_step, to_step);
  }
  switch (rows) {
    case 1: return join_rows<T, 1>(from, to, columns, from_step, to_step);
    case 2: return join_rows<T, 2>(from, to, columns, from_step, to_step);
    case 3: return join_rows<T, 3>(from, to, columns, from_step, to_step);
    case 4: return join_rows<T, 4>(from, to, columns, from_step, to_step);
  }
  // Blocks of whole cache lines on both sides.
  constexpr std::int64_t kBlock = sizeof(T) >= 4 ? 16 : 32;
  for (std::int64_t j = 0; j < columns; j += kBlock)
    for (std::int64_t i = 0; i < rows; i += kBlock) {
      const std::byte *const f = from + i * from_step + j * static_cast<std::int64_t>(sizeof(T));
      std::byte *const t = to + j * to_step + i * static_cast<std::int64_t>(sizeof(T));
      const std::int64_t r = min_of(kBlock, rows - i), c = min_of(kBlock, columns - j);
      if constexpr (sizeof(T) == 4) {
        std::int64_t jj = 0;
        for (; jj + kSide <= c; jj += kSide) {
          std::int64_t ii = 0;
          for (; ii + kSide <= r; ii += kSide) transpose_square(f + ii * from_step + jj * 4, t + jj * to_step + ii * 4, from_step, to_step);
          if (ii < r) transpose_plain<T>(f + ii * from_step + jj * 4, t + jj * to_step + ii * 4, r - ii, kSide, from_step, to_step);
        }
        if (jj < c) transpose_plain<T>(f + jj * 4, t + jj * to_step, r, c - jj, from_step, to_step);
      } else {
        transpose_plain<T>(f, t, r, c, from_step, to_step);
      }
    }
}

}  // namespace

void transpose(std::int64_t unit, const std::byte *from, std::byte *to, std::int64_t rows, std::int64_t columns, std::int64_t from_step, std::int64_t to_step) noexcept {
  switch (unit) {
    case 1: return transpose_as<Unit1>(from, to, rows, columns, from_step, to_step);
    case 2: return transpose_as<Unit2>(from, to, rows, columns, from_step, to_step);
    case 4: return transpose_as<Unit4>(from, to, rows, columns, from_step, to_step);
    case 8: return transpose_as<Unit8>(from, to, rows, columns, from_step, to_step);
    default: return transpose_as<Unit16>(from, to, rows, columns, from_step, to_step);
  }
}

}  // namespace quarry::kernels::QR_ISA
