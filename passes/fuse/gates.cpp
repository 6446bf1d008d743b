// SPDX-License-Identifier: Apache-2.0
// Operators that multiply a number by a gate between 0 and 1 made of it: Swish (SiLU), HardSwish, Mish; and the hard
// gate by itself.
#include <cmath>

#include "passes/fuse/pattern_matcher.h"

namespace quarry::passes {

using qir::Op;

namespace {

// x where the tensor is clip(x + 3, 0, 6).
std::int32_t clipped(const PatternMatcher &match, std::int32_t id) {
  const qir::Node *clip = match.made_by(id, Op::Clip);
  if (!clip || clip->inputs.size() < 3 || !match.is_scalar(clip->inputs[2], 6)) return qir::kAbsent;
  const auto low = match.scalar(clip->inputs[1]);
  const qir::Node *sum = low == 0.0f ? match.made_by(clip->inputs[0], Op::Add) : nullptr;
  return sum ? match.beside_scalar(*sum, 3) : qir::kAbsent;
}

// The tensor that this one is a sixth of.
std::int32_t six_times(const PatternMatcher &match, std::int32_t id) {
  if (const qir::Node *divided = match.made_by(id, Op::Div))
    return match.is_scalar(divided->inputs[1], 6) ? divided->inputs[0] : qir::kAbsent;
  const qir::Node *scaled = match.made_by(id, Op::Mul);
  return scaled ? match.beside_scalar(*scaled, 1.0 / 6) : qir::kAbsent;
}

// x where the tensor is clip(x / 6 + 1 / 2, 0, 1), in one piece or in several.
std::int32_t hard_gate(const PatternMatcher &match, std::int32_t id) {
  const qir::Node *gate = match.made_by(id, Op::HardSigmoid);
  if (!gate) return clipped(match, six_times(match, id));
  const bool fits =
      std::fabs(gate->get_float("alpha", 0.2f) - 1.0f / 6) <= 1e-6f && gate->get_float("beta", 0.5f) == 0.5f;
  return fits ? gate->inputs[0] : qir::kAbsent;
}

// The operand that is `gate` of the other one.
template <class Gate>
std::int32_t gated(const qir::Node &product, Gate &&gate) {
  for (std::size_t side = 0; side < 2; ++side) {
    const std::int32_t x = product.inputs[side];
    if (gate(product.inputs[1 - side], x)) return x;
  }
  return qir::kAbsent;
}

}  // namespace

Found match_swish(PatternMatcher &match, const qir::Node &node) {
  if (node.op != Op::Mul) return {};
  float alpha = 1;
  const std::int32_t x = gated(node, [&](std::int32_t gate, std::int32_t of) {
    const qir::Node *sigmoid = match.made_by(gate, Op::Sigmoid);
    if (!sigmoid) return false;
    const PatternMatcher::Factors inside = match.factors(sigmoid->inputs[0], of);
    alpha = static_cast<float>(inside.scalar);
    return inside.only(of, 1) && std::isfinite(alpha);
  });
  if (x == qir::kAbsent) return {};
  Found swish = found(Op::Swish, {x});
  if (alpha != 1) swish->set("alpha", alpha);
  return swish;
}

Found match_hard_swish(PatternMatcher &match, const qir::Node &node) {
  std::int32_t x = qir::kAbsent;
  if (node.op == Op::Mul)
    x = gated(node, [&](std::int32_t gate, std::int32_t of) { return hard_gate(match, gate) == of; });
  // (x * clip(x + 3, 0, 6)) / 6
  if (const qir::Node *product = match.made_by(six_times(match, node.outputs[0]), Op::Mul);
      product && x == qir::kAbsent)
    x = gated(*product, [&](std::int32_t gate, std::int32_t of) { return clipped(match, gate) == of; });
  // (x / 6) * clip(x + 3, 0, 6)
  if (x == qir::kAbsent && node.op == Op::Mul)
    for (std::size_t side = 0; side < 2 && x == qir::kAbsent; ++side)
      if (const std::int32_t of = six_times(match, node.inputs[side]);
          of != qir::kAbsent && clipped(match, node.inputs[1 - side]) == of)
        x = of;
  return x == qir::kAbsent ? Found() : found(Op::HardSwish, {x});
}

Found match_hard_sigmoid(PatternMatcher &match, const qir::Node &node) {
  if (node.op != Op::Mul && node.op != Op::Div) return {};
  const std::int32_t x = clipped(match, six_times(match, node.outputs[0]));
  if (x == qir::kAbsent) return {};
  Found gate = found(Op::HardSigmoid, {x});
  gate->set("alpha", 1.0f / 6);
  gate->set("beta", 0.5f);
  return gate;
}

Found match_mish(PatternMatcher &match, const qir::Node &node) {
  if (node.op != Op::Mul) return {};
  const std::int32_t x = gated(node, [&](std::int32_t gate, std::int32_t of) {
    const qir::Node *tanh = match.made_by(gate, Op::Tanh);
    if (!tanh) return false;
    if (const qir::Node *softplus = match.made_by(tanh->inputs[0], Op::Softplus)) return softplus->inputs[0] == of;
    // softplus as log(1 + exp(x)); where exp is infinite the gate is 1, as it should
    const qir::Node *log = match.made_by(tanh->inputs[0], Op::Log);
    const qir::Node *sum = log ? match.made_by(log->inputs[0], Op::Add) : nullptr;
    const qir::Node *exp = sum ? match.made_by(match.beside_scalar(*sum, 1), Op::Exp) : nullptr;
    return exp && exp->inputs[0] == of;
  });
  return x == qir::kAbsent ? Found() : found(Op::Mish, {x});
}

}  // namespace quarry::passes
