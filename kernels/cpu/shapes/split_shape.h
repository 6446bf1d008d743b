// SPDX-License-Identifier: Apache-2.0
// ConvF32 by split numbers (ConvAlgorithm::Split): what check, packing and kernel agree upon.
//
// A number of f32 is the sum of three of bf16, each the nearest to what those before it leave; nothing is lost. A
// product of two is then nine of bf16, of which the three smallest lie under f32's own rounding: six remain, which AMX
// adds up in f32. Packed weights: [pair of vectors][32 of k][part][vector][2 of k][lane][2]; k is padded with zeros to
// whole 32, channels to whole pairs of vectors.
//
// Tiles take denormals for zeros. So weights are zeros or of 2^-36 to 2^36, and rows of x, of which 32 belong together,
// hold zeros and numbers of 2^-44 to 2^60 alone: then all products and sums are multiples of 2^-126, less than 2^121,
// and tiles are f32's arithmetic. Rows that hold others (NaN, infinities, denormals) are multiplied by FMA, with the
// weights put together again.
#pragma once

#include <bit>

#include "kernels/cpu/shapes/conv_shape.h"

namespace quarry::kernels {

inline constexpr std::int64_t kSplitParts = 3, kSplitRows = 32, kSplitColumns = 32, kSplitK = 32;
inline constexpr std::int64_t kSplitTileBytes = 1024;

// Bits of the least and the largest magnitude.
inline constexpr std::uint32_t split_bits(int exponent) noexcept {
  return static_cast<std::uint32_t>(127 + exponent) << 23;
}
inline constexpr std::uint32_t kSplitLeastX = split_bits(-44), kSplitMostX = split_bits(60);
inline constexpr std::uint32_t kSplitLeastW = split_bits(-36), kSplitMostW = split_bits(36);

struct SplitShape {
  std::int64_t steps, pairs;  // of k, of vectors of channels
  std::int64_t pair_bytes;    // of packed weights
  std::int64_t unit_bytes;    // of split rows
  std::int64_t rows, units;   // of a block: multiples of kSplitRows
  std::int64_t scratch;       // of a worker: the units, then the sums of one
  std::int64_t units_bytes() const noexcept { return units * unit_bytes; }
};
inline constexpr std::int64_t kSplitSumsBytes = kSplitRows * kSplitColumns * 4, kSplitUnitsMost = 4;

[[maybe_unused]] static inline bool split_possible(const ConvF32 &p) noexcept {
  const Window &w = p.window;
  return p.weights == WeightType::F32 && p.groups == 1 && w.kh == 1 && w.kw == 1 && w.sh == 1 && w.sw == 1 &&
         w.pad_top == 0 && w.pad_left == 0 && w.oh == w.ih && w.ow == w.iw;
}
[[maybe_unused]] static inline SplitShape split_shape(const ConvF32 &p) noexcept {
  SplitShape s{};
  s.steps = conv_ceil_div(p.ic, kSplitK), s.pairs = conv_ceil_div(p.oc, kSplitColumns);
  s.pair_bytes = s.steps * kSplitParts * 2 * kSplitTileBytes;
  s.unit_bytes = s.steps * kSplitParts * 2 * kSplitTileBytes;
  // In the second-level cache, beside a pair's weights.
  const std::int64_t pixels = std::int64_t{p.window.n} * p.window.oh * p.window.ow;
  s.units = (512 << 10) / s.unit_bytes;
  if (s.units > kSplitUnitsMost) s.units = kSplitUnitsMost;
  if (s.units > conv_ceil_div(pixels, kSplitRows)) s.units = conv_ceil_div(pixels, kSplitRows);
  if (s.units < 1) s.units = 1;
  s.rows = s.units * kSplitRows;
  s.scratch = s.units_bytes() + kSplitSumsBytes;
  return s;
}

}  // namespace quarry::kernels
