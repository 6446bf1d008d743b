// SPDX-License-Identifier: Apache-2.0
// Operators that multiply a number by a gate between 0 and 1 made of it: Swish (SiLU), HardSwish, Mish; and the hard
// gate by itself.
#include <cmath>

#include "passes/look.h"

namespace quarry::passes {

using qir::Op;

namespace {

// x where the tensor is clip(x + 3, 0, 6).
std::int32_t clipped(const Look &look, std::int32_t id) {
  const qir::Node *clip = look.made_by(id, Op::Clip);
  if (!clip || clip->inputs.size() < 3 || !look.is_scalar(clip->inputs[2], 6)) return qir::kAbsent;
  const auto low = look.scalar(clip->inputs[1]);
  const qir::Node *sum = low == 0.0f ? look.made_by(clip->inputs[0], Op::Add) : nullptr;
  return sum ? look.beside_scalar(*sum, 3) : qir::kAbsent;
}

// The tensor that this one is a sixth of.
std::int32_t six_times(const Look &look, std::int32_t id) {
  if (const qir::Node *divided = look.made_by(id, Op::Div))
    return look.is_scalar(divided->inputs[1], 6) ? divided->inputs[0] : qir::kAbsent;
  const qir::Node *scaled = look.made_by(id, Op::Mul);
  return scaled ? look.beside_scalar(*scaled, 1.0 / 6) : qir::kAbsent;
}

// x where the tensor is clip(x / 6 + 1 / 2, 0, 1), in one piece or in several.
std::int32_t hard_gate(const Look &look, std::int32_t id) {
  const qir::Node *gate = look.made_by(id, Op::HardSigmoid);
  if (!gate) return clipped(look, six_times(look, id));
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

Found find_swish(Look &look, const qir::Node &node) {
  if (node.op != Op::Mul) return {};
  float alpha = 1;
  const std::int32_t x = gated(node, [&](std::int32_t gate, std::int32_t of) {
    const qir::Node *sigmoid = look.made_by(gate, Op::Sigmoid);
    if (!sigmoid) return false;
    const Look::Factors inside = look.factors(sigmoid->inputs[0], of);
    alpha = static_cast<float>(inside.scalar);
    return inside.only(of, 1) && std::isfinite(alpha);
  });
  if (x == qir::kAbsent) return {};
  Found swish = found(Op::Swish, {x});
  if (alpha != 1) swish->set("alpha", alpha);
  return swish;
}

Found find_hard_swish(Look &look, const qir::Node &node) {
  std::int32_t x = qir::kAbsent;
  if (node.op == Op::Mul)
    x = gated(node, [&](std::int32_t gate, std::int32_t of) { return hard_gate(look, gate) == of; });
  // (x * clip(x + 3, 0, 6)) / 6
  if (const qir::Node *product = look.made_by(six_times(look, node.outputs[0]), Op::Mul); product && x == qir::kAbsent)
    x = gated(*product, [&](std::int32_t gate, std::int32_t of) { return clipped(look, gate) == of; });
  // (x / 6) * clip(x + 3, 0, 6)
  if (x == qir::kAbsent && node.op == Op::Mul)
    for (std::size_t side = 0; side < 2 && x == qir::kAbsent; ++side)
      if (const std::int32_t of = six_times(look, node.inputs[side]);
          of != qir::kAbsent && clipped(look, node.inputs[1 - side]) == of)
        x = of;
  return x == qir::kAbsent ? Found() : found(Op::HardSwish, {x});
}

Found find_hard_sigmoid(Look &look, const qir::Node &node) {
  if (node.op != Op::Mul && node.op != Op::Div) return {};
  const std::int32_t x = clipped(look, six_times(look, node.outputs[0]));
  if (x == qir::kAbsent) return {};
  Found gate = found(Op::HardSigmoid, {x});
  gate->set("alpha", 1.0f / 6);
  gate->set("beta", 0.5f);
  return gate;
}

Found find_mish(Look &look, const qir::Node &node) {
  if (node.op != Op::Mul) return {};
  const std::int32_t x = gated(node, [&](std::int32_t gate, std::int32_t of) {
    const qir::Node *tanh = look.made_by(gate, Op::Tanh);
    if (!tanh) return false;
    if (const qir::Node *softplus = look.made_by(tanh->inputs[0], Op::Softplus)) return softplus->inputs[0] == of;
    // softplus as log(1 + exp(x)); where exp is infinite the gate is 1, as it should
    const qir::Node *log = look.made_by(tanh->inputs[0], Op::Log);
    const qir::Node *sum = log ? look.made_by(log->inputs[0], Op::Add) : nullptr;
    const qir::Node *exp = sum ? look.made_by(look.beside_scalar(*sum, 1), Op::Exp) : nullptr;
    return exp && exp->inputs[0] == of;
  });
  return x == qir::kAbsent ? Found() : found(Op::Mish, {x});
}

}  // namespace quarry::passes
