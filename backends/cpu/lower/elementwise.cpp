// SPDX-License-Identifier: Apache-2.0
// Elementwise operators, normalisations, softmax, reductions.
#include <algorithm>
#include <cmath>

#include "backends/cpu/lower/lowering.h"
#include "graph/infer/infer.h"
#include "kernels/cpu/shapes/elements_shape.h"

namespace quarry::cpu {

using kernels::BinaryOp;
using kernels::Kernel;
using kernels::ReduceOp;
using qir::Op;

namespace {

std::optional<BinaryOp> binary_of(Op op) {
  switch (op) {
    case Op::Add: return BinaryOp::Add;
    case Op::Sub: return BinaryOp::Sub;
    case Op::Mul: return BinaryOp::Mul;
    case Op::Div: return BinaryOp::Div;
    case Op::Min: return BinaryOp::Min;
    case Op::Max: return BinaryOp::Max;
    case Op::Pow: return BinaryOp::Pow;
    case Op::PRelu: return BinaryOp::Prelu;
    default: return std::nullopt;
  }
}

std::optional<ReduceOp> reduction_of(Op op) {
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

}  // namespace

// Where the result of an elementwise operator of these operands lies: as the operand that has all its elements.
View Lowering::elementwise_output(const Dims &dims, std::span<const std::int32_t> operands, std::uint64_t each) {
  const View *lead = nullptr;
  for (const std::int32_t id : operands) {
    if (constant(id) || tensor(id).shape != dims) continue;
    const View &form = any(id);
    if (is_dense(form) && (!lead || !is_row_major(form))) lead = &form;
  }
  return lead ? new_like(*lead, each) : new_row_major(dims, each);
}

// A form of the tensor that can be walked beside `like`: broadcast, or its elements in the same order of memory.
View Lowering::beside(std::int32_t id, const View &like) {
  any(id);
  if (tensor(id).shape != like.dims) return broadcast(any(id), like.dims);
  const Vector<std::size_t> order = memory_order(like);
  for (const View &form : forms_[static_cast<std::size_t>(id)])
    if (memory_order(form) == order) return form;
  View made = new_like(like, width(id));
  copy(any(id), made, width(id), id);
  define(id, made);
  return made;
}

Status Lowering::lower_binary(const Group &group, bool *done) {
  const qir::Node &node = *current_;
  const auto op = binary_of(node.op);
  if (!op || node.inputs.size() != 2 || !is_f32(node.inputs[0]) || !is_f32(node.inputs[1]) || !is_f32(group.output))
    return {};
  const View y = elementwise_output(tensor(group.output).shape, node.inputs, 4);
  const View a = beside(node.inputs[0], y), b = beside(node.inputs[1], y);
  const View *const views[] = {&y, &a, &b};
  Nest nest;
  if (!make_nest(views, kernels::kLoopRank, nest)) return {};
  define(group.output, y);
  kernels::BinaryF32 p;
  p.op = *op;
  p.rank = static_cast<std::uint32_t>(nest.dims.size());
  std::copy(nest.dims.begin(), nest.dims.end(), p.dims);
  std::copy(nest.strides[1].begin(), nest.strides[1].end(), p.a);
  std::copy(nest.strides[2].begin(), nest.strides[2].end(), p.b);
  p.act = group.act;
  *done = true;
  return emit_step(Kernel::BinaryF32, p, {arg(a), arg(b), arg(y)});
}

Status Lowering::lower_unary(const Group &group, bool *done) {
  const qir::Node &node = *current_;
  const auto act = activation_of(graph_, node);
  if (!act) return {};
  const View x = dense(node.inputs[0]);
  const View y = new_like(x, 4);
  define(group.output, y);
  const kernels::UnaryF32 p{count_of(x.dims), *act};
  *done = true;
  return emit_step(Kernel::UnaryF32, p, {arg(x), arg(y)});
}

Status Lowering::lower_unary_f64(const qir::Node &node, bool *done) {
  const auto act = activation_of(graph_, node, DType::F64);
  kernels::UnaryF64 p;
  if (act && node.op != Op::Clip) {
    p.kind = act->kind, p.a = static_cast<double>(act->a), p.b = static_cast<double>(act->b);
  } else if (act) {
    p.kind = kernels::Act::Clip, p.a = -HUGE_VAL, p.b = HUGE_VAL;
    for (std::size_t i = 1; i < 3; ++i) {
      const std::int32_t id = input(node, i);
      if (id == qir::kAbsent) continue;
      if (!constant(id) || tensor(id).dtype != DType::F64 || tensor(id).data.size != sizeof(double)) return {};
      double &bound = i == 1 ? p.a : p.b;
      std::memcpy(&bound, tensor(id).data.data, sizeof bound);
      if (bound != bound) return {};
    }
  } else {
    return {};
  }
  if (!kernels::takes_f64(p.kind)) return {};
  const View x = dense(node.inputs[0]), y = new_like(x, 8);
  p.count = count_of(x.dims);
  define(node.outputs[0], y);
  *done = true;
  return emit_step(Kernel::UnaryF64, p, {arg(x, 8), arg(y, 8)});
}

Status Lowering::lower_layer_norm(const Group &group, bool *done) {
  const qir::Node &node = *current_;
  const std::int32_t xi = node.inputs[0], gamma = node.inputs[1], beta = input(node, 2);
  if (!is_f32(xi) || !is_f32(gamma) || (beta != qir::kAbsent && !is_f32(beta)) || !is_f32(group.output)) return {};
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] != qir::kAbsent && (!uses_.users(node.outputs[i]).empty() || uses_.is_output(node.outputs[i])))
      return {};
  const qir::Shape &shape = tensor(xi).shape;
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", -1), shape.size(), &axis));
  kernels::LayerNormF32 p;
  p.cols = 1;
  for (std::size_t d = axis; d < shape.size(); ++d) p.cols *= shape[d];
  p.rows = count_of(shape) / p.cols;
  if (count_of(tensor(gamma).shape) != p.cols || (beta != qir::kAbsent && count_of(tensor(beta).shape) != p.cols))
    return {};
  p.epsilon = node.get_float("epsilon", 1e-5f);
  p.rms = node.op == Op::RMSNormalization;
  p.has_beta = beta != qir::kAbsent;
  p.act = group.act;
  const View x = row_major(xi), g = row_major(gamma), y = new_row_major(shape, 4);
  View b;
  if (p.has_beta) b = row_major(beta);
  define(group.output, y);
  Vector<Arg> args{arg(x), arg(g)};
  if (p.has_beta) args.push_back(arg(b));
  args.push_back(arg(y));
  *done = true;
  return emit(Kernel::LayerNormF32, &p, args);
}

// Softmax, LogSoftmax, Hardmax.
Status Lowering::lower_softmax(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const DType dtype = tensor(xi).dtype;
  if ((dtype != DType::F32 && dtype != DType::F64) || tensor(yi).dtype != dtype || tensor(xi).quant || tensor(yi).quant)
    return {};
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", -1), tensor(xi).shape.size(), &axis));
  if (node.op == Op::Hardmax && tensor(xi).shape[axis] > INT32_MAX) return {};
  const View x = dense(xi);
  std::int64_t outer = 1, inner = 1;
  const std::int64_t n = x.dims[axis];
  bool before = true;
  for (const std::size_t d : memory_order(x)) {
    if (d == axis) before = false;
    else (before ? outer : inner) *= x.dims[d];
  }
  const View y = new_like(x, width(xi));
  define(yi, y);
  *done = true;
  const std::uint32_t log = node.op == Op::LogSoftmax;
  if (node.op == Op::Hardmax)
    return emit_step(Kernel::Hardmax, kernels::Hardmax{outer, n, inner, static_cast<std::uint32_t>(dtype), 0},
                     {arg(x, width(xi)), arg(y, width(xi))});
  if (dtype == DType::F64)
    return emit_step(Kernel::SoftmaxF64, kernels::SoftmaxF64{outer, n, inner, log, 0}, {arg(x, 8), arg(y, 8)});
  return emit_step(Kernel::SoftmaxF32, kernels::SoftmaxF32{outer, n, inner, 1, log}, {arg(x), arg(y)});
}

Status Lowering::lower_reduce(const Group &group, bool *done) {
  const qir::Node &node = *current_;
  const auto op = reduction_of(node.op);
  const std::int32_t xi = node.inputs[0];
  const DType dtype = tensor(xi).dtype;
  if (!op || tensor(xi).quant || tensor(group.output).quant || tensor(group.output).dtype != dtype ||
      (dtype != DType::F32 && !kernels::takes(*op, dtype)))
    return {};
  bool reduced[qir::kMaxRank] = {};
  const std::size_t rank = tensor(xi).shape.size();
  bool keep = true;
  if (node.op == Op::GlobalAveragePool || node.op == Op::GlobalMaxPool) {
    for (std::size_t d = 2; d < rank; ++d) reduced[d] = true;
  } else {
    Vector<std::int64_t> axes;
    if (const std::int32_t list = input(node, 1); list != qir::kAbsent) {
      const auto values = integers(list);
      if (!values) return {};
      axes = *values;
    }
    QR_RETURN_IF_ERROR(qir::resolve_reduce(node, axes, rank, &reduced));
    keep = node.get_int("keepdims", 1) != 0;
  }
  // The axes that go must lie side by side in memory.
  View x;
  kernels::ReduceF32 p;
  bool fits = false;
  for (int attempt = 0; attempt < 2 && !fits; ++attempt) {
    x = attempt == 0 ? dense(xi) : row_major(xi);
    p.outer = p.reduced = p.inner = 1;
    int stage = 0;
    fits = true;
    for (const std::size_t d : memory_order(x)) {
      if (x.dims[d] == 1) continue;
      if (reduced[d]) {
        if (stage == 2) fits = false;
        stage = 1;
        p.reduced *= x.dims[d];
      } else {
        if (stage == 1) stage = 2;
        (stage == 0 ? p.outer : p.inner) *= x.dims[d];
      }
    }
  }
  if (!fits) return {};
  p.op = *op;
  p.act = group.act;
  if (node.op == Op::ReduceLogSum) p.act = {kernels::Act::Log, 0, 0, 0};
  View kept = x;
  for (std::size_t d = 0; d < rank; ++d)
    if (reduced[d]) kept.dims[d] = 1;
  View y = new_like(kept, width(xi));
  View written = y;
  if (!keep) {
    for (std::size_t d = rank; d-- > 0;) {
      if (!reduced[d]) continue;
      y.dims.erase(y.dims.begin() + static_cast<std::ptrdiff_t>(d));
      y.strides.erase(y.strides.begin() + static_cast<std::ptrdiff_t>(d));
    }
  }
  *done = true;
  if (dtype == DType::F32) {
    define(group.output, y);
    return emit_step(Kernel::ReduceF32, p, {arg(x), arg(written)});
  }
  const kernels::Reduce wide{p.outer, p.reduced, p.inner, p.op, static_cast<std::uint32_t>(dtype)};
  QR_RETURN_IF_ERROR(emit_step(Kernel::Reduce, wide, {arg(x, width(xi)), arg(written, width(xi))}));
  if (node.op == Op::ReduceLogSum) {
    const View sums = written;
    written = new_like(kept, 8);
    y.value = written.value;
    QR_RETURN_IF_ERROR(emit_step(Kernel::UnaryF64, kernels::UnaryF64{count_of(kept.dims), kernels::Act::Log, 0, 0, 0},
                                 {arg(sums, 8), arg(written, 8)}));
  }
  define(group.output, y);
  return {};
}

}  // namespace quarry::cpu
