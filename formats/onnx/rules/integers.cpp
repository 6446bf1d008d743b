// SPDX-License-Identifier: Apache-2.0
// com.microsoft matrix multiplications of integers whose scales are known at run time alone, as ONNX Runtime's dynamic
// quantisation writes them: MatMulInteger, and what its result is multiplied by.
#include <algorithm>

#include "formats/onnx/rewriter.h"

namespace quarry::onnx_import {
namespace {

using qir::Op;

Result<std::int32_t> to_real(Rewriter &node, std::int32_t id, std::string_view suffix) {
  qir::Node made = node.make(Op::Cast, {id}, suffix);
  made.set("to", static_cast<std::int64_t>(DType::F32));
  return node.step(std::move(made));
}

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

// The weights of a direction are [inputs, 4 * hidden]; their scale and zero point one number, or one for each column.
Result<std::int32_t> real_weights(Rewriter &node, std::size_t weights, std::size_t scale, std::size_t zero_point,
                                  const char *name) {
  if (!node.builder.is_constant(node.in(weights)) || !node.has(scale))
    return node.error(ErrorId::onnx_attribute, "its input %zu is no constant with a scale", weights);
  const auto column = [&](std::int32_t id, const char *what) -> Result<std::int32_t> {
    const qir::Shape &given = node.builder.tensor(id).shape;
    const std::int64_t directions = node.tensor(weights).shape[0];
    const std::int64_t shape[] = {directions, 1, given.size() == 2 ? given[1] : 1};
    return node.step(Op::Reshape, {id, node.ints(String(name) + what + "/shape", shape)}, String(name) + what);
  };
  QR_ASSIGN_OR_RETURN(std::int32_t id, to_real(node, node.in(weights), String(name) + "/integers"));
  if (node.has(zero_point)) {
    QR_ASSIGN_OR_RETURN(std::int32_t zero, to_real(node, node.in(zero_point), String(name) + "/zero"));
    QR_ASSIGN_OR_RETURN(zero, column(zero, "/zero_point"));
    QR_ASSIGN_OR_RETURN(id, node.step(Op::Sub, {id, zero}, String(name) + "/centred"));
  }
  QR_ASSIGN_OR_RETURN(const std::int32_t factor, column(node.in(scale), "/scale"));
  QR_ASSIGN_OR_RETURN(id, node.step(Op::Mul, {id, factor}, String(name) + "/real"));
  qir::Node turned = node.make(Op::Transpose, {id}, name);
  turned.set("perm", Vector<std::int64_t>{0, 2, 1});
  return node.step(std::move(turned));
}

// X, W, R, B?, sequence_lens?, initial_h?, initial_c?, P?, then scale and zero point of W and of R. The weights are
// taken as the reals that they stand for; ONNX Runtime also rounds data and state to 8 bits in each step, which only
// loses digits. The attribute says that a backend may round them too, to more bits.
Status dynamic_quantize_lstm(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(3));
  for (const std::size_t i : {1u, 2u})
    if (node.tensor(i).shape.size() != 3)
      return node.error(ErrorId::onnx_attribute, "its weights have rank %zu, expected 3", node.tensor(i).shape.size());
  QR_ASSIGN_OR_RETURN(const std::int32_t w, real_weights(node, 1, 8, 9, "W"));
  QR_ASSIGN_OR_RETURN(const std::int32_t r, real_weights(node, 2, 10, 11, "R"));
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::LSTM, {node.in(0), w, r, node.in(3), node.in(4), node.in(5),
                                                           node.in(6), node.in(7)}));
  made.set("dynamic_quantize", std::int64_t{1});
  return node.finish(std::move(made));
}

constexpr struct {
  std::string_view op;
  Rule rule;
} kIntegerRules[] = {
    {"DynamicQuantizeLSTM", dynamic_quantize_lstm},
    {"DynamicQuantizeMatMul", dynamic_quantize_matmul},
    {"MatMulIntegerToFloat", matmul_integer_to_float},
};

}  // namespace

Rule find_integer_rule(std::string_view op) {
  const auto *found = std::ranges::find(kIntegerRules, op, [](const auto &row) { return row.op; });
  return found == std::end(kIntegerRules) ? nullptr : found->rule;
}

}  // namespace quarry::onnx_import
