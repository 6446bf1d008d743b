// SPDX-License-Identifier: Apache-2.0
// Convolutions of com.microsoft that have an activation.
#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

// Conv and an activation, with an optional addend between them.
Status fused_conv(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(2));
  const std::string_view activation = node.get_string("activation", "");
  const Vector<float> params = node.get_floats("activation_params").value_or(Vector<float>());
  const auto param = [&](std::size_t i, float fallback) { return i < params.size() ? params[i] : fallback; };
  QR_ASSIGN_OR_RETURN(qir::Node conv,
                      node.copy(Op::Conv, {node.in(0), node.in(1), node.in(2)}, {"activation", "activation_params"}));
  const bool alone = activation.empty() && !node.has(3);
  if (alone) return node.finish(std::move(conv));
  conv.name += "/conv";
  QR_ASSIGN_OR_RETURN(std::int32_t y, node.step(std::move(conv)));
  if (node.has(3)) {
    if (activation.empty()) return node.finish(Op::Add, {y, node.in(3)});
    QR_ASSIGN_OR_RETURN(y, node.step(Op::Add, {y, node.in(3)}, "sum"));
  }
  qir::Node act = node.make(Op::Relu, {y}, "");
  if (activation == "Relu") {
  } else if (activation == "Sigmoid") {
    act.op = Op::Sigmoid;
  } else if (activation == "Tanh") {
    act.op = Op::Tanh;
  } else if (activation == "LeakyRelu") {
    act.op = Op::LeakyRelu;
    act.set("alpha", param(0, 0.01f));
  } else if (activation == "HardSigmoid") {
    act.op = Op::HardSigmoid;
    act.set("alpha", param(0, 0.2f));
    act.set("beta", param(1, 0.5f));
  } else if (activation == "Clip") {
    act.op = Op::Clip;
    act.inputs.push_back(node.number("min", node.builder.tensor(y).dtype, param(0, -3.4028235e38f)));
    act.inputs.push_back(node.number("max", node.builder.tensor(y).dtype, param(1, 3.4028235e38f)));
  } else {
    return node.error(ErrorId::onnx_attribute, "activation '%s' is not supported", printable(activation));
  }
  return node.finish(std::move(act));
}

// ONNX's own of opset 27, with attributes more.
Status causal_conv_with_state(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(2));
  const std::int64_t axes = node.get_int("ndim", 1), window = node.get_int("state_window", 0);
  if (axes != 1 || window != 0)
    return node.error(ErrorId::onnx_attribute, "ndim is %lld and state_window %lld, expected 1 and 0", axes, window);
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::CausalConvWithState, node.inputs(), {"ndim", "state_window"}));
  return node.finish(std::move(made));
}

}  // namespace quarry::onnx_import::rules
