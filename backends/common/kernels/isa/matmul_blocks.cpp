// SPDX-License-Identifier: Apache-2.0
// Products with weights of 2, 4 or 8 bits in blocks. Each weight is read once for as many rows as there are registers
// for; x is brought into the order in which bytes give their parts first.
#include "backends/common/kernels/isa/int_vec.h"
#include "backends/common/kernels/isa/kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

struct Weights {
  const MatMulBlocks &p;
  const std::uint8_t *w, *packed_zeros;
  const float *scales, *zeros, *bias, *x;  // x: [m][block][part][...], padded with zeros
  float *y;
  std::int64_t blocks, block_bytes, zero_bytes;
};

// A block's weights without its zero point.
template <int bits>
QR_INLINE void unpack(const std::uint8_t *from, std::int64_t bytes, std::int32_t zero, float *to) noexcept {
  constexpr std::int32_t mask = (1 << bits) - 1;
  if (bytes % kLanes == 0) {
    const VecF shift = splat(static_cast<float>(zero));
    for (std::int64_t i = 0; i < bytes; i += kLanes) {
      VecI packed = widen(from + i);
      QR_UNROLL
      for (int part = 0; part < 8 / bits; ++part, packed >>= bits)
        store(to + part * bytes + i, to_float(packed & splat(mask)) - shift);
    }
    return;
  }
  for (int part = 0; part < 8 / bits; ++part) {
    float *const at = to + part * bytes;
    for (std::int64_t i = 0; i < bytes; ++i)
      at[i] = static_cast<float>(static_cast<std::int32_t>((from[i] >> (part * bits)) & mask) - zero);
  }
}

template <int bits, int R>
void column(const Weights &s, std::int64_t row, std::int64_t n) noexcept {
  const MatMulBlocks &p = s.p;
  const std::int64_t depth = s.blocks * p.block;
  const float *const x = s.x + row * depth;
  VecF sums[R] = {};
  alignas(64) float values[kMostBlock];
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    const std::int64_t at = n * s.blocks + b;
    std::int32_t zero = 1 << (bits - 1);
    if (s.packed_zeros) zero = (s.packed_zeros[n * s.zero_bytes + b * bits / 8] >> (b * bits % 8)) & ((1 << bits) - 1);
    else if (s.zeros) zero = 0;
    unpack<bits>(s.w + at * s.block_bytes, s.block_bytes, zero, values);
    const VecF shift = splat(s.zeros ? s.zeros[at] : 0.0f);
    VecF part[R][2] = {};
    const float *const from = x + b * p.block;
    for (std::int64_t i = 0; i < p.block; i += kLanes) {
      const VecF w = load(values + i) - shift;
      QR_UNROLL
      for (int r = 0; r < R; ++r) part[r][0] = fma(load(from + r * depth + i), w, part[r][0]);
      i += kLanes;
      if (i >= p.block) break;
      const VecF v = load(values + i) - shift;
      QR_UNROLL
      for (int r = 0; r < R; ++r) part[r][1] = fma(load(from + r * depth + i), v, part[r][1]);
    }
    const VecF scale = splat(s.scales[at]);
    QR_UNROLL
    for (int r = 0; r < R; ++r) sums[r] = fma(part[r][0] + part[r][1], scale, sums[r]);
  }
  for (int r = 0; r < R; ++r) s.y[(row + r) * p.n + n] = sum(sums[r]) + (s.bias ? s.bias[n] : 0.0f);
}

template <int bits>
void columns(const Weights &s, std::int64_t begin, std::int64_t end) noexcept {
  constexpr int kRows = 4;
  std::int64_t row = 0;
  for (; row + kRows <= s.p.m; row += kRows)
    for (std::int64_t n = begin; n < end; ++n) column<bits, kRows>(s, row, n);
  for (; row < s.p.m; ++row)
    for (std::int64_t n = begin; n < end; ++n) column<bits, 1>(s, row, n);
}

}  // namespace

void run_MatMulBlocks(const Call &call) {
  const auto &p = call.as<MatMulBlocks>();
  const std::int64_t blocks = ceil_div<std::int64_t>(p.k, p.block), parts = 8 / p.bits, depth = blocks * p.block,
                     bytes = p.block / parts;
  float *const ordered = reinterpret_cast<float *>(call.shared_scratch());
  const float *const given = call.operand<const float>(0);
  for (std::int64_t row = 0; row < p.m; ++row) {
    const float *const from = given + row * p.k;
    float *const to = ordered + row * depth;
    for (std::int64_t b = 0; b < blocks; ++b)
      for (std::int64_t part = 0; part < parts; ++part)
        for (std::int64_t i = 0; i < bytes; ++i) {
          const std::int64_t k = b * p.block + i * parts + part;
          to[b * p.block + part * bytes + i] = k < p.k ? from[k] : 0.0f;
        }
  }
  std::size_t next = 3;
  Weights s{p,
            call.operand<const std::uint8_t>(1),
            nullptr,
            call.operand<const float>(2),
            nullptr,
            nullptr,
            ordered,
            nullptr,
            blocks,
            bytes,
            (blocks * p.bits + 7) / 8};
  if (p.zeros == BlockZeros::Packed) s.packed_zeros = call.operand<const std::uint8_t>(next++);
  if (p.zeros == BlockZeros::F32) s.zeros = call.operand<const float>(next++);
  if (p.has_bias) s.bias = call.operand<const float>(next++);
  s.y = call.operand<float>(next);
  const double work = 2.0 * static_cast<double>(p.m) * static_cast<double>(depth);
  call.threads.run(static_cast<std::uint64_t>(p.n), static_cast<std::uint64_t>(kWorthSharing / work) + 1,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     const auto from = static_cast<std::int64_t>(begin), to = static_cast<std::int64_t>(end);
                     switch (p.bits) {
                       case 2: return columns<2>(s, from, to);
                       case 4: return columns<4>(s, from, to);
                       default: return columns<8>(s, from, to);
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
