// SPDX-License-Identifier: Apache-2.0
// How integer convolutions are laid out: what check, packing and every instruction set's kernels must agree on.
// Included by the sources of the families, so everything is inlined.
//
// Dense: the output is a matrix of pixels x channels. Blocks of pixels are gathered into rows of K = taps * input
// channels of the group (tap by tap, the channels of a tap adjacent), padded to whole steps of 4 bytes: two s16, or
// four bytes where there is a dot product of them. Weights are [group][panel][step][vector][lane][elements of a step];
// the last panel of a group has only as many vectors as it needs.
// Dense as byte pairs (IntForm::BytePairs1, BytePairs2), for x86 without a dot product of bytes: x0 * w0 + x1 * w1 in
// one instruction that saturates at 16 bits. It is exact where neither the positive nor the negative weights of a pair
// exceed 128 together, for x is at most 255. So packing chooses, for each group of
// one or two panels and within each 16 bytes of K, which bytes are paired; rows are shuffled likewise before the group
// reads them. Bytes that find no partner there pair with zero, or in 16 bytes more at the end of the row. A group of
// packed weights: a BytePairHeader, a shuffle of 16 bytes for each 16 bytes of K, then [panel][step of 4
// bytes][vector][lane][4], always with the room of the 16 bytes more.
// Dense with weights of more than 12 bits for 16-bit activations, or more than 16 bits: as 256 * high + low (low of 8
// bits and a sign), multiplied one after the other, so that sums of many steps fit 32 bits: [group][panel][high,
// low][step][vector][lane][2].
// Depthwise: weights are [channels / lanes][pairs of tap rows][tap column][lane][2] as s16; an odd tap row pairs with
// zeros.
// Sums are i32 and may wrap around on the way where the whole is known to fit. Where it may not (packing sees that:
// long sums of 16-bit activations, wide weights, huge biases) they are flushed to f64 every so many steps, exactly, and
// the bias is f64. The packed bias is i32[channels], then f64[channels]; the last i32 says whether sums are f64.
#pragma once

#include "kernels/cpu/params.h"

#define QR_SHAPE __attribute__((always_inline)) static inline

namespace quarry::kernels {

// The numbers of base/dtypes.inc.
enum : std::uint32_t { kU8 = 2, kI8 = 3, kU16 = 4, kI16 = 5, kI32 = 6 };
QR_SHAPE bool is_quant_dtype(std::uint32_t dtype) noexcept { return dtype >= kU8 && dtype <= kI16; }
QR_SHAPE std::int32_t quant_bytes(std::uint32_t dtype) noexcept { return dtype >= kU16 ? 2 : 1; }
QR_SHAPE std::int32_t quant_low(std::uint32_t dtype) noexcept {
  return dtype == kI8 ? -128 : dtype == kI16 ? -32768 : 0;
}
QR_SHAPE std::int32_t quant_high(std::uint32_t dtype) noexcept {
  return dtype == kU8 ? 255 : dtype == kI8 ? 127 : dtype == kU16 ? 65535 : 32767;
}

// Dot products of four bytes want their activations signed (Arm) or unsigned (x86).
#if defined(__aarch64__)
inline constexpr bool kDotSigned = true;
#else
inline constexpr bool kDotSigned = false;
#endif

// Whether rows of bytes of a type are multiplied as they lie, by weights of either sign: on x86 the sides may be
// swapped.
QR_SHAPE bool dot_takes(std::uint32_t dtype) noexcept { return !kDotSigned || dtype == kI8; }

inline constexpr std::int32_t kIntRows = 6;  // pixels of a tile
// Gathered pixels: weights that do not fit the second-level cache are read once for each block of them. Processors with
// vectors of 64 bytes have a megabyte of it, or half of one.
QR_SHAPE std::int64_t int_block_bytes(std::int32_t lanes) noexcept {
  return lanes >= 16 ? std::int64_t{256} << 10 : std::int64_t{96} << 10;
}
inline constexpr std::int32_t kIntBlockMost = 96;
inline constexpr std::int64_t kGatherSlack = 64;  // bytes that gathering may write beyond the last row

inline constexpr std::int64_t kPairBytes = 16;  // within which bytes find their partners
inline constexpr std::int64_t kPairKMost = 65536 - 4 * kPairBytes;
struct BytePairHeader {
  std::uint32_t shuffled;                // 0: rows are read as they are
  std::uint32_t more;                    // whether the bytes beyond K are used
  std::uint16_t bytes_more[kPairBytes];  // which byte of the row each of them is; 0xffff: zero
  std::uint32_t steps;                   // of 4 bytes, until nothing but zeros follows
  std::uint8_t reserved[20];
};
static_assert(sizeof(BytePairHeader) == 64);

struct ConvIntShape {
  bool depthwise, winograd, byte_pairs;
  std::int32_t elements;      // of a step: 4 bytes or 2 s16
  std::int32_t weight_bytes;  // of an element of packed weights
  std::int32_t parts;         // of a weight: 2 where high and low are multiplied by themselves
  std::int32_t lanes, panel;  // channels of a vector, of a panel
  std::int64_t group_ic, group_oc, taps;
  std::int64_t k, steps;       // of a row; padded: steps * elements
  std::int64_t group_weights;  // bytes of a group's packed weights (dense), or all (depthwise)
  std::int32_t block;          // pixels
  // Dense: of a worker's scratch, where the shuffled rows begin, the sums of a block's pixels and a panel, and the
  // whole.
  std::int64_t shuffled, sums, scratch;
  std::int64_t pair_panels, pair_group_bytes;  // byte pairs: panels of a group, and the bytes of one
  std::int32_t zero_shift;                     // what gathering subtracts from x
  std::int64_t flush_steps;                    // steps after which sums may overflow
  std::int64_t channels;  // entries of bias and multiplier: of every vector that starts at a channel
};

// Winograd F(2x2, 3x3) in integers, which is exact: weights are transformed by twice the usual matrix (10 bits and a
// sign become at most 12), the results are four times the sums. 16 products for 36; weights take 3.6 times the room, so
// there must be pixels to use them on. Packed: [panel][16][step][lane][2] s16.
QR_SHAPE bool winograd_int(const ConvInt &p, std::int32_t lanes, std::int32_t elements) noexcept {
  const Window &w = p.window;
  return w.kh == 3 && w.kw == 3 && w.sh == 1 && w.sw == 1 && w.dh == 1 && w.dw == 1 && p.groups == 1 &&
         p.x.dtype < kU16 && p.y.dtype != kI32 && p.w_bits == 8 && elements == 2 && p.ic % (2 * lanes) == 0 &&
         p.ic <= 1024 && p.oc >= 16 && std::int64_t{w.n} * w.oh * w.ow >= 144;
}
struct WinogradInt {
  std::int64_t tile_rows, tile_columns, tiles;
  std::int64_t block;                                  // tiles
  std::int64_t inputs, products, sums, border, bytes;  // of scratch: where each part begins, the whole
};
QR_SHAPE WinogradInt winograd_int_blocks(const ConvInt &p, std::int32_t panel) noexcept {
  WinogradInt s{};
  s.tile_rows = (p.window.oh + 1) / 2;
  s.tile_columns = (p.window.ow + 1) / 2;
  s.tiles = p.window.n * s.tile_rows * s.tile_columns;
  std::int64_t most = (224 << 10) / (std::int64_t{p.ic} * 32) / kIntRows * kIntRows;
  if (most < 2 * kIntRows) most = 2 * kIntRows;
  if (most > 48) most = 48;
  const std::int64_t blocks = (s.tiles + most - 1) / most;
  s.block = (s.tiles + blocks - 1) / blocks;
  s.products = s.block * 16 * p.ic * 2;
  s.sums = s.products + s.block * 16 * panel * 4;
  s.border = s.sums + s.block * 4 * panel * 8;
  s.bytes = (s.border + p.ic + 63) / 64 * 64;
  return s;
}

// Whether byte pairs may be tried; whether they can be exact depends on the weights.
QR_SHAPE bool byte_pairs_possible(const ConvInt &p, std::int32_t lanes, std::int32_t int_group,
                                  bool byte_pairs) noexcept {
  return byte_pairs && int_group == 2 && p.groups == 1 && p.x.dtype < kU16 && p.w_bits == 8 &&
         !winograd_int(p, lanes, 2) && std::int64_t{p.window.kh} * p.window.kw * p.ic <= kPairKMost;
}

QR_SHAPE ConvIntShape conv_int_shape(const ConvInt &p, std::int32_t lanes, std::int32_t panel_vectors,
                                     std::int32_t int_group) noexcept {
  ConvIntShape s{};
  const bool x16 = p.x.dtype >= kU16;
  s.depthwise = p.groups > 1 && p.groups == p.ic && p.groups == p.oc;
  s.lanes = lanes;
  s.panel = lanes * panel_vectors;
  s.group_ic = p.ic / p.groups;
  s.group_oc = p.oc / p.groups;
  s.taps = std::int64_t{p.window.kh} * p.window.kw;
  s.k = s.taps * s.group_ic;
  s.pair_panels = p.form == IntForm::BytePairs1 ? 1 : p.form == IntForm::BytePairs2 ? 2 : 0;
  s.byte_pairs = s.pair_panels != 0;
  s.elements = !s.depthwise && !x16 && p.w_bits == 8 && (int_group == 4 || s.byte_pairs) ? 4 : 2;
  s.weight_bytes = s.depthwise || p.w_bits > 8 ? 2 : 1;
  s.parts = !s.depthwise && (p.w_bits > 16 || (x16 && p.w_bits > 12)) ? 2 : 1;
  s.steps = s.byte_pairs ? (s.k + kPairBytes - 1) / kPairBytes * (kPairBytes / 4) : (s.k + s.elements - 1) / s.elements;
  // A step of two is at most 2 * 2^8 * 2^(w_bits - 1) for bytes, 2 * 2^15 * 2^(w_bits - 1) for words, one of four twice
  // that; 2^31 must not be reached.
  const std::int32_t product_bits =
      (x16 ? 15 : 8) + (s.parts == 2 ? 9 : static_cast<std::int32_t>(p.w_bits)) - 1 + s.elements / 2;
  s.flush_steps = (std::int64_t{1} << (31 - product_bits)) - 1;
  if (s.flush_steps < 1) s.flush_steps = 1;
  s.zero_shift = x16               ? (p.x.dtype == kU16 ? 32768 : 0)
                 : s.elements == 4 ? (kDotSigned ? (p.x.dtype == kU8 ? 128 : 0) : (p.x.dtype == kI8 ? -128 : 0))
                                   : 0;
  s.winograd = winograd_int(p, lanes, s.elements);
  if (s.winograd) {
    s.weight_bytes = 2;
    s.steps = p.ic / 2;
    s.group_weights = (std::int64_t{p.oc} + lanes - 1) / lanes * lanes * 16 * p.ic * 2;
  } else if (s.depthwise) {
    s.group_weights = (p.oc + lanes - 1) / lanes * ((p.window.kh + 1) / 2) * p.window.kw * lanes * 4;
  } else if (s.byte_pairs) {
    const std::int64_t panels = (s.group_oc + s.panel - 1) / s.panel, group = s.panel * s.pair_panels;
    const std::int64_t head = static_cast<std::int64_t>(sizeof(BytePairHeader)) + s.steps * 4,
                       channel = s.steps * 4 + kPairBytes;
    s.pair_group_bytes = (head + group * channel + 63) / 64 * 64;
    s.group_weights = (panels + s.pair_panels - 1) / s.pair_panels * s.pair_group_bytes;
  } else {
    s.group_weights = (s.group_oc + lanes - 1) / lanes * lanes * s.steps * s.elements * s.weight_bytes * s.parts;
  }
  s.channels = (static_cast<std::int64_t>(p.oc) + lanes - 1) / lanes * lanes + lanes;
  std::int64_t block = int_block_bytes(lanes) / (s.steps * 4) / kIntRows * kIntRows;
  if (block < 2 * kIntRows) block = 2 * kIntRows;
  s.block = static_cast<std::int32_t>(block > kIntBlockMost ? kIntBlockMost : block);
  s.shuffled = (s.block * s.steps * 4 + kGatherSlack + 63) / 64 * 64;
  s.sums = s.shuffled + (s.byte_pairs ? (s.block * (s.steps * 4 + kPairBytes) + 63) / 64 * 64 : 0);
  s.scratch = s.sums + std::int64_t{s.block} * s.panel * 8;
  return s;
}

QR_SHAPE bool sums_are_wide(const ConvIntShape &s, const void *packed_bias) noexcept {
  return static_cast<const std::int32_t *>(packed_bias)[s.channels - 1] != 0;
}
QR_SHAPE const double *wide_bias(const ConvIntShape &s, const void *packed_bias) noexcept {
  return reinterpret_cast<const double *>(static_cast<const std::int32_t *>(packed_bias) + s.channels);
}

// Depthwise, by strips: some rows of output together, some channels of them; the rows of input that they see lie in
// scratch as pairs of s16.
struct DepthwiseStrip {
  std::int32_t rows;     // of output, together: they share what lies in scratch
  std::int64_t pairs;    // of rows of input
  std::int64_t columns;  // of input, seen by a piece of output
  std::int32_t outputs;  // of a piece
  std::int32_t vectors;  // of channels
  std::int64_t bytes;    // of scratch
};
QR_SHAPE DepthwiseStrip depthwise_strip(const ConvInt &p, std::int32_t lanes) noexcept {
  const Window &w = p.window;
  DepthwiseStrip s{};
  // A row of output that starts at an odd row of input sees it through weights shifted by a row, for which an even
  // window has no room.
  s.rows = w.dh != 1 || w.sh > 2 || (w.sh == 1 && w.kh % 2 == 0) ? 1 : w.oh < 4 ? w.oh : 4;
  s.pairs = ((s.rows - 1) * w.sh + w.kh + 1) / 2;
  const std::int64_t vectors = (p.oc + lanes - 1) / lanes, line = 64 / (lanes * quant_bytes(p.x.dtype));
  const std::int64_t wanted = vectors < line ? vectors
                              : line < 2     ? 2
                                         : line;  // whole lines of cache are read, so all of what is in them is used
  const auto columns_of = [&](std::int64_t outputs) {
    return (outputs - 1) * w.sw + std::int64_t{w.kw - 1} * w.dw + 1;
  };
  constexpr std::int64_t kRoom = 32 << 10;
  std::int64_t pieces = (std::int64_t{w.ow} + 255) / 256;
  while (w.ow / pieces >= 16 && columns_of((w.ow + pieces - 1) / pieces) * s.pairs * lanes * 4 * wanted > kRoom)
    ++pieces;
  s.outputs = static_cast<std::int32_t>((w.ow + pieces - 1) / pieces);
  s.columns = columns_of(s.outputs);
  const std::int64_t vector_bytes = s.columns * s.pairs * lanes * 4;
  std::int64_t fit = kRoom / vector_bytes / 2 * 2;
  if (fit < 2) fit = 2;
  if (fit > wanted) fit = fit / wanted * wanted;
  if (fit > vectors) fit = vectors;
  s.vectors = static_cast<std::int32_t>(fit);
  s.bytes = (vector_bytes * fit + 63) / 64 * 64;
  return s;
}

}  // namespace quarry::kernels
