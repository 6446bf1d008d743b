// SPDX-License-Identifier: Apache-2.0
#include "backends/common/kernels/check.h"
#include "backends/common/kernels/elements_shape.h"
#include "backends/common/kernels/isa.h"
#include "base/checked.h"

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
  constexpr std::int64_t kMostElements = std::int64_t{1} << 48;
  const auto count = element_count(p.dims, p.rank);
  if (!count || *count > kMostElements)
    return refuse("Elements", "elements (first extent given)", p.dims[0],
                  "no negative extents, and at most 2^48 elements");
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
    return refuse("Cumulate", "elements (outer extent given)", p.outer,
                  "no negative extents, and at most 2^48 elements");
  const std::uint64_t bytes = static_cast<std::uint64_t>(*count) * dtype_bits(static_cast<DType>(p.dtype)) / 8;
  add(needs, bytes), add(needs, bytes, true);
  return {};
}

Status check_MatMulBlocks(const void *params, const Isa &isa, Needs &needs) {
  constexpr const char *kName = "MatMulBlocks";
  const auto &p = *static_cast<const MatMulBlocks *>(params);
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
  // x in the order of the weights' parts, in whole vectors of dwords; and the sums of its blocks.
  const std::uint64_t vector = 32 / p.bits * static_cast<std::uint64_t>(isa.f32_lanes),
                      depth = (blocks * p.block + vector - 1) / vector * vector;
  needs.shared_bytes = (m * (depth + blocks) * 4 + 63) / 64 * 64;
  return {};
}

}  // namespace quarry::kernels
