// SPDX-License-Identifier: Apache-2.0
// Quantisation and dequantisation.
#include <algorithm>
#include <cmath>

#include "backends/cpu/lower/quantized_nodes.h"
#include "backends/cpu/lower/rules.h"

namespace quarry::cpu {

using kernels::Kernel;
using kernels::Quant;
using qir::Op;

namespace {

// Scales and zero points along an axis, of blocks, or not known before the run; dequantised integers of 32 bits.
Result<Lowered> lower_quantize_rows(Lowering &l, const qir::Node &node) {
  const bool to_int = node.op == Op::QuantizeLinear;
  const std::int32_t xi = node.inputs[0], si = node.inputs[1], yi = node.outputs[0], integer = to_int ? yi : xi;
  std::int32_t zi = l.input(node, 2);
  const DType dtype = l.tensor(integer).dtype;
  if (!l.is_f32(si)) return Lowered::NotMine;
  if (zi != qir::kAbsent && (l.tensor(zi).dtype != dtype || l.tensor(zi).shape != l.tensor(si).shape))
    return Lowered::NotMine;
  if (zi != qir::kAbsent && dtype == DType::I32 && l.constant(zi)) {
    const auto zeros = qir::stored_integers(l.tensor(zi), static_cast<std::uint64_t>(count_of(l.tensor(zi).shape)));
    if (std::ranges::all_of(zeros, [](std::int32_t zero) { return zero == 0; })) zi = qir::kAbsent;
  }
  const qir::Shape &shape = l.tensor(xi).shape;
  const std::int64_t block = node.get_int("block_size", 0), scales = count_of(l.tensor(si).shape);
  kernels::QuantizeRows p;
  p.dtype = static_cast<std::uint32_t>(dtype), p.has_zeros = zi != qir::kAbsent;
  if (scales == 1 && block == 0) {
    p.rows = 1, p.length = count_of(shape);
  } else {
    std::size_t axis;
    QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 1), shape.size(), &axis));
    const std::int64_t n = shape[axis];
    std::int64_t outer = 1, inner = 1;
    for (std::size_t d = 0; d < axis; ++d) outer *= shape[d];
    for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
    if (block < 0 || (block != 0 && n % block != 0)) return Lowered::NotMine;
    if (block == 0 && inner == 1) p.rows = outer, p.length = n, p.repeat = outer, p.each = 1;
    else if (block == 0) p.rows = outer * n, p.length = inner, p.groups = n;
    else if (inner == 1) p.rows = p.groups = outer * (n / block), p.length = block;
    else p.rows = outer * n, p.length = inner, p.repeat = block, p.groups = outer * (n / block), p.each = 1;
  }
  if (scales != p.groups * (p.each ? p.length : 1)) return Lowered::NotMine;  // cpu-reference says what is wrong
  const Kernel kernel = to_int ? Kernel::QuantizeRows : Kernel::DequantizeRows;
  if (!l.takes(kernel, &p)) return Lowered::NotMine;
  const View x = l.row_major(xi), scale = l.row_major(si), zeros = p.has_zeros ? l.row_major(zi) : View{},
             y = l.new_row_major(shape, l.width(yi));
  l.define(yi, y);
  Vector<Arg> args{arg(x, l.width(xi)), arg(scale)};
  if (p.has_zeros) args.push_back(arg(zeros, l.width(zi)));
  args.push_back(arg(y, l.width(yi)));
  return l.finish(kernel, &p, args);
}

}  // namespace

Result<Lowered> lower_quantize(Lowering &l, const qir::Node &node) {
  const bool to_int = node.op == Op::QuantizeLinear;
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0], integer = to_int ? yi : xi, real = to_int ? xi : yi;
  const auto scale = l.scalar(node.inputs[1]);
  const std::int64_t precision = node.get_int("precision", 0);  // of the quotient
  if (!l.is_f32(real) || (precision != 0 && precision != static_cast<std::int64_t>(DType::F32)))
    return Lowered::NotMine;
  // Any other scale is cpu-reference's to give meaning to, and only rows divide by what they are given.
  if (!scale || !(*scale > 0) || !std::isfinite(*scale) || !integer_dtype(l.tensor(integer).dtype) ||
      node.get_int("block_size", 0) != 0)
    return lower_quantize_rows(l, node);
  Quant q{static_cast<std::uint32_t>(l.tensor(integer).dtype), 0, *scale, 0};
  if (const std::int32_t zero = l.input(node, 2); zero != qir::kAbsent) {
    if (!l.constant(zero)) return lower_quantize_rows(l, node);
    if (count_of(l.tensor(zero).shape) != 1 || l.tensor(zero).dtype != l.tensor(integer).dtype) return Lowered::NotMine;
    q.zero = narrow(qir::stored_integer(l.tensor(zero).dtype, l.tensor(zero).data.data, 0));
  }
  const View x = l.dense(xi), y = l.new_like(x, l.width(yi));
  l.define(yi, y);
  if (to_int)
    return l.finish_step(Kernel::Quantize, kernels::Quantize{count_of(x.dims), q},
                         {arg(x, l.width(xi)), arg(y, l.width(yi))});
  return l.finish_step(Kernel::Dequantize, kernels::Dequantize{count_of(x.dims), q},
                       {arg(x, l.width(xi)), arg(y, l.width(yi))});
}

Result<Lowered> lower_dynamic_quantize(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0];
  if (!l.is_f32(xi) || node.outputs.size() != 3) return Lowered::NotMine;
  for (const std::int32_t id : node.outputs)
    if (id != qir::kAbsent && l.tensor(id).quant) return Lowered::NotMine;
  const View x = l.dense(xi), y = l.new_like(x, 1), scale = l.new_row_major({}, 4), zero = l.new_row_major({}, 1);
  const View *const made[] = {&y, &scale, &zero};
  for (std::size_t i = 0; i < 3; ++i)
    if (node.outputs[i] != qir::kAbsent) l.define(node.outputs[i], *made[i]);
  return l.finish_step(Kernel::DynamicQuantize, kernels::DynamicQuantize{count_of(x.dims)},
                       {arg(x), arg(y, 1), arg(scale), arg(zero, 1)});
}

}  // namespace quarry::cpu
