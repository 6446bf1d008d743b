// SPDX-License-Identifier: Apache-2.0
// Sizes that the kernels of MatMulF32, MatMulInt, MatMulBlocks and AttentionF32 and their check functions agree upon.
#pragma once

#include "kernels/cpu/isa.h"

namespace quarry::kernels {

inline constexpr std::uint32_t kBiasPerRow = 2;  // has_bias of MatMulF32: a number for each row; 1: for each column

// A panel of b is packed into scratch for as many rows of a as there are; a too where its columns are not adjacent.
struct MatMulShape {
  std::int64_t chunk, chunks;                        // of k
  std::int64_t vectors, panels;                      // of n
  std::int64_t rows;                                 // most that are multiplied at a time
  std::int64_t panel_floats, bias_floats, a_floats;  // scratch of a worker, in this order
};
[[maybe_unused]] static inline MatMulShape matmul_shape(const MatMulF32 &p, std::uint32_t lanes,
                                                        std::uint32_t panel) noexcept {
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  MatMulShape s{};
  const std::int64_t width = std::int64_t{lanes} * panel,
                     most = (16 << 10) / (width * 4) < 256 ? 256 : (16 << 10) / (width * 4);
  s.chunks = p.k > 0 ? up(p.k, most) : 1;
  s.chunk = up(p.k, s.chunks);
  s.vectors = up(p.n, lanes), s.panels = up(s.vectors, panel);
  s.rows = p.a_col == 1 ? 768 : 96;
  if (s.rows > p.m) s.rows = p.m;
  s.panel_floats = up(s.chunk * width, 16) * 16, s.bias_floats = up(width, 16) * 16;
  s.a_floats = p.a_col == 1 ? 0 : up(s.rows * s.chunk, 16) * 16;
  return s;
}

// The same for bytes, as int_gemm.h reads them: a panel of b as [step][vector][lane][elements], rows of a as they
// lie or, where they do not lie so, copied.
struct MatMulIntShape {
  std::int64_t elements;  // of a step of four bytes: bytes or s16
  bool a_in_place;
  std::int64_t chunk, chunks;                                                 // of k
  std::int64_t panel_columns, panels;                                         // of n
  std::int64_t rows;                                                          // most that are multiplied at a time
  std::int64_t panel_bytes, column_numbers, row_numbers, row_bytes, a_bytes;  // of scratch
};
// in_place: dot products take bytes of a's type.
[[maybe_unused]] static inline MatMulIntShape matmul_int_shape(const MatMulInt &p, std::uint32_t lanes,
                                                               std::uint32_t panel, std::uint32_t int_group,
                                                               bool in_place) noexcept {
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  MatMulIntShape s{};
  constexpr std::int64_t kDepth = 1024, kRows = 96, kRowsInPlace = 768;
  s.elements = int_group == 4 ? 4 : 2;
  s.a_in_place = s.elements == 4 && in_place && p.a_col == 1 && p.k % 4 == 0;
  s.chunks = p.k > 0 ? up(p.k, kDepth) : 1;
  s.chunk = up(up(p.k, s.chunks), 4) * 4;
  s.panel_columns = std::int64_t{lanes} * panel, s.panels = up(p.n, s.panel_columns);
  s.rows = s.a_in_place ? kRowsInPlace : kRows;
  if (s.rows > p.m) s.rows = p.m;
  s.row_bytes = s.chunk * 4 / s.elements;
  s.panel_bytes = up(s.chunk * s.panel_columns, 64) * 64;
  s.column_numbers = up(s.panel_columns, 16) * 16, s.row_numbers = up(s.rows, 16) * 16;
  s.a_bytes = s.a_in_place ? 0 : up(s.rows * s.row_bytes, 64) * 64;
  return s;
}
// Sums and zero points of columns, then of rows, are i32.
[[maybe_unused]] static inline std::int64_t matmul_int_scratch(const MatMulIntShape &s) noexcept {
  return s.panel_bytes + 2 * 4 * (s.column_numbers + s.row_numbers) + s.a_bytes;
}

// Keys and values of a part of the columns of the scores are packed into scratch, and passed over by blocks of rows.
struct AttentionShape {
  static constexpr std::int64_t kRows = 24;  // of queries at a time
  std::int64_t block, padded;                // columns of a part; and padded to whole panels
  std::int64_t v_vectors;
  // Scratch of a worker, in this order; row_floats twice.
  std::int64_t k_floats, v_floats, s_floats, row_floats, wide_floats;
};
// So few rows of queries read keys and values where they lie: reading those is all the work there is.
inline constexpr std::int64_t kAttendInPlace = 4;
// Dimensions up to 2^31.
[[maybe_unused]] static inline AttentionShape attention_shape(const AttentionF32 &p, std::uint32_t lanes,
                                                              std::uint32_t panel) noexcept {
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  AttentionShape s{};
  const std::int64_t width = std::int64_t{lanes} * panel;
  // What is made f32 for rows that read in place is for the first cache.
  const bool is_wide = p.kept == KeptType::F32;
  const std::int64_t room = is_wide || p.q_rows > kAttendInPlace ? 256 << 10 : 24 << 10;
  std::int64_t most = room / (4 * (p.qk_cols + p.v_cols)) / width * width;
  if (most < width) most = width;
  const std::int64_t parts = up(p.kv_rows, most);
  s.block = parts > 1 ? up(up(p.kv_rows, parts), width) * width : p.kv_rows;
  s.padded = up(s.block, width) * width;
  s.v_vectors = up(p.v_cols, lanes);
  s.k_floats = s.padded * p.qk_cols;
  s.v_floats = up(s.block * s.v_vectors * lanes, 16) * 16;
  s.s_floats = AttentionShape::kRows * (s.padded + 16);
  s.row_floats = up(p.q_rows, 16) * 16;
  s.wide_floats = is_wide ? 0 : s.block * (p.qk_cols + p.v_cols);
  return s;
}

// Weights in blocks: for so many rows a panel of them is made f32 first, some of the depth at a time, and read by all
// rows. Room of a worker: the panel, its packed weights with columns beside each other, scales and zero points of a
// block.
inline constexpr std::int64_t kRowsOfPanels = 16;
[[maybe_unused]] static inline std::int64_t panel_depth(const MatMulBlocks &p) noexcept {
  return p.block > 256 ? p.block : 256;
}
[[maybe_unused]] static inline std::uint64_t panel_scratch(const MatMulBlocks &p, std::int64_t columns) noexcept {
  if (p.m < kRowsOfPanels) return 0;
  const std::int64_t depth = panel_depth(p), packed = depth * p.bits / 32;
  return static_cast<std::uint64_t>(((depth + packed + 3) * columns * 4 + 63) / 64 * 64);
}

// The same with x in bytes (MatMulBlocksBytes). Panels of many rows take a part of a block at a time, whose sums of
// pairs of bytes a s16 holds; that is not so of pairs of weights of 8 bits.
inline constexpr std::int64_t kRowsOfBytePanels = 8;
[[maybe_unused]] static inline bool in_byte_panels(const MatMulBlocks &p, bool byte_pairs,
                                                   std::uint32_t int_group) noexcept {
  return p.m >= kRowsOfBytePanels && (byte_pairs ? p.bits < 8 : int_group == 4);
}
[[maybe_unused]] static inline std::int64_t byte_part(const MatMulBlocks &p) noexcept {
  return p.block < 32 ? p.block : 32;
}
[[maybe_unused]] static inline std::int64_t byte_depth(const MatMulBlocks &p) noexcept {
  return p.block > 512 ? p.block : 512;
}
[[maybe_unused]] static inline std::uint64_t byte_panel_scratch(const MatMulBlocks &p, std::int64_t columns) noexcept {
  const std::int64_t depth = byte_depth(p), bytes = depth + depth * p.bits / 8 + 2 * 4 * (depth / p.block);
  return static_cast<std::uint64_t>((bytes * columns + 63) / 64 * 64);
}
[[maybe_unused]] static inline bool rows_have_sums(const MatMulBlocks &p) noexcept {
  return p.zeros != BlockZeros::Middle;
}
// Whether that is quicker than products of f32.
[[maybe_unused]] static inline bool bytes_pay(const MatMulBlocks &p, const Isa &isa) noexcept {
  return isa.int_group == 4 || (isa.byte_pairs && (p.bits < 8 || p.m < kRowsOfPanels));
}
// Of a row of x: bytes, and numbers of four bytes. m rows of each lie behind each other, in this order.
struct BlockBytesShape {
  std::int64_t codes, scales, starts, sums;
};
[[maybe_unused]] static inline BlockBytesShape block_bytes_shape(const MatMulBlocks &p, std::int64_t lanes,
                                                                 bool panels) noexcept {
  const std::int64_t blocks = (p.k + p.block - 1) / p.block, depth = blocks * p.block, each = 32 / p.bits,
                     padded = (depth / each + lanes - 1) / lanes * lanes, sums = rows_have_sums(p) ? blocks : 0;
  if (panels) return {depth, blocks, depth / byte_part(p), sums};
  return {padded * each, padded, padded, sums};
}

}  // namespace quarry::kernels
