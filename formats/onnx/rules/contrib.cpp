// SPDX-License-Identifier: Apache-2.0
// com.microsoft operators that models of ONNX Runtime's optimiser hold, in terms of the normal form. Those that the op
// table has itself (QuickGelu, FusedMatMul, Inverse, MatMulNBits) need no rule.
#include <algorithm>

#include "formats/onnx/rewriter.h"

namespace quarry::onnx_import {
namespace {

using qir::Op;

Status gelu(Rewriter &node) { return node.finish(Op::Gelu, {node.in(0)}); }

Status fast_gelu(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  std::int32_t x = node.in(0);
  if (node.has(1)) {
    QR_ASSIGN_OR_RETURN(x, node.step(Op::Add, {x, node.in(1)}, "bias"));
  }
  qir::Node made = node.make(Op::Gelu, {x}, "");
  if (node.proto.op_type() == "FastGelu") made.set("approximate", std::string_view("tanh"));
  return node.finish(std::move(made));
}

Status bias_gelu(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(2));
  return fast_gelu(node);
}

// x -> x / sqrt(mean(x^2)) * scale; further outputs (the inverse deviation) are for training.
Status rms_normalization(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(2));
  for (int i = 1; i < node.proto.output_size(); ++i)
    if (node.wants(i))
      return node.error(ErrorId::onnx_attribute, "has %d outputs, only the first is supported",
                        node.proto.output_size());
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::RMSNormalization, {node.in(0), node.in(1)}));
  return node.finish(std::move(made), 1);
}

// SkipLayerNormalization: input, skip, gamma, beta?, bias?; Simplified: input, skip, gamma, bias?. Output 3 is the sum
// that is normalised.
Status skip_normalization(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(3));
  const bool simplified = node.proto.op_type() == "SkipSimplifiedLayerNormalization";
  for (int i = 1; i < 3; ++i)
    if (node.wants(i)) return node.error(ErrorId::onnx_attribute, "its output %d is for training and not supported", i);
  QR_ASSIGN_OR_RETURN(std::int32_t sum, node.step(Op::Add, {node.in(0), node.in(1)}, "sum"));
  if (const std::int32_t bias = node.in(simplified ? 3 : 4); bias != qir::kAbsent) {
    QR_ASSIGN_OR_RETURN(sum, node.step(Op::Add, {sum, bias}, "bias"));
  }
  qir::Node made = node.make(simplified ? Op::RMSNormalization : Op::LayerNormalization, {sum, node.in(2)}, "");
  if (!simplified && node.has(3)) made.inputs.push_back(node.in(3));
  made.set("epsilon", node.get_float("epsilon", 1e-12f));
  QR_RETURN_IF_ERROR(node.finish(std::move(made), 1));
  node.bind(3, sum);
  return {};
}

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

Status fused_gemm(Rewriter &node) {
  const std::string_view activation = node.get_string("activation", "");
  QR_ASSIGN_OR_RETURN(
      qir::Node gemm,
      node.copy(Op::Gemm, node.inputs(), {"activation", "activation_alpha", "activation_beta", "activation_gamma"}));
  if (activation.empty()) return node.finish(std::move(gemm));
  const Op op = activation == "Relu"      ? Op::Relu
                : activation == "Sigmoid" ? Op::Sigmoid
                : activation == "Tanh"    ? Op::Tanh
                                          : Op::LeakyRelu;
  if (op == Op::LeakyRelu && activation != "LeakyRelu")
    return node.error(ErrorId::onnx_attribute, "activation '%s' is not supported", printable(activation));
  gemm.name += "/gemm";
  QR_ASSIGN_OR_RETURN(const std::int32_t y, node.step(std::move(gemm)));
  qir::Node act = node.make(op, {y}, "");
  if (op == Op::LeakyRelu) act.set("alpha", node.get_float("activation_alpha", 0.01f));
  return node.finish(std::move(act));
}

// MatMulNBits orders K, N, ... as attributes; g_idx and bias are inputs 4 and 5. Attributes that only steer speed are
// dropped.
Status matmul_nbits(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::MatMulNBits, node.inputs(), {"weight_prepacked"}));
  return node.finish(std::move(made));
}

// Conv, Gelu and others that ONNX Runtime moved into its own domain but mean as ai.onnx does.
Status same_as_standard(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(qir::find_op("", node.proto.op_type())->op, node.inputs()));
  return node.finish(std::move(made));
}

constexpr struct {
  std::string_view op;
  Rule rule;
} kContribRules[] = {
    {"BiasGelu", bias_gelu},
    {"FastGelu", fast_gelu},
    {"FusedConv", fused_conv},
    {"FusedGemm", fused_gemm},
    {"Gelu", gelu},
    {"MatMulNBits", matmul_nbits},
    {"SimplifiedLayerNormalization", rms_normalization},
    {"SkipLayerNormalization", skip_normalization},
    {"SkipSimplifiedLayerNormalization", skip_normalization},
    {"Trilu", same_as_standard},
};

}  // namespace

Rule find_contrib_rule(std::string_view op) {
  const auto *found = std::ranges::find(kContribRules, op, [](const auto &row) { return row.op; });
  return found == std::end(kContribRules) ? nullptr : found->rule;
}

}  // namespace quarry::onnx_import
