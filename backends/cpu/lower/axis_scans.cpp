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

// Neighbours in memory of which all go, or all stay.
struct AxisRun {
  bool goes;
  std::int64_t count;
};
Vector<AxisRun> axis_runs(const View &x, const bool *reduced) {
  Vector<AxisRun> runs;
  for (const std::size_t d : memory_order(x)) {
    if (x.dims[d] == 1) continue;
    if (runs.empty() || runs.back().goes != reduced[d]) runs.push_back({reduced[d], x.dims[d]});
    else runs.back().count *= x.dims[d];
  }
  return runs;
}
std::size_t runs_that_go(const Vector<AxisRun> &runs) {
  return static_cast<std::size_t>(std::ranges::count_if(runs, &AxisRun::goes));
}

// Over one run: what is outside, among and inside it. The longest first: it leaves the least for those that follow.
kernels::ReduceF32 longest_run(const Vector<AxisRun> &runs, std::size_t *at) {
  *at = runs.size();
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (runs[i].goes && (*at == runs.size() || runs[i].count > runs[*at].count)) *at = i;
  kernels::ReduceF32 p;
  p.outer = p.reduced = p.inner = 1;
  for (std::size_t i = 0; i < runs.size(); ++i) (i < *at ? p.outer : i == *at ? p.reduced : p.inner) *= runs[i].count;
  return p;
}

// What reduces the results of a part of the elements; nothing where those leave the range of what all of them have.
std::optional<ReduceOp> op_of_parts(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::L1:
    case ReduceOp::SumSquare: return ReduceOp::Sum;
    case ReduceOp::Prod: return is_integer(dtype) ? std::optional(op) : std::nullopt;
    default: return op;
  }
}

struct Reduction {
  ReduceOp op;
  DType dtype;
  kernels::Activation act;  // of f32
};
// One step: from x to y, dense.
Status emit_reduce(Lowering &l, const Reduction &how, kernels::ReduceF32 p, const View &x, const View &y) {
  if (how.dtype == DType::F32) {
    p.op = how.op, p.act = how.act;
    return l.emit_step(Kernel::ReduceF32, p, {arg(x), arg(y)});
  }
  const kernels::Reduce wide{p.outer, p.reduced, p.inner, how.op, static_cast<std::uint32_t>(how.dtype)};
  const std::uint64_t width = dtype_bits(how.dtype) / 8;
  return l.emit_step(Kernel::Reduce, wide, {arg(x, width), arg(y, width)});
}
// One step for each run of axes that go, the last of which writes y.
Status emit_reductions(Lowering &l, Reduction how, Vector<AxisRun> runs, View x, const View &y) {
  const kernels::Activation act = how.act;
  while (runs_that_go(runs) > 1) {
    std::size_t at;
    const kernels::ReduceF32 p = longest_run(runs, &at);
    how.act = {};
    const View made = l.new_row_major({p.outer, p.inner}, dtype_bits(how.dtype) / 8);
    QR_RETURN_IF_ERROR(emit_reduce(l, how, p, x, made));
    how.op = *op_of_parts(how.op, how.dtype);
    x = made;
    runs[at].goes = false, runs[at].count = 1;
  }
  how.act = act;
  std::size_t at;
  return emit_reduce(l, how, longest_run(runs, &at), x, y);
}

// The tensor densely, with the axes that go innermost.
View reduced_last(Lowering &l, std::int32_t id, const bool *reduced) {
  const View from = l.any(id);
  Vector<std::size_t> order;
  for (const bool goes : {false, true})
    for (std::size_t d = 0; d < from.rank(); ++d)
      if (reduced[d] == goes) order.push_back(d);
  const View made = l.new_dense(from.dims, order, l.width(id));
  l.copy(from, made, l.width(id), id);
  return made;
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
  const auto runs_of = [&](const View &view) { return axis_runs(view, reduced); };
  const View row_major{kNoValue, 0, l.tensor(xi).shape, cpu::row_major(l.tensor(xi).shape)};
  const std::size_t as_it_is = runs_that_go(runs_of(l.dense_layout(xi)));
  View x;
  if (as_it_is > 1 && runs_that_go(runs_of(row_major)) < 2) x = l.row_major(xi);
  else if (as_it_is > 1 && !op_of_parts(*op, dtype)) x = reduced_last(l, xi, reduced);
  else x = l.dense(xi);
  Reduction how{*op, dtype, group.act};
  if (node.op == Op::ReduceLogSum) how.act = {kernels::Act::Log, 0, 0, 0};
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
  QR_RETURN_IF_ERROR(emit_reductions(l, how, runs_of(x), x, written));
  if (dtype == DType::F32) {
    l.define(group.output, y);
    return Lowered::Done;
  }
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
