// SPDX-License-Identifier: Apache-2.0
// Elementwise operators of f32, and functions of f64.
#include <algorithm>
#include <cmath>

#include "backends/cpu/lower/rules.h"
#include "kernels/cpu/shapes/elements_shape.h"

namespace quarry::cpu {

using kernels::Act;
using kernels::BinaryOp;
using kernels::ElementOp;
using kernels::Kernel;
using qir::Op;

namespace {

[[maybe_unused]] std::optional<Act> act_of(Act act) { return act; }
[[maybe_unused]] std::optional<Act> act_of(ElementOp) { return std::nullopt; }  // elements.cpp's

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

}  // namespace

void set_nest(const Nest &nest, std::uint32_t *rank, std::int64_t *dims, std::int64_t *a, std::int64_t *b) {
  *rank = static_cast<std::uint32_t>(nest.dims.size());
  std::copy(nest.dims.begin(), nest.dims.end(), dims);
  std::copy(nest.strides[1].begin(), nest.strides[1].end(), a);
  std::copy(nest.strides[2].begin(), nest.strides[2].end(), b);
}

Status emit_binary(Lowering &l, BinaryOp op, const View &a, const View &b, const View &y,
                   const kernels::Activation &act) {
  const View *const views[] = {&y, &a, &b};
  Nest nest;
  if (!make_nest(views, kernels::kLoopRank, nest)) return l.refuse("plan: an elementwise step has too many dimensions");
  kernels::BinaryF32 p;
  p.op = op, p.act = act;
  set_nest(nest, &p.rank, p.dims, p.a, p.b);
  return l.emit_step(Kernel::BinaryF32, p, {arg(a), arg(b), arg(y)});
}

namespace {

// Exponents of another type as f32, where that holds them exactly; short integers, which it does always, are left to a
// Cast.
bool exact_exponents(const Lowering &l, std::int32_t id, Vector<float> *out) {
  const qir::Tensor &t = l.tensor(id);
  if (t.quant) return false;
  if (is_integer(t.dtype) && dtype_bits(t.dtype) >= 8 && dtype_bits(t.dtype) <= 16) return true;
  if (!t.is_constant) return false;
  const std::uint64_t width = l.width(id);
  for (std::size_t i = 0; width && i < t.data.size / width; ++i) {
    double value = 0;
    const auto as = [&]<class T>(T) { value = static_cast<double>(static_cast<const T *>(t.data.data)[i]); };
    if (t.dtype == DType::I64) as(std::int64_t{});
    else if (t.dtype == DType::I32) as(std::int32_t{});
    else if (t.dtype == DType::F64) as(double{});
    else return false;
    out->push_back(static_cast<float>(value));
    constexpr double kExact = 1 << 24;  // (of more an odd number is none in f32)
    if (static_cast<double>(out->back()) != value || (is_integer(t.dtype) && std::fabs(value) > kExact)) return false;
  }
  return !out->empty();
}

// Pow by such exponents.
Result<Lowered> lower_mixed_pow(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  const std::int32_t ei = node.inputs[1];
  const qir::Shape &shape = l.tensor(group.output).shape;
  Vector<float> values;
  if (!exact_exponents(l, ei, &values)) return Lowered::NotMine;
  const std::span power(node.inputs.data(), 1);
  const View layout = l.elementwise_layout(shape, power), x_layout = l.layout_beside(node.inputs[0], layout),
             as_given = values.empty() ? l.dense_layout(ei)
                                       : View{kNoValue, 0, l.tensor(ei).shape, row_major(l.tensor(ei).shape)};
  const auto fits = [&](const View &e) {
    const View wide = broadcast(e, shape);
    const View *const views[] = {&layout, &x_layout, &wide};
    Nest nest;
    return make_nest(views, kernels::kLoopRank, nest);
  };
  // Of as many elements as y has they can be brought into its order.
  const bool as_they_lie = fits(as_given);
  if (!as_they_lie && (as_given.dims != shape || !fits(layout))) return Lowered::NotMine;
  const View y = l.elementwise_output(shape, power, 4), x = l.beside(node.inputs[0], y);
  View exponents;
  if (values.empty()) {
    const View given = l.dense(ei);
    exponents = l.new_like(given, 4);
    kernels::Cast cast;
    cast.from = static_cast<std::uint32_t>(l.tensor(ei).dtype), cast.to = static_cast<std::uint32_t>(DType::F32);
    cast.count = count_of(given.dims);
    QR_RETURN_IF_ERROR(l.emit_step(Kernel::Cast, cast, {arg(given, l.width(ei)), arg(exponents)}));
  } else {
    exponents = l.constant_floats(values, l.tensor(ei).shape);
  }
  if (!as_they_lie) {
    const View moved = l.new_like(y, 4);
    l.copy(exponents, moved, 4, ei);
    exponents = moved;
  }
  l.define(group.output, y);
  return done(emit_binary(l, BinaryOp::Pow, broadcast(x, y.dims), broadcast(exponents, y.dims), y, group.act));
}

}  // namespace

Result<Lowered> lower_binary(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  const auto op = binary_of(node.op);
  if (!op || node.inputs.size() != 2 || !l.is_f32(node.inputs[0]) || !l.is_f32(group.output)) return Lowered::NotMine;
  if (!l.is_f32(node.inputs[1])) return *op == BinaryOp::Pow ? lower_mixed_pow(l, group) : Result(Lowered::NotMine);
  const qir::Shape &shape = l.tensor(group.output).shape;
  const auto nest = l.match_nest(shape, node.inputs);
  if (!nest) return Lowered::NotMine;
  const View y = l.elementwise_output(shape, node.inputs, 4);
  const View a = l.beside(node.inputs[0], y), b = l.beside(node.inputs[1], y);
  l.define(group.output, y);
  kernels::BinaryF32 p;
  p.op = *op;
  set_nest(*nest, &p.rank, p.dims, p.a, p.b);
  p.act = group.act;
  return l.finish_step(Kernel::BinaryF32, p, {arg(a), arg(b), arg(y)});
}

Result<Lowered> lower_unary(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  const auto act = activation_of(l.graph(), node);
  if (!act) return Lowered::NotMine;
  const View x = l.dense(node.inputs[0]);
  const View y = l.new_like(x, 4);
  l.define(group.output, y);
  const kernels::UnaryF32 p{count_of(x.dims), *act};
  return l.finish_step(Kernel::UnaryF32, p, {arg(x), arg(y)});
}

std::optional<Act> function_f64_of(Op op) noexcept {
  switch (op) {
    case Op::Clip: return Act::Clip;
    case Op::QuickGelu: return Act::Silu;
#define QR_FUNCTION(op, cpu, ...) \
  case Op::op: {                  \
    return act_of(cpu);           \
  }
#include "graph/ops/functions.inc"
    default: return std::nullopt;
  }
}

Result<Lowered> lower_unary_f64(Lowering &l, const qir::Node &node) {
  const auto act = activation_of(l.graph(), node, DType::F64);
  kernels::UnaryF64 p;
  if (act && node.op != Op::Clip) {
    p.kind = act->kind, p.a = static_cast<double>(act->a), p.b = static_cast<double>(act->b);
  } else if (act) {
    p.kind = kernels::Act::Clip, p.a = -HUGE_VAL, p.b = HUGE_VAL;
    for (std::size_t i = 1; i < 3; ++i) {
      const std::int32_t id = l.input(node, i);
      if (id == qir::kAbsent) continue;
      if (!l.constant(id) || l.tensor(id).dtype != DType::F64 || l.tensor(id).data.size != sizeof(double))
        return Lowered::NotMine;
      double &bound = i == 1 ? p.a : p.b;
      std::memcpy(&bound, l.tensor(id).data.data, sizeof bound);
      if (bound != bound) return Lowered::NotMine;
    }
  } else {
    return Lowered::NotMine;
  }
  if (!kernels::takes_f64(p.kind)) return Lowered::NotMine;
  const View x = l.dense(node.inputs[0]), y = l.new_like(x, 8);
  p.count = count_of(x.dims);
  l.define(node.outputs[0], y);
  return l.finish_step(Kernel::UnaryF64, p, {arg(x, 8), arg(y, 8)});
}

}  // namespace quarry::cpu
