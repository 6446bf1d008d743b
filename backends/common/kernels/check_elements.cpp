// SPDX-License-Identifier: Apache-2.0
#include "backends/common/kernels/check.h"
#include "backends/common/kernels/elements_shape.h"
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

}  // namespace quarry::kernels
