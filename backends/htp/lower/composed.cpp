// SPDX-License-Identifier: Apache-2.0
// Operators that the device lacks, written as several that it has. For floats alone: between the pieces of a quantised
// operator there would be values of a range that nobody measured.
#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/htp/lower/rules.h"
#include "base/real/real.h"

namespace quarry::htp::rules {

using qir::Op;

namespace {

Status want_float(Lowering &l, const qir::Node &node) {
  if (!l.tensor(node.inputs[0]).quant) return {};
  return refuse(ErrorId::backend_type,
                format("%s on quantised tensors, expected its data as f32 between DequantizeLinear and QuantizeLinear",
                       qir::op_text(node)));
}

// Writes the pieces of one operator on elements; every value is shaped like the operator's input.
class Chain {
 public:
  Chain(Lowering &l, const qir::Node &node)
      : l_(l),
        node_(node),
        order_(l.order(node.inputs[0])),
        dims_(Lowering::dims_of(l.tensor(node.inputs[0]).shape, order_)),
        x_(l.stored(node.inputs[0], order_)) {}
  std::int32_t x() const { return x_; }
  std::int32_t number(const char *name, float value) { return scalar_like(l_, node_.inputs[0], name, value); }
  std::int32_t of(const char *type, std::initializer_list<std::int32_t> inputs) {
    const std::int32_t made = l_.between(node_.inputs[0], "~", dims_);
    l_.node(type, inputs, {made});
    return made;
  }
  DraftNode &last(const char *type, std::initializer_list<std::int32_t> inputs) {
    return l_.node(type, inputs, {l_.result(node_.outputs[0], order_)});
  }
  DraftNode &with_param(const char *type, std::int32_t input, std::int32_t *made) {
    *made = l_.between(node_.inputs[0], "~", dims_);
    return l_.node(type, {input}, {*made});
  }

 private:
  Lowering &l_;
  const qir::Node &node_;
  const Order order_;
  const Vector<std::uint32_t> dims_;
  const std::int32_t x_;
};

Result<Vector<std::uint32_t>> reduced_axes(Lowering &l, const qir::Node &node) {
  QR_RETURN_IF_ERROR(want_float(l, node));
  const std::size_t rank = l.rank(node.inputs[0]);
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> given, constant_ints(l, node, 1, "axes"));
  bool gone[qir::kMaxRank] = {};
  QR_RETURN_IF_ERROR(qir::resolve_reduce(node, given, rank, &gone));
  Vector<std::uint32_t> axes;
  for (std::uint32_t axis = 0; axis < rank; ++axis)
    if (gone[axis]) axes.push_back(axis);
  return axes;
}

void reduce(Lowering &l, const char *type, std::int32_t from, std::int32_t to, const Vector<std::uint32_t> &axes,
            bool keeps_axes) {
  DraftNode &made = l.node(type, {from}, {to});
  l.param(made, "axes", axes);
  l.param(made, "keep_dims", keeps_axes);
}

// A reduction between an operator before it and one behind it; either may be missing.
Status reduce_between(Lowering &l, const qir::Node &node, const char *before, const char *reduction,
                      const char *behind) {
  QR_ASSIGN_OR_RETURN(const Vector<std::uint32_t> axes, reduced_axes(l, node));
  std::int32_t x = l.natural(node.inputs[0]);
  if (before) {
    const std::int32_t made = l.between(node.inputs[0], "~", l.drafted(x).dims);
    if (std::string_view(before) == "ElementWiseMultiply") l.node(before, {x, x}, {made});
    else l.node(before, {x}, {made});
    x = made;
  }
  const std::int32_t y = l.result(node.outputs[0]);
  const std::int32_t sum = behind && !axes.empty() ? l.between(node.outputs[0], "~", l.drafted(y).dims) : y;
  if (axes.empty()) {
    l.node(behind ? behind : "Reshape", {x}, {y});
    return {};
  }
  reduce(l, reduction, x, sum, axes, node.get_int("keepdims", 1) != 0);
  if (behind) l.node(behind, {sum}, {y});
  return {};
}

// shift + log(sum(exp(x - shift))): the exponential of 11.1 is past what f16 has. The shift is 0 where the largest
// number lets all of them be summed, as each addition rounds, and near that number else.
Status log_sum_exp(Lowering &l, const qir::Node &node) {
  QR_ASSIGN_OR_RETURN(const Vector<std::uint32_t> axes, reduced_axes(l, node));
  const std::int32_t x = l.natural(node.inputs[0]);
  if (axes.empty()) {
    l.node("Reshape", {x}, {l.result(node.outputs[0])});
    return {};
  }
  const Vector<std::uint32_t> dims = l.drafted(x).dims;
  Vector<std::uint32_t> kept = dims;
  float summed = 1;
  for (const std::uint32_t axis : axes) summed *= static_cast<float>(std::exchange(kept[axis], 1));
  const auto made = [&](const Vector<std::uint32_t> &shape) { return l.between(node.inputs[0], "~", shape); };
  const std::int32_t most = made(kept), near = made(kept), shift = made(kept);
  reduce(l, "ReduceMax", x, most, axes, true);
  DraftNode &clamp = l.node("ReluMinMax", {most}, {near});
  l.param(clamp, "min_value", -8.0f);
  l.param(clamp, "max_value", std::clamp(static_cast<float>(real::log(60000.0f / summed)), 0.0f, 8.0f));
  l.node("ElementWiseSubtract", {most, near}, {shift});
  const std::int32_t shifted = made(dims), powers = made(dims), sum = made(kept), log = made(kept);
  l.node("ElementWiseSubtract", {x, shift}, {shifted});
  l.node("ElementWiseExp", {shifted}, {powers});
  reduce(l, "ReduceSum", powers, sum, axes, true);
  l.node("ElementWiseLog", {sum}, {log});
  const std::int32_t y = l.result(node.outputs[0]);
  const bool keeps_axes = node.get_int("keepdims", 1) != 0;
  const std::int32_t whole = keeps_axes ? y : made(kept);
  l.node("ElementWiseAdd", {log, shift}, {whole});
  if (!keeps_axes) l.node("Reshape", {whole}, {y});
  return {};
}

}  // namespace

Status reduce_composed(Lowering &l, const qir::Node &node) {
  switch (node.op) {
    case Op::ReduceL1: return reduce_between(l, node, "ElementWiseAbs", "ReduceSum", nullptr);
    case Op::ReduceL2: return reduce_between(l, node, "ElementWiseMultiply", "ReduceSum", "ElementWiseSquareRoot");
    case Op::ReduceSumSquare: return reduce_between(l, node, "ElementWiseMultiply", "ReduceSum", nullptr);
    case Op::ReduceLogSum: return reduce_between(l, node, nullptr, "ReduceSum", "ElementWiseLog");
    default: return log_sum_exp(l, node);
  }
}

// The library's own of floats is off where x is more than 88 below the largest, as its exponential is: by 85 in a row
// of 0 to -10000. So it gets no number further below than 64, which is nothing in the sum, and the rest is added behind
// it. Of one element it gives what lay in memory.
void log_softmax(Lowering &l, const qir::Node &node, std::int32_t x, std::uint32_t axis, std::int32_t y) {
  const Vector<std::uint32_t> dims = l.drafted(x).dims;
  if (dims[axis] == 1) {
    l.node("ElementWiseSubtract", {x, x}, {y});
    return;
  }
  Vector<std::uint32_t> kept = dims;
  kept[axis] = 1;
  const auto made = [&](const Vector<std::uint32_t> &shape) { return l.between(node.inputs[0], "~", shape); };
  const std::int32_t most = made(kept), least = made(kept), bounded = made(dims), logs = made(dims), rest = made(dims);
  reduce(l, "ReduceMax", x, most, Vector<std::uint32_t>{axis}, true);
  l.node("ElementWiseAdd", {most, scalar_like(l, node.inputs[0], "far below", -64)}, {least});
  l.node("ElementWiseMaximum", {x, least}, {bounded});
  l.param(l.node("LogSoftmax", {bounded}, {logs}), "axis", axis);
  l.node("ElementWiseSubtract", {x, bounded}, {rest});
  l.node("ElementWiseAdd", {logs, rest}, {y});
}

Status softsign(Lowering &l, const qir::Node &node) {
  QR_RETURN_IF_ERROR(want_float(l, node));
  Chain c(l, node);
  // The library has no reciprocal below 2^-14: past 16383 it would give 0.
  std::int32_t x = -1;
  DraftNode &clamp = c.with_param("ReluMinMax", c.x(), &x);
  l.param(clamp, "min_value", -16000.0f);
  l.param(clamp, "max_value", 16000.0f);
  c.last("ElementWiseDivide", {x, c.of("ElementWiseAdd", {c.of("ElementWiseAbs", {x}), c.number("one", 1)})});
  return {};
}

namespace {

// positive * max(x, 0) + negative * (exp(inner * min(x, 0)) - 1). The library's own Elu of floats is a table, 0.016 off
// where f16 is 0.0002; its exponential is rounded rightly.
Status exponential_unit(Lowering &l, const qir::Node &node, float positive, float inner, float negative) {
  Chain c(l, node);
  std::int32_t low = c.of("ElementWiseMinimum", {c.x(), c.number("zero", 0)}), high = c.of("Relu", {c.x()});
  if (inner != 1) low = c.of("ElementWiseMultiply", {low, c.number("inner", inner)});
  low = c.of("ElementWiseAdd", {c.of("ElementWiseExp", {low}), c.number("minus one", -1)});
  if (negative != 1) low = c.of("ElementWiseMultiply", {low, c.number("negative", negative)});
  if (positive != 1) high = c.of("ElementWiseMultiply", {high, c.number("positive", positive)});
  c.last("ElementWiseAdd", {high, low});
  return {};
}

}  // namespace

Status elu(Lowering &l, const qir::Node &node) {
  const float alpha = node.get_float("alpha", 1);
  if (!l.tensor(node.inputs[0]).quant) return exponential_unit(l, node, 1, 1, alpha);
  Chain c(l, node);
  l.param(c.last("Elu", {c.x()}), "alpha", alpha);
  return {};
}

Status celu(Lowering &l, const qir::Node &node) {
  QR_RETURN_IF_ERROR(want_float(l, node));
  const float alpha = node.get_float("alpha", 1);
  if (alpha == 0) return refuse(ErrorId::backend_limit, "alpha 0, expected another number");
  return exponential_unit(l, node, 1, 1 / alpha, alpha);
}

Status selu(Lowering &l, const qir::Node &node) {
  QR_RETURN_IF_ERROR(want_float(l, node));
  const float alpha = node.get_float("alpha", 1.6732632f), gamma = node.get_float("gamma", 1.050701f);
  return exponential_unit(l, node, gamma, 1, gamma * alpha);
}

// x * tanh(softplus(x)) is x * n / (n + 2) with n = e * (e + 2) and e = exp(x); the library's softplus of floats is 2 %
// off.
Status mish(Lowering &l, const qir::Node &node) {
  QR_RETURN_IF_ERROR(want_float(l, node));
  Chain c(l, node);
  // Past that the quotient is 1 to f16, and soon the library has no reciprocal of its divisor, which is below 2^-14.
  std::int32_t low = -1;
  DraftNode &clamp = c.with_param("ReluMinMax", c.x(), &low);
  l.param(clamp, "min_value", -80.0f);  // whose exponential is 0
  l.param(clamp, "max_value", 4.75f);
  const std::int32_t e = c.of("ElementWiseExp", {low}), two = c.number("two", 2);
  const std::int32_t n = c.of("ElementWiseMultiply", {e, c.of("ElementWiseAdd", {e, two})});
  c.last("ElementWiseMultiply", {c.x(), c.of("ElementWiseDivide", {n, c.of("ElementWiseAdd", {n, two})})});
  return {};
}

// tanh(sqrt(4 / pi) * (x + 0.08943 * x^3)), off by at most 5e-4, which is one step of f16 near 1.
Status erf(Lowering &l, const qir::Node &node) {
  QR_RETURN_IF_ERROR(want_float(l, node));
  Chain c(l, node);
  // Past 4 the cube would only overflow.
  std::int32_t near = -1;
  DraftNode &clamp = c.with_param("ReluMinMax", c.x(), &near);
  l.param(clamp, "min_value", -4.0f);
  l.param(clamp, "max_value", 4.0f);
  const std::int32_t square = c.of("ElementWiseMultiply", {near, near});
  const std::int32_t factor =
      c.of("ElementWiseAdd",
           {c.of("ElementWiseMultiply", {square, c.number("cubic", 0.100909f)}), c.number("linear", 1.128379f)});
  c.last("Tanh", {c.of("ElementWiseMultiply", {near, factor})});
  return {};
}

Status mean(Lowering &l, const qir::Node &node) {
  QR_RETURN_IF_ERROR(want_float(l, node));
  const Order order = common_order(l, node);
  const Vector<std::uint32_t> dims = Lowering::dims_of(l.tensor(node.outputs[0]).shape, order);
  std::int32_t sum = l.broadcast(node.inputs[0], order);
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const std::int32_t next = l.broadcast(node.inputs[i], order), made = l.between(node.outputs[0], "~sum", dims);
    l.node("ElementWiseAdd", {sum, next}, {made});
    sum = made;
  }
  const float part = 1.0f / static_cast<float>(node.inputs.size());
  l.node("ElementWiseMultiply", {sum, scalar_like(l, node.inputs[0], "part", part)},
         {l.result(node.outputs[0], order)});
  return {};
}

// What is left here is what the pass that writes steps out did not take.
Status recurrent(Lowering &, const qir::Node &node) {
  return refuse(
      ErrorId::backend_limit,
      format("%s of more than 512 steps, of a length that is known at run time alone, quantised, or with an activation "
             "that has no form here; expected it as float, of a fixed length, with ONNX's usual activations",
             qir::op_text(node)),
      "bind the length by the option shape, or run the model over shorter parts with the state carried");
}

// A pass writes these as simpler operators; what it could not stays.
Status rewritten(Lowering &, const qir::Node &node) {
  const OperatorRow *const row = find_operator(node.op);
  return refuse(ErrorId::backend_limit,
                format("%s in a form that cannot be written as simpler operators, expected known shapes of %s%s%s",
                       qir::op_text(node), types_text(*row), row->refuses[0] ? "; " : "", row->refuses));
}

}  // namespace quarry::htp::rules
