// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications, those of com.microsoft with integers among them: scales that are known at run time alone.
#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

Status gemm(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::Gemm, node.inputs(), {"broadcast"}));
  return node.finish(std::move(made));
}

namespace {

// a * b as reals: the product of integers times both scales, and a bias.
Status scaled_product(Rewriter &node, Vector<std::int32_t> operands, std::int32_t a_scale, std::int32_t b_scale,
                      std::int32_t bias) {
  QR_ASSIGN_OR_RETURN(const std::int32_t product, node.step(Op::MatMulInteger, std::move(operands), "product"));
  QR_ASSIGN_OR_RETURN(const std::int32_t real, to_real(node, product, "real"));
  QR_ASSIGN_OR_RETURN(const std::int32_t scale, node.step(Op::Mul, {a_scale, b_scale}, "scale"));
  if (bias == qir::kAbsent) return node.finish(Op::Mul, {real, scale});
  QR_ASSIGN_OR_RETURN(const std::int32_t scaled, node.step(Op::Mul, {real, scale}, "scaled"));
  return node.finish(Op::Add, {scaled, bias});
}

}  // namespace

// A, B, a_scale, b_scale, a_zero_point?, b_zero_point?, bias?
Status matmul_integer_to_float(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(4));
  return scaled_product(node, {node.in(0), node.in(1), node.in(4), node.in(5)}, node.in(2), node.in(3), node.in(6));
}

// A, B, b_scale, b_zero_point?, bias?: A is quantised by its own range.
Status dynamic_quantize_matmul(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(3));
  qir::Node quantize = node.make(Op::DynamicQuantizeLinear, {node.in(0)}, "quantized");
  Vector<std::int32_t> made;
  QR_RETURN_IF_ERROR(node.builder.emit(
      std::move(quantize), {node.name + "/quantized", node.name + "/a_scale", node.name + "/a_zero_point"}, &made));
  return scaled_product(node, {made[0], node.in(1), made[2], node.in(3)}, made[1], node.in(2), node.in(4));
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

}  // namespace quarry::onnx_import::rules
