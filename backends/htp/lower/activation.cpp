// SPDX-License-Identifier: Apache-2.0
// Activations with parameters.
#include <algorithm>
#include <limits>

#include "backends/htp/lower/rules.h"

namespace quarry::htp::rules {

namespace {

// Operations of ElementWiseNeuron.
constexpr std::uint32_t kNeuronHardSigmoid = 2, kNeuronSoftplus = 7;

}  // namespace

Status clip(Lowering &l, const qir::Node &node) {
  const std::int32_t low_id = node.inputs[1], high_id = node.inputs[2];
  const std::optional<float> low = scalar_of(l, low_id), high = scalar_of(l, high_id);
  const Order order = l.order(node.inputs[0]);
  std::int32_t x = l.stored(node.inputs[0], order);
  if (!low && !high && low_id == qir::kAbsent && high_id == qir::kAbsent) {
    l.same_as(node.outputs[0], x, order);
    return {};
  }
  if ((low_id == qir::kAbsent || low) && (high_id == qir::kAbsent || high)) {
    DraftNode &made = l.node("ReluMinMax", {x}, {l.result(node.outputs[0], order)});
    l.param(made, "min_value", low.value_or(std::numeric_limits<float>::lowest()));
    l.param(made, "max_value", high.value_or(std::numeric_limits<float>::max()));
    return {};
  }
  // Bounds of the run. Where they cross, the upper one counts.
  const Vector<std::uint32_t> ones(std::max<std::size_t>(order.size(), 1), 1);
  for (std::size_t i = 1; i <= 2; ++i) {
    if (node.inputs[i] == qir::kAbsent) continue;
    const bool last = i == 2 || high_id == qir::kAbsent;
    const std::int32_t bound = l.reshaped(l.natural(node.inputs[i]), ones),
                       y = last ? l.result(node.outputs[0], order) : l.between(node.outputs[0], "~", l.drafted(x).dims);
    l.node(i == 1 ? "ElementWiseMaximum" : "ElementWiseMinimum", {x, bound}, {y});
    x = y;
  }
  return {};
}

Status hard_sigmoid(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  const std::int32_t x = l.stored(node.inputs[0], order);
  DraftNode &made = l.node("ElementWiseNeuron", {x}, {l.result(node.outputs[0], order)});
  l.param(made, "operation", kNeuronHardSigmoid);
  l.param(made, "alpha", node.get_float("alpha", 0.2f));
  l.param(made, "beta", node.get_float("beta", 0.5f));
  return {};
}

// The library's softplus is a table that on floats is off by 2 % of a short range; log(1 + exp(-|x|)) + max(x, 0) is
// not.
Status softplus(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  const std::int32_t x = l.stored(node.inputs[0], order), y = l.result(node.outputs[0], order);
  if (l.tensor(node.inputs[0]).quant) {
    l.param(l.node("ElementWiseNeuron", {x}, {y}), "operation", kNeuronSoftplus);
    return {};
  }
  const auto step = [&](const char *type, std::initializer_list<std::int32_t> inputs) {
    const std::int32_t made = l.between(node.inputs[0], "~", l.drafted(x).dims);
    l.node(type, inputs, {made});
    return made;
  };
  const std::int32_t small = step("ElementWiseExp", {step("ElementWiseNeg", {step("ElementWiseAbs", {x})})});
  const std::int32_t soft =
      step("ElementWiseLog", {step("ElementWiseAdd", {small, scalar_like(l, node.inputs[0], "one", 1)})});
  l.node("ElementWiseAdd", {step("Relu", {x}), soft}, {y});
  return {};
}

Status leaky_relu(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  const std::int32_t x = l.stored(node.inputs[0], order),
                     slope = scalar_like(l, node.inputs[0], "slope", node.get_float("alpha", 0.01f));
  l.node("Prelu", {x, slope}, {l.result(node.outputs[0], order)});
  return {};
}

Status prelu(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  const std::int32_t x = l.stored(node.inputs[0], order), slope = l.broadcast(node.inputs[1], order);
  l.node("Prelu", {x, slope}, {l.result(node.outputs[0], order)});
  return {};
}

// x * sigmoid(alpha * x) as x/2 * (1 + tanh(alpha/2 * x)). The library's own sigmoid of floats is 3 roundings of f16
// off, and in one with a convolution before it and a product behind it 16; its tanh is one, and two readers keep the
// convolution by itself.
Status swish(Lowering &l, const qir::Node &node) {
  const std::int32_t id = node.inputs[0];
  if (l.tensor(id).quant)
    return refuse(ErrorId::backend_type,
                  "Swish on quantised tensors, expected its pieces with a quantisation of their own");
  const Order order = l.order(id);
  const std::int32_t x = l.stored(id, order);
  const Vector<std::uint32_t> dims = Lowering::dims_of(l.tensor(id).shape, order);
  const auto step = [&](const char *type, std::int32_t a, std::int32_t b) {
    const std::int32_t made = l.between(id, "~swish", dims);
    b < 0 ? l.node(type, {a}, {made}) : l.node(type, {a, b}, {made});
    return made;
  };
  const std::int32_t half = step("ElementWiseMultiply", x, scalar_like(l, id, "half", 0.5f));
  const float alpha = node.get_float("alpha", 1);
  const std::int32_t inner = alpha == 1 ? half : step("ElementWiseMultiply", x, scalar_like(l, id, "alpha", alpha / 2));
  const std::int32_t gate = step("ElementWiseAdd", step("Tanh", inner, -1), scalar_like(l, id, "one", 1));
  l.node("ElementWiseMultiply", {half, gate}, {l.result(node.outputs[0], order)});
  return {};
}

// Directly behind a convolution the library puts Sigmoid and Tanh of floats into it, as tables that are 0.004 and 0.008
// off. A clip goes into it without loss, and then they stay by themselves. Past 88 no f32 has another result.
Status sigmoid(Lowering &l, const qir::Node &node) {
  const std::int32_t id = node.inputs[0];
  const Order order = l.order(id);
  std::int32_t x = l.stored(id, order);
  if (!l.tensor(id).quant && (l.is_of_convolution(x) || l.is_of_product(x))) {
    const std::int32_t clipped = l.between(id, "~apart", l.drafted(x).dims);
    DraftNode &clip = l.node("ReluMinMax", {x}, {clipped});
    l.param(clip, "min_value", -88.0f);
    l.param(clip, "max_value", 88.0f);
    x = clipped;
  }
  l.node(node.op == qir::Op::Tanh ? "Tanh" : "Sigmoid", {x}, {l.result(node.outputs[0], order)});
  return {};
}

}  // namespace quarry::htp::rules
