// SPDX-License-Identifier: Apache-2.0
// Losses: the logarithm of each target's class, found by comparing all classes with it.
#include "passes/spell.h"

namespace quarry::passes {

using qir::Op;

bool spell_losses(Speller &s) {
  const qir::Node &node = s.node();
  const bool softmax = node.op == Op::SoftmaxCrossEntropyLoss;
  if (!softmax && node.op != Op::NegativeLogLikelihoodLoss) return false;
  const DType dtype = s.in(0).dtype;
  const qir::Shape given = s.in(0).shape, out = s.out().shape;
  if (given.size() < 2 || s.in(0).quant || (dtype != DType::F32 && dtype != DType::F16)) return false;
  // Devices have few axes: all behind the classes are one.
  qir::Shape shape = given;
  if (given.size() > 3) {
    shape = {given[0], given[1], 1};
    for (std::size_t i = 2; i < given.size(); ++i) shape[2] *= given[i];
  }
  qir::Shape one = shape, along(shape.size(), 1), rest = shape;
  one[1] = 1, along[1] = shape[1];
  rest.erase(rest.begin() + 1);
  Vector<std::int64_t> places, all{0};
  for (std::int64_t i = 0; i < shape[1]; ++i) places.push_back(i);
  for (std::size_t i = 1; i < shape.size(); ++i) all.push_back(static_cast<std::int64_t>(i));

  std::int32_t logs = s.reshape(node.inputs[0], shape);
  if (softmax) {
    logs = s.of(Op::LogSoftmax, {logs});
    s.last_made().set("axis", std::int64_t{1});
    if (node.outputs.size() > 1 && node.outputs[1] != qir::kAbsent)
      s.emit(Op::Reshape, {logs, s.integers(given)}, node.outputs[1]);
  }
  // What is ignored has a weight of 0, and so has a target that is no class.
  const std::int64_t ignored = node.get_int("ignore_index", -1);
  const bool leaves_out = ignored >= 0 && ignored < shape[1];
  std::int32_t weights = qir::input_of(node, 2);
  if (weights != qir::kAbsent) weights = s.reshape(weights, along);
  if (weights == qir::kAbsent || leaves_out) {
    Vector<float> kept(places.size(), 1);
    if (leaves_out) kept[static_cast<std::size_t>(ignored)] = 0;
    const std::int32_t factors = s.floats(along, kept);
    weights = weights == qir::kAbsent ? factors : s.of(Op::Mul, {weights, factors});
  }
  const std::int32_t targets = s.reshape(s.cast(node.inputs[1], DType::I64), one);
  const std::int32_t is_target = s.of(Op::Equal, {targets, s.integers(along, places)}, DType::Bool, shape);
  const std::int32_t factors = s.of(Op::Mul, {s.cast(is_target, dtype), weights}, dtype, shape);
  const std::int32_t picked = s.of(Op::Mul, {logs, factors}, dtype, shape);

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
