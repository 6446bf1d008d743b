// SPDX-License-Identifier: Apache-2.0
// Losses: SoftmaxCrossEntropyLoss as NegativeLogLikelihoodLoss of a LogSoftmax, and that as the logarithm of each
// target's class, found by comparing all classes with it: a target that is no class counts as nothing, where the
// operator itself is an error.
#include "passes/decompose/decompose.h"

namespace quarry::passes {

using qir::Op;

namespace {

// Devices have few axes: all behind the classes are one.
qir::Shape three_axes(const qir::Shape &given) {
  if (given.size() <= 3) return given;
  qir::Shape shape = {given[0], given[1], 1};
  for (std::size_t i = 2; i < given.size(); ++i) shape[2] *= given[i];
  return shape;
}

void cross_entropy(Decomposer &s, const qir::Shape &given, const qir::Shape &shape, const qir::Shape &targets) {
  const qir::Node &node = s.node();
  const qir::Shape out = s.out().shape;
  const std::string_view reduction = node.get_string("reduction", "mean");
  const std::int32_t logs = s.of(Op::LogSoftmax, {s.reshape(node.inputs[0], shape)});
  s.last_made().set("axis", std::int64_t{1});
  if (node.outputs[1] != qir::kAbsent) s.emit(Op::Reshape, {logs, s.integers(given)}, node.outputs[1]);
  Vector<std::int32_t> inputs{logs, s.reshape(node.inputs[1], targets)};
  if (node.inputs[2] != qir::kAbsent) inputs.push_back(node.inputs[2]);
  const bool each = reduction == "none" && out != targets;
  std::int32_t loss = qir::kAbsent;
  if (each) loss = s.of(Op::NegativeLogLikelihoodLoss, std::move(inputs), s.in(0).dtype, targets);
  else s.give(Op::NegativeLogLikelihoodLoss, std::move(inputs));
  s.last_made().set("reduction", reduction);
  if (node.find("ignore_index")) s.last_made().set("ignore_index", node.get_int("ignore_index", 0));
  if (each) s.give(Op::Reshape, {loss, s.integers(out)});
}

}  // namespace

bool decompose_losses(Decomposer &s) {
  const qir::Node &node = s.node();
  const bool softmax = node.op == Op::SoftmaxCrossEntropyLoss;
  if (!softmax && node.op != Op::NegativeLogLikelihoodLoss) return false;
  const DType dtype = s.in(0).dtype;
  const qir::Shape given = s.in(0).shape, out = s.out().shape;
  if (given.size() < 2 || s.in(0).quant || (dtype != DType::F32 && dtype != DType::F16)) return false;
  const qir::Shape shape = three_axes(given);
  qir::Shape one = shape, along(shape.size(), 1), rest = shape;
  one[1] = 1, along[1] = shape[1];
  rest.erase(rest.begin() + 1);
  if (softmax) {
    cross_entropy(s, given, shape, rest);
    return true;
  }
  // No target is what is ignored, nor one that is no class.
  const std::int64_t ignored = node.get_int("ignore_index", -1);
  Vector<std::int64_t> places, all{0};
  for (std::int64_t i = 0; i < shape[1]; ++i) places.push_back(i == ignored ? INT32_MIN : i);
  for (std::size_t i = 1; i < shape.size(); ++i) all.push_back(static_cast<std::int64_t>(i));

  std::int32_t logs = s.reshape(node.inputs[0], shape), weights = node.inputs[2];
  const std::int32_t targets = s.reshape(s.cast(node.inputs[1], DType::I64), one);
  const std::int32_t is_target = s.of(Op::Equal, {targets, s.integers(along, places)}, DType::Bool, shape);
  std::int32_t factors = s.cast(is_target, dtype);
  if (weights != qir::kAbsent) {
    weights = s.reshape(weights, along);
    factors = s.of(Op::Where, {is_target, weights, s.number(dtype, 0)}, dtype, shape);  // as below
    logs = s.of(Op::Mul, {logs, weights}, dtype, shape);
  }
  // Chosen, not multiplied by 0: the logarithm of a class that cannot be is an infinity.
  const std::int32_t picked = s.of(Op::Where, {is_target, logs, s.number(dtype, 0)}, dtype, shape);

  const auto sum = [&](std::int32_t x, const Vector<std::int64_t> &axes, const qir::Shape &to) {
    const std::int32_t made = s.of(Op::ReduceSum, {x, s.integers(axes)}, dtype, to);
    s.last_made().set("keepdims", std::int64_t{0});
    return made;
  };
  const std::string_view reduction = node.get_string("reduction", "mean");
  if (reduction == "none") s.give(Op::Reshape, {s.of(Op::Neg, {sum(picked, {1}, rest)}), s.integers(out)});
  else if (reduction == "sum") s.give(Op::Neg, {sum(picked, all, {})});
  else s.give(Op::Div, {s.of(Op::Neg, {sum(picked, all, {})}), sum(factors, all, {})});
  return true;
}

}  // namespace quarry::passes
