// SPDX-License-Identifier: Apache-2.0
// Quantised operators in integers. What is not done here was dequantised by rewrite.h before.
#include <algorithm>
#include <cmath>

#include "backends/cpu-reference/interpreter.h"
#include "backends/cpu/lower/rules.h"
#include "backends/cpu/lower/quantized_nodes.h"
#include "kernels/cpu/pack/pack.h"

namespace quarry::cpu {

using kernels::BinaryOp;
using kernels::Kernel;
using qir::Op;

kernels::Quant quant_of(const qir::Tensor &tensor) {
  return {static_cast<std::uint32_t>(tensor.dtype), tensor.quant->zero_points[0], tensor.quant->scales[0], 0};
}

Limits limits_of(DType dtype) {
  const qir::IntegerRange range = qir::integer_range(dtype);
  return {narrow(range.low), narrow(range.high)};
}

bool requantizable(const Lowering &l, std::int32_t from, std::int32_t to) {
  return quantized_activation(l.tensor(from)) && quantized_activation(l.tensor(to));
}

Status requantized(Lowering &l, std::int32_t from, std::int32_t to, View *out) {
  const View x = l.dense(from);
  *out = l.new_like(x, l.width(to));
  const Limits range = limits_of(l.tensor(to).dtype);
  const kernels::Requantize p{count_of(x.dims), quant_of(l.tensor(from)), quant_of(l.tensor(to)), range.low,
                              range.high};
  return l.emit_step(Kernel::Requantize, p, {arg(x, l.width(from)), arg(*out, l.width(to))});
}

// Addition, subtraction, multiplication.
Result<Lowered> lower_binary_int(Lowering &l, const qir::Node &node) {
  if (!runs_in_integers(l.graph(), node)) return Lowered::NotMine;
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1], yi = node.outputs[0];
  const auto nest = l.match_nest(l.tensor(yi).shape, node.inputs);
  if (!nest) return Lowered::NotMine;
  const View y = l.elementwise_output(l.tensor(yi).shape, node.inputs, l.width(yi));
  const View a = l.beside(ai, y), b = l.beside(bi, y);
  l.define(yi, y);
  kernels::BinaryInt p;
  p.op = node.op == Op::Add ? BinaryOp::Add : node.op == Op::Sub ? BinaryOp::Sub : BinaryOp::Mul;
  set_nest(*nest, &p.rank, p.dims, p.a, p.b);
  const Limits limits = limits_of(l.tensor(yi).dtype);
  p.qa = quant_of(l.tensor(ai)), p.qb = quant_of(l.tensor(bi)), p.qy = quant_of(l.tensor(yi));
  p.lo = limits.low, p.hi = limits.high;
  return l.finish_step(Kernel::BinaryInt, p, {arg(a, l.width(ai)), arg(b, l.width(bi)), arg(y, l.width(yi))});
}

Result<Lowered> lower_pool_int(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  kernels::PoolInt p;
  if (!runs_in_integers(l.graph(), node) || !pool_window(l, node, &p.window, &p.pad_bottom, &p.pad_right, &p.op))
    return Lowered::NotMine;
  p.x = quant_of(l.tensor(xi)), p.y = quant_of(l.tensor(yi));
  return emit_pool_int(l, node, p);
}

// GlobalAveragePool: as it lies; images that lie otherwise are brought into the order of their neighbours.
Result<Lowered> lower_mean_int(Lowering &l, const qir::Node &node) {
  if (!runs_in_integers(l.graph(), node)) return Lowered::NotMine;
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const View first = l.any(xi);
  std::int64_t pixel;
  const bool planes = is_row_major(first) && !is_channels_last(first, &pixel);
  const View x = planes ? first : l.channels_last(xi, true);
  kernels::MeanInt p;
  p.outer = x.dims[0] * (planes ? x.dims[1] : 1), p.inner = planes ? 1 : x.dims[1];
  p.reduced = count_of(x.dims) / (x.dims[0] * x.dims[1]);
  p.x = quant_of(l.tensor(xi)), p.y = quant_of(l.tensor(yi));
  const View y = l.new_row_major(l.tensor(yi).shape, l.width(yi));
  l.define(yi, y);
  return l.finish_step(Kernel::MeanInt, p, {arg(x, l.width(xi)), arg(y, l.width(yi))});
}

// A function of one byte, as a table: cpu-reference computes what it gives for each.
Result<Lowered> lower_byte_function(Lowering &l, const qir::Node &node) {
  if (!byte_function(l.graph(), node)) return Lowered::NotMine;
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const qir::Tensor &x = l.tensor(xi), &y = l.tensor(yi);
  Vector<std::uint8_t> all(256);
  for (std::size_t i = 0; i < 256; ++i) all[i] = static_cast<std::uint8_t>(i);
  Vector<reference::ConstView> inputs{{true, x.dtype, {256}, &x.quant, all.data()}};
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == qir::kAbsent) {
      inputs.push_back({});
      continue;
    }
    const qir::Tensor &other = l.tensor(node.inputs[i]);
    inputs.push_back({true, other.dtype, other.shape, &other.quant, other.data.data});
  }
  const Vector<reference::OutputType> types{{y.dtype, y.quant}};
  Vector<reference::OwnedTensor> results;
  QR_RETURN_IF_ERROR(reference::run_node(node, inputs, results, &types));
  const View from = l.dense(xi), to = l.new_like(from, 1);
  l.define(yi, to);
  return l.finish_step(Kernel::Lookup8, kernels::Lookup8{count_of(from.dims)},
                       {arg(from, 1), arg(l.own_constant(std::move(results[0].data))), arg(to, 1)});
}

}  // namespace quarry::cpu
