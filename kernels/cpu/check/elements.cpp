// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"
#include "kernels/cpu/check/check.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/shapes/elements_shape.h"
#include "kernels/cpu/shapes/matmul_shape.h"

namespace quarry::kernels {

Status check_Elements(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const Elements *>(params);
  if (p.op >= ElementOp::Count)
    return refuse("Elements", "operator", static_cast<std::int64_t>(p.op),
                  format("0 to %d", static_cast<int>(ElementOp::Count) - 1));
  if (p.dtype > 255 || !takes(p.op, static_cast<DType>(p.dtype)))
    return refuse("Elements", "dtype", p.dtype, "one that the operator takes");
  if (p.reserved != 0) return refuse("Elements", "reserved field", p.reserved, "0");
  if (p.rank < 1 || p.rank > kLoopRank) return refuse("Elements", "rank", p.rank, "1 to 6");
  if (p.op == ElementOp::Celu && !(p.a > 0)) return refuse("Elements", "alpha", 0, "more than 0");
  const auto count = element_count(p.dims, p.rank);
  if (!count || *count > kMostElements)
    return refuse("Elements", "elements (first size given)", p.dims[0], "no negative sizes, and at most 2^48 elements");
  const std::uint64_t width = dtype_bits(static_cast<DType>(p.dtype)) / 8;
  for (int i = 0; i < operands_of(p.op); ++i) {
    std::uint64_t extent;
    if (!nest_extent(p.dims, p.x[i], p.rank, &extent))
      return refuse("Elements", "strides of an operand (first given)", p.x[i][0], "0 or more, within 2^48 elements");
    add(needs, *count == 0 ? 0 : extent * (p.op == ElementOp::Select && i == 0 ? 1 : width));
  }
  add(needs, static_cast<std::uint64_t>(*count) * (gives_truth(p.op) ? 1 : width), true);
  return {};
}

Status check_Cumulate(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const Cumulate *>(params);
  switch (static_cast<DType>(p.dtype)) {
    case DType::F32:
    case DType::F64:
    case DType::I32:
    case DType::U32:
    case DType::I64:
    case DType::U64: break;
    default: return refuse("Cumulate", "dtype", p.dtype, "f32, f64, i32, u32, i64 or u64");
  }
  for (const std::uint32_t flag : {p.product, p.exclusive, p.backwards})
    if (flag > 1) return refuse("Cumulate", "flag", flag, "0 or 1");
  const std::int64_t dims[3] = {p.outer, p.n, p.inner};
  const auto count = element_count(dims, 3);
  if (!count || *count > std::int64_t{1} << 48)
    return refuse("Cumulate", "elements (outer size given)", p.outer, "no negative sizes, and at most 2^48 elements");
  const std::uint64_t bytes = static_cast<std::uint64_t>(*count) * dtype_bits(static_cast<DType>(p.dtype)) / 8;
  add(needs, bytes), add(needs, bytes, true);
  return {};
}

Status check_RandomF32(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const RandomF32 *>(params);
  if (p.count < 0 || p.count > std::int64_t{1} << 48) return refuse("RandomF32", "numbers", p.count, "0 to 2^48");
  if (p.normal > 1) return refuse("RandomF32", "normal", p.normal, "0 or 1");
  add(needs, static_cast<std::uint64_t>(p.count) * 4, true);
  return {};
}

Status check_RotaryF32(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "RotaryF32";
  const auto &p = *static_cast<const RotaryF32 *>(params);
  for (const std::uint32_t flag : {p.has_positions, p.interleaved})
    if (flag > 1) return refuse(kName, "flag", flag, "0 or 1");
  for (const std::int64_t extent : {p.batches, p.heads, p.length, p.size, p.half})
    if (extent < 1 || extent > std::int64_t{1} << 32) return refuse(kName, "extent", extent, "1 to 2^32");
  for (const NumberType type : {p.x_type, p.y_type})
    if (type >= NumberType::Count)
      return refuse(kName, "type of an operand", static_cast<std::int64_t>(type), "0 to 2 (f32, f16, bf16)");
  if (p.half > p.size / 2) return refuse(kName, "pairs that are turned", p.half, "at most half of a row");
  if (p.has_positions ? p.positions < 1 || p.positions > std::int64_t{1} << 40 : p.positions != 0)
    return refuse(kName, "positions", p.positions, "1 to 2^40, or 0 where none are given");
  const std::int64_t dims[4] = {p.batches, p.heads, p.length, p.size}, x[4] = {p.x[0], p.x[1], p.x[2], 1},
                     y[4] = {p.y[0], p.y[1], p.y[2], 1};
  const std::int64_t table[2] = {p.positions, p.half}, own[3] = {p.batches, p.length, p.half};
  std::uint64_t from, to;
  if (!nest_extent(dims, x, 4, &from) || !nest_extent(dims, y, 4, &to))
    return refuse(kName, "strides (of x, between rows)", p.x[2], "0 or more, within 2^48 elements");
  // Rows of y over each other would be written by several threads.
  for (int i = 0; i < 3; ++i)
    if (dims[i] > 1 && p.y[i] < p.size) return refuse(kName, "stride of y", p.y[i], "a row or more");
  const auto angles = p.has_positions ? element_count(table, 2) : element_count(own, 3);
  if (!angles || *angles > std::int64_t{1} << 48)
    return refuse(kName, "angles (pairs given)", p.half, "at most 2^48 of them");
  const std::uint64_t bytes = static_cast<std::uint64_t>(*angles) * 4;
  const auto width = [](NumberType type) { return type == NumberType::F32 ? 4u : 2u; };
  add(needs, from * width(p.x_type)), add(needs, bytes), add(needs, bytes);
  if (p.has_positions) add(needs, static_cast<std::uint64_t>(p.batches) * static_cast<std::uint64_t>(p.length) * 8);
  add(needs, to * width(p.y_type), true);
  if (p.x_type != NumberType::F32 || p.y_type != NumberType::F32)
    needs.scratch_bytes = (static_cast<std::uint64_t>(rotary_floats(p)) * 4 + 63) / 64 * 64;
  return {};
}

namespace {

Status add_blocks(const char *kName, const MatMulBlocks &p, Needs &needs) {
  if (p.bits != 2 && p.bits != 4 && p.bits != 8) return refuse(kName, "bits of a weight", p.bits, "2, 4 or 8");
  if (p.block < 16 || p.block > kMostBlock || (p.block & (p.block - 1)) != 0)
    return refuse(kName, "weights of a block", p.block, format("a power of two, 16 to %u", kMostBlock));
  if (p.zeros >= BlockZeros::Count) return refuse(kName, "zeros", static_cast<std::int64_t>(p.zeros), "0 to 2");
  if (p.has_bias > 1) return refuse(kName, "has_bias", p.has_bias, "0 or 1");
  for (const std::int64_t extent : {p.m, p.n, p.k})
    if (extent < 1 || extent > 1 << 24) return refuse(kName, "extent", extent, "1 to 2^24");
  const std::uint64_t m = static_cast<std::uint64_t>(p.m), n = static_cast<std::uint64_t>(p.n),
                      k = static_cast<std::uint64_t>(p.k), blocks = (k + p.block - 1) / p.block;
  add(needs, m * k * 4);
  add(needs, n * blocks * (p.block * p.bits / 8));
  add(needs, n * blocks * 4);
  if (p.zeros == BlockZeros::Packed) add(needs, n * ((blocks * p.bits + 7) / 8));
  if (p.zeros == BlockZeros::F32) add(needs, n * blocks * 4);
  if (p.has_bias) add(needs, n * 4);
  add(needs, m * n * 4, true);
  return {};
}

}  // namespace

Status check_MatMulBlocks(const void *params, const Isa &isa, Needs &needs) {
  const auto &p = *static_cast<const MatMulBlocks *>(params);
  QR_RETURN_IF_ERROR(add_blocks("MatMulBlocks", p, needs));
  needs.scratch_bytes = panel_scratch(p, std::int64_t{isa.f32_lanes} * isa.f32_panel);
  if (needs.scratch_bytes > 0) return {};
  // x in the order of the weights' parts, in whole vectors of dwords, and a start for each dword; and the sums of its
  // blocks.
  const std::uint64_t m = static_cast<std::uint64_t>(p.m), k = static_cast<std::uint64_t>(p.k),
                      blocks = (k + p.block - 1) / p.block,
                      vector = 32 / p.bits * static_cast<std::uint64_t>(isa.f32_lanes),
                      vectors = (blocks * p.block + vector - 1) / vector, depth = vectors * (vector + isa.f32_lanes);
  needs.shared_bytes = (m * (depth + blocks) * 4 + 63) / 64 * 64;
  return {};
}

Status check_MatMulBlocksBytes(const void *params, const Isa &isa, Needs &needs) {
  const auto &p = *static_cast<const MatMulBlocks *>(params);
  QR_RETURN_IF_ERROR(add_blocks("MatMulBlocksBytes", p, needs));
  const bool panels = in_byte_panels(p, isa.byte_pairs, isa.int_group);
  if (panels) needs.scratch_bytes = byte_panel_scratch(p, std::int64_t{isa.f32_lanes} * isa.f32_panel);
  const BlockBytesShape x = block_bytes_shape(p, isa.f32_lanes, panels);
  needs.shared_bytes =
      static_cast<std::uint64_t>((p.m * (x.codes + 4 * (x.scales + x.starts + x.sums)) + 63) / 64 * 64);  // below 2^52
  return {};
}

Status check_LinearAttentionF32(const void *params, const Isa &isa, Needs &needs) {
  constexpr const char *kName = "LinearAttentionF32";
  const auto &p = *static_cast<const LinearAttentionF32 *>(params);
  if (p.decay >= LinearDecay::Count || p.rate >= LinearRate::Count)
    return refuse(kName, "decay or rate", static_cast<std::int64_t>(p.decay), "0 to 2");
  for (const std::uint32_t flag : {p.has_past, p.has_present})
    if (flag > 1) return refuse(kName, "flag", flag, "0 or 1");
  if (p.reserved != 0) return refuse(kName, "reserved field", p.reserved, "0");
  for (const std::int64_t extent : {p.batches, p.length, p.q_heads, p.heads, p.d_k, p.d_v})
    if (extent < 1 || extent > 1 << 20) return refuse(kName, "extent", extent, "1 to 2^20");
  if (p.q_heads % p.heads != 0) return refuse(kName, "query heads", p.q_heads, "groups for the key heads");
  bool fits = true;
  const auto bytes = [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    const std::int64_t dims[4] = {a, b, c, d};
    const auto count = element_count(dims, 4);
    fits &= count && *count <= std::int64_t{1} << 46;
    return count ? static_cast<std::uint64_t>(*count) * 4 : 0;
  };
  const std::uint64_t state = bytes(p.batches, p.heads, p.d_k, p.d_v);
  add(needs, bytes(p.batches, p.length, p.q_heads, p.d_k));
  add(needs, bytes(p.batches, p.length, p.heads, p.d_k));
  add(needs, bytes(p.batches, p.length, p.heads, p.d_v));
  if (p.has_past) add(needs, state);
  if (p.decay != LinearDecay::None)
    add(needs, bytes(p.batches, p.length, p.heads, p.decay == LinearDecay::Key ? p.d_k : 1));
  if (p.rate != LinearRate::None) add(needs, bytes(p.batches, p.length, p.rate == LinearRate::Head ? p.heads : 1, 1));
  add(needs, bytes(p.batches, p.length, p.q_heads, p.d_v), true);
  if (p.has_present) add(needs, state, true);
  if (!fits) return refuse(kName, "sizes (batches given)", p.batches, "at most 2^46 elements");
  // Four vectors of columns of the state, and a factor for each key.
  const auto keys = static_cast<std::uint64_t>(p.d_k), lanes = std::uint64_t{isa.f32_lanes};
  needs.scratch_bytes = (keys * 4 * lanes * 4 + (keys + lanes) * 4 + 63) / 64 * 64;
  return {};
}

}  // namespace quarry::kernels
