// SPDX-License-Identifier: Apache-2.0
// Operators along an axis: sums and products so far, softmax, reductions.
#include <algorithm>
#include <cmath>

#include "backends/cpu/lower/rules.h"
#include "kernels/cpu/shapes/elements_shape.h"

namespace quarry::cpu {

using kernels::Kernel;
using kernels::ReduceOp;
using qir::Op;

// CumSum, CumProd.
Result<Lowered> lower_cumulate(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const DType dtype = l.tensor(xi).dtype;
  const auto axis_given = l.integers(l.input(node, 1));
  if (!axis_given || axis_given->size() != 1 || l.tensor(xi).quant || l.tensor(yi).quant || l.tensor(yi).dtype != dtype)
    return Lowered::NotMine;
  std::size_t axis;
  const qir::Shape &shape = l.tensor(xi).shape;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, (*axis_given)[0], shape.size(), &axis));
  kernels::Cumulate p;
  p.n = shape[axis];
  for (std::size_t d = 0; d < axis; ++d) p.outer *= shape[d];
  for (std::size_t d = axis + 1; d < shape.size(); ++d) p.inner *= shape[d];
  p.dtype = static_cast<std::uint32_t>(dtype), p.product = node.op == Op::CumProd;
  p.exclusive = node.get_int("exclusive", 0) != 0, p.backwards = node.get_int("reverse", 0) != 0;
  if (!l.takes(Kernel::Cumulate, &p)) return Lowered::NotMine;
  const View x = l.row_major(xi), y = l.new_row_major(shape, l.width(xi));
  l.define(yi, y);
  return l.finish_step(Kernel::Cumulate, p, {arg(x, l.width(xi)), arg(y, l.width(xi))});
}

std::optional<ReduceOp> reduction_of(Op op) noexcept {
  switch (op) {
    case Op::ReduceSum: return ReduceOp::Sum;
    case Op::ReduceMean:
    case Op::GlobalAveragePool: return ReduceOp::Mean;
    case Op::ReduceMax:
    case Op::GlobalMaxPool: return ReduceOp::Max;
    case Op::ReduceMin: return ReduceOp::Min;
    case Op::ReduceProd: return ReduceOp::Prod;
    case Op::ReduceL1: return ReduceOp::L1;
    case Op::ReduceL2: return ReduceOp::L2;
    case Op::ReduceSumSquare: return ReduceOp::SumSquare;
    case Op::ReduceLogSum: return ReduceOp::Sum;  // and the logarithm of it
    case Op::ReduceLogSumExp: return ReduceOp::LogSumExp;
    default: return std::nullopt;
  }
}

namespace {

// The axes that go must lie side by side in memory: what is outside, among and inside them.
bool adjacent(const View &x, const bool *reduced, kernels::ReduceF32 *p) {
  p->outer = p->reduced = p->inner = 1;
  enum { Outside, Among, Inside } stage = Outside;
  for (const std::size_t d : memory_order(x)) {
    if (x.dims[d] == 1) continue;
    if (reduced[d]) {
      if (stage == Inside) return false;
      stage = Among;
      p->reduced *= x.dims[d];
    } else {
      if (stage == Among) stage = Inside;
      (stage == Outside ? p->outer : p->inner) *= x.dims[d];
    }
  }
  return true;
}

}  // namespace

// Softmax, LogSoftmax, Hardmax.
Result<Lowered> lower_softmax(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const DType dtype = l.tensor(xi).dtype;
  if ((dtype != DType::F32 && dtype != DType::F64) || l.tensor(yi).dtype != dtype || l.tensor(xi).quant ||
      l.tensor(yi).quant)
    return Lowered::NotMine;
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", -1), l.tensor(xi).shape.size(), &axis));
  if (node.op == Op::Hardmax && l.tensor(xi).shape[axis] > INT32_MAX) return Lowered::NotMine;
  const View x = l.dense(xi);
  std::int64_t outer = 1, inner = 1;
  const std::int64_t n = x.dims[axis];
  bool before = true;
  for (const std::size_t d : memory_order(x)) {
    if (d == axis) before = false;
    else (before ? outer : inner) *= x.dims[d];
  }
  const View y = l.new_like(x, l.width(xi));
  l.define(yi, y);
  const std::uint32_t log = node.op == Op::LogSoftmax;
  if (node.op == Op::Hardmax)
    return l.finish_step(Kernel::Hardmax, kernels::Hardmax{outer, n, inner, static_cast<std::uint32_t>(dtype), 0},
                         {arg(x, l.width(xi)), arg(y, l.width(xi))});
  if (dtype == DType::F64)
    return l.finish_step(Kernel::SoftmaxF64, kernels::SoftmaxF64{outer, n, inner, log, 0}, {arg(x, 8), arg(y, 8)});
  return l.finish_step(Kernel::SoftmaxF32, kernels::SoftmaxF32{outer, n, inner, 1, log}, {arg(x), arg(y)});
}

Result<Lowered> lower_reduce(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  const auto op = reduction_of(node.op);
  const std::int32_t xi = node.inputs[0];
  const DType dtype = l.tensor(xi).dtype;
  if (!op || l.tensor(xi).quant || l.tensor(group.output).quant || l.tensor(group.output).dtype != dtype ||
      (dtype != DType::F32 && !kernels::takes(*op, dtype)))
    return Lowered::NotMine;
  bool reduced[qir::kMaxRank] = {};
  const std::size_t rank = l.tensor(xi).shape.size();
  bool keep = true;
  if (node.op == Op::GlobalAveragePool || node.op == Op::GlobalMaxPool) {
    for (std::size_t d = 2; d < rank; ++d) reduced[d] = true;
  } else {
    Vector<std::int64_t> axes;
    if (const std::int32_t list = l.input(node, 1); list != qir::kAbsent) {
      const auto values = l.integers(list);
      if (!values) return Lowered::NotMine;
      axes = *values;
    }
    QR_RETURN_IF_ERROR(qir::resolve_reduce(node, axes, rank, &reduced));
    keep = node.get_int("keepdims", 1) != 0;
  }
  kernels::ReduceF32 p;
  const bool as_it_is = adjacent(l.dense_layout(xi), reduced, &p);
  if (!as_it_is && !adjacent({kNoValue, 0, l.tensor(xi).shape, cpu::row_major(l.tensor(xi).shape)}, reduced, &p))
    return Lowered::NotMine;
  const View x = as_it_is ? l.dense(xi) : l.row_major(xi);
  p.op = *op;
  p.act = group.act;
  if (node.op == Op::ReduceLogSum) p.act = {kernels::Act::Log, 0, 0, 0};
  View kept = x;
  for (std::size_t d = 0; d < rank; ++d)
    if (reduced[d]) kept.dims[d] = 1;
  View y = l.new_like(kept, l.width(xi));
  View written = y;
  if (!keep) {
    for (std::size_t d = rank; d-- > 0;) {
      if (!reduced[d]) continue;
      y.dims.erase(y.dims.begin() + static_cast<std::ptrdiff_t>(d));
      y.strides.erase(y.strides.begin() + static_cast<std::ptrdiff_t>(d));
    }
  }
  if (dtype == DType::F32) {
    l.define(group.output, y);
    return l.finish_step(Kernel::ReduceF32, p, {arg(x), arg(written)});
  }
  const kernels::Reduce wide{p.outer, p.reduced, p.inner, p.op, static_cast<std::uint32_t>(dtype)};
  QR_RETURN_IF_ERROR(l.emit_step(Kernel::Reduce, wide, {arg(x, l.width(xi)), arg(written, l.width(xi))}));
  if (node.op == Op::ReduceLogSum) {
    const View sums = written;
    written = l.new_like(kept, 8);
    y.value = written.value;
    QR_RETURN_IF_ERROR(l.emit_step(Kernel::UnaryF64, kernels::UnaryF64{count_of(kept.dims), kernels::Act::Log, 0, 0, 0},
                                   {arg(sums, 8), arg(written, 8)}));
  }
  l.define(group.output, y);
  return Lowered::Done;
}

}  // namespace quarry::cpu
