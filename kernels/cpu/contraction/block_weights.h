// SPDX-License-Identifier: Apache-2.0
// Weights of 2, 4 or 8 bits in blocks, as the kernels read them: kLanes dwords of 32 / bits weights at a time.
#pragma once

#include "kernels/cpu/shapes/matmul_shape.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

struct BlockWeights {
  const MatMulBlocks &p;
  const std::uint8_t *w, *packed_zeros = nullptr;
  const float *scales, *zeros = nullptr, *bias = nullptr;
  float *y;
  std::int64_t blocks, dwords, vectors, zero_bytes;  // of a row
  int log_dwords;                                    // of a block
  const float *x_sums = nullptr;                     // [m][block]; where there are zero points

  explicit BlockWeights(const Call &call) noexcept
      : p(call.as<MatMulBlocks>()),
        w(call.operand<const std::uint8_t>(1)),
        scales(call.operand<const float>(2)),
        blocks(ceil_div<std::int64_t>(p.k, p.block)),
        dwords(blocks * p.block * p.bits / 32),
        vectors(ceil_div<std::int64_t>(dwords, kLanes)),
        zero_bytes((blocks * p.bits + 7) / 8),
        log_dwords(__builtin_ctz(p.block * p.bits / 32)) {
    std::size_t next = 3;
    if (p.zeros == BlockZeros::Packed) packed_zeros = call.operand<const std::uint8_t>(next++);
    if (p.zeros == BlockZeros::F32) zeros = call.operand<const float>(next++);
    if (p.has_bias) bias = call.operand<const float>(next++);
    y = call.operand<float>(next);
  }
};

// Bytes ahead of where weights and scales are read: rows are short, and each begins a stream of its own.
inline constexpr std::int64_t kWeightsAhead = 16384, kScalesAhead = 2048;

// How the scales of the blocks that a vector reaches into come to its lanes.
struct Spread {
  VecI from;  // of each lane, counted from the first block
  int count;
  explicit Spread(std::int64_t dwords_of_block) noexcept {
    const auto each = static_cast<std::int32_t>(min_of<std::int64_t>(dwords_of_block, kLanes));
    for (std::int32_t i = 0; i < kLanes; ++i) from[i] = i / each;
    count = kLanes / each;
  }
  __attribute__((always_inline)) VecF operator()(const float *scales, int there) const noexcept {
    return choose(there == kLanes ? load(scales) : load_part(scales, there), from);
  }
};

// The zero point of a block.
template <int bits>
QR_INLINE float zero_of(const BlockWeights &s, std::int64_t n, std::int64_t b) noexcept {
  if (s.zeros) return s.zeros[n * s.blocks + b];
  if (!s.packed_zeros) return static_cast<float>(1 << (bits - 1));
  return static_cast<float>((s.packed_zeros[n * s.zero_bytes + b * bits / 8] >> (b * bits % 8)) & ((1 << bits) - 1));
}

// What zero points beside the middle take off, of `rows` rows of x with one of the weights. In matmul_blocks.cpp.
inline constexpr int kMostShifts = 4;
void zero_shifts(const BlockWeights &s, std::int64_t row, int rows, std::int64_t n, float *shifts) noexcept;

// Sums of R rows of x with C rows of weights, whose lanes are yet to be added up, become y.
template <int R, int C>
QR_INLINE void put_sums(const BlockWeights &s, std::int64_t row, std::int64_t n, const VecF (&sums)[R][C]) noexcept {
  for (int c = 0; c < C; ++c) {
    const float bias = s.bias ? s.bias[n + c] : 0.0f;
    float shifts[R] = {};
    static_assert(R <= kMostShifts);
    if (s.x_sums) zero_shifts(s, row, R, n + c, shifts);
    for (int r = 0; r < R; ++r) s.y[(row + r) * s.p.n + n + c] = sum(sums[r][c]) - shifts[r] + bias;
  }
}

// Loads a vector of dwords of a row; `there` of them.
QR_INLINE VecI load_dwords(const std::uint8_t *from, int there) noexcept {
  return there == kLanes ? load(reinterpret_cast<const std::int32_t *>(from))
                         : reinterpret_cast<VecI>(load_part(reinterpret_cast<const float *>(from), there));
}

}  // namespace quarry::kernels::QR_ISA
