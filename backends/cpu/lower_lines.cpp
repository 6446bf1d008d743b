// SPDX-License-Identifier: Apache-2.0
// Operators along lines of a tensor, and products with weights in blocks.
#include <algorithm>

#include "backends/cpu/lowering.h"
#include "formats/qir/infer.h"

namespace quarry::cpu {

using kernels::BinaryOp;
using kernels::Kernel;
using qir::Op;

// CumSum, CumProd.
Status Lowering::lower_cumulate(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const DType dtype = tensor(xi).dtype;
  const auto axis_given = integers(input(node, 1));
  if (!axis_given || axis_given->size() != 1 || tensor(xi).quant || tensor(yi).quant || tensor(yi).dtype != dtype)
    return {};
  std::size_t axis;
  const qir::Shape &shape = tensor(xi).shape;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, (*axis_given)[0], shape.size(), &axis));
  kernels::Cumulate p;
  p.n = shape[axis];
  for (std::size_t d = 0; d < axis; ++d) p.outer *= shape[d];
  for (std::size_t d = axis + 1; d < shape.size(); ++d) p.inner *= shape[d];
  p.dtype = static_cast<std::uint32_t>(dtype), p.product = node.op == Op::CumProd;
  p.exclusive = node.get_int("exclusive", 0) != 0, p.backwards = node.get_int("reverse", 0) != 0;
  kernels::Needs needs;
  if (!kernels::kernel_row(Kernel::Cumulate).check(&p, *plan_.isa, needs).ok()) return {};
  const View x = row_major(xi), y = new_row_major(shape, width(xi));
  define(yi, y);
  *done = true;
  return emit_step(Kernel::Cumulate, p, {arg(x, width(xi)), arg(y, width(xi))});
}

// Weights stay as the file has them.
Status Lowering::lower_matmul_blocks(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1], si = node.inputs[2], zi = input(node, 3),
                     bi = input(node, 5), yi = node.outputs[0];
  if (!is_f32(xi) || !is_f32(yi) || !constant(wi) || tensor(wi).dtype != DType::U8 || !is_f32(si) ||
      input(node, 4) != qir::kAbsent || (bi != qir::kAbsent && !is_f32(bi)))
    return {};
  kernels::MatMulBlocks p;
  p.k = node.get_int("K", 0), p.n = node.get_int("N", 0);
  const std::int64_t bits = node.get_int("bits", 4), block = node.get_int("block_size", 0);
  if (p.k < 1 || p.n < 1 || bits < 2 || bits > 8 || block < 16 || block > kernels::kMostBlock ||
      tensor(xi).shape.empty() || tensor(xi).shape.back() != p.k)
    return {};
  p.m = count_of(tensor(xi).shape) / p.k;
  p.bits = static_cast<std::uint32_t>(bits), p.block = static_cast<std::uint32_t>(block);
  if (zi != qir::kAbsent) {
    if (tensor(zi).dtype == DType::U8) p.zeros = kernels::BlockZeros::Packed;
    else if (is_f32(zi)) p.zeros = kernels::BlockZeros::F32;
    else return {};
  }
  p.has_bias = bi != qir::kAbsent;
  kernels::Needs needs;
  if (!kernels::kernel_row(Kernel::MatMulBlocks).check(&p, *plan_.isa, needs).ok()) return {};
  const std::int32_t operands[] = {xi, wi, si, zi, bi};
  Vector<View> views;
  Vector<std::uint64_t> widths;
  for (const std::int32_t id : operands) {
    if (id == qir::kAbsent) continue;
    const std::uint64_t bytes = static_cast<std::uint64_t>(count_of(tensor(id).shape)) * width(id);
    if (bytes != needs.operand_bytes[views.size()]) return {};  // cpu-reference says what is wrong
    views.push_back(row_major(id));
    widths.push_back(width(id));
  }
  const View y = new_row_major(tensor(yi).shape, 4);
  define(yi, y);
  Vector<Arg> args;
  for (std::size_t i = 0; i < views.size(); ++i) args.push_back(arg(views[i], widths[i]));
  args.push_back(arg(y));
  *done = true;
  return emit(Kernel::MatMulBlocks, &p, args);
}

}  // namespace quarry::cpu
