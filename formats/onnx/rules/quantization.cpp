// SPDX-License-Identifier: Apache-2.0
// Operators on quantised values. Where scales and zero points are constant, a QLinear operator is written as what it
// means: dequantise, the operator in real numbers, quantise. A pass turns that into quantised types
// (passes/quantized/quantized_types.cpp), as it does for Q/DQ models.
#include <algorithm>

#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

namespace {

bool all_constant(const Rewriter &node, std::initializer_list<std::size_t> inputs) {
  return std::ranges::all_of(inputs,
                             [&](std::size_t i) { return !node.has(i) || node.builder.is_constant(node.in(i)); });
}

// com.microsoft allows scale and zero point of one element to be vectors of length 1; QIR's are scalars then.
Result<std::int32_t> parameter(Rewriter &node, std::int32_t id, std::string_view suffix) {
  if (id == qir::kAbsent || node.builder.tensor(id).shape != qir::Shape{1}) return id;
  const std::int64_t none = 0;
  return node.step(Op::Reshape, {id, node.ints(String(suffix) + "/scalar", {&none, 0})}, suffix);
}

// `axis`: that of parameters per channel.
Result<std::int32_t> dequantize(Rewriter &node, std::int32_t value, std::int32_t scale, std::int32_t zero,
                                std::int64_t axis, const char *suffix) {
  const String at(suffix);
  QR_ASSIGN_OR_RETURN(scale, parameter(node, scale, at + "/scale"));
  QR_ASSIGN_OR_RETURN(zero, parameter(node, zero, at + "/zero_point"));
  if (zero != qir::kAbsent && node.builder.tensor(zero).shape != node.builder.tensor(scale).shape &&
      node.builder.tensor(zero).shape.empty()) {
    QR_ASSIGN_OR_RETURN(const std::int32_t shape, node.shape_of(scale, at + "/scale/shape"));
    QR_ASSIGN_OR_RETURN(zero, node.step(Op::Expand, {zero, shape}, at + "/zero_points"));
  }
  qir::Node made = node.make(Op::DequantizeLinear, {value, scale, zero}, at);
  if (!node.builder.tensor(scale).shape.empty()) made.set("axis", axis);
  return node.step(std::move(made));
}

Status quantize_result(Rewriter &node, std::int32_t value, std::int32_t scale, std::int32_t zero) {
  QR_ASSIGN_OR_RETURN(scale, parameter(node, scale, "y/scale"));
  QR_ASSIGN_OR_RETURN(zero, parameter(node, zero, "y/zero_point"));
  return node.finish(Op::QuantizeLinear, {value, scale, zero});
}

// The bias of QLinearConv is i32 in units of scale(x) * scale(w).
Result<std::int32_t> dequantize_bias(Rewriter &node, std::int32_t bias, std::int32_t x_scale, std::int32_t w_scale) {
  QR_ASSIGN_OR_RETURN(x_scale, parameter(node, x_scale, "bias/x_scale"));
  QR_ASSIGN_OR_RETURN(w_scale, parameter(node, w_scale, "bias/w_scale"));
  QR_ASSIGN_OR_RETURN(const std::int32_t scale, node.step(Op::Mul, {x_scale, w_scale}, "bias/scale"));
  return dequantize(node, bias, scale, qir::kAbsent, 0, "bias");
}

}  // namespace

Status qlinear_conv(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(8));
  QR_ASSIGN_OR_RETURN(qir::Node conv, node.copy(Op::Conv, {}));
  if (!all_constant(node, {1, 2, 4, 5, 6, 7})) {
    conv.op = Op::QLinearConv;
    conv.inputs = node.inputs();
    return node.finish(std::move(conv));
  }
  QR_ASSIGN_OR_RETURN(const std::int32_t x, dequantize(node, node.in(0), node.in(1), node.in(2), 1, "x"));
  QR_ASSIGN_OR_RETURN(const std::int32_t w, dequantize(node, node.in(3), node.in(4), node.in(5), 0, "w"));
  conv.inputs = {x, w};
  if (node.has(8)) {
    QR_ASSIGN_OR_RETURN(const std::int32_t bias, dequantize_bias(node, node.in(8), node.in(1), node.in(4)));
    conv.inputs.push_back(bias);
  }
  conv.name += "/conv";
  QR_ASSIGN_OR_RETURN(const std::int32_t y, node.step(std::move(conv)));
  return quantize_result(node, y, node.in(6), node.in(7));
}

Status qlinear_matmul(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(8));
  const bool simple = all_constant(node, {1, 2, 4, 5, 6, 7}) && node.builder.tensor(node.in(1)).shape.size() <= 1 &&
                      node.builder.tensor(node.in(1)).data.size <= 4 &&
                      node.builder.tensor(node.in(1)).dtype == DType::F32;
  if (!simple) return node.finish(Op::QLinearMatMul, node.inputs());
  QR_ASSIGN_OR_RETURN(const std::int32_t a, dequantize(node, node.in(0), node.in(1), node.in(2), 1, "a"));
  const auto b_rank = static_cast<std::int64_t>(node.tensor(3).shape.size());
  QR_ASSIGN_OR_RETURN(const std::int32_t b, dequantize(node, node.in(3), node.in(4), node.in(5), b_rank - 1, "b"));
  QR_ASSIGN_OR_RETURN(const std::int32_t y, node.step(Op::MatMul, {a, b}, "matmul"));
  return quantize_result(node, y, node.in(6), node.in(7));
}

// com.microsoft QLinearAdd, QLinearMul: a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point.
Status qlinear_binary(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(7));
  for (const std::size_t i : {1, 4})
    if (!node.has(i)) return node.error(ErrorId::onnx_invalid, "input %zu is missing", i);
  QR_ASSIGN_OR_RETURN(const std::int32_t a, dequantize(node, node.in(0), node.in(1), node.in(2), 1, "a"));
  QR_ASSIGN_OR_RETURN(const std::int32_t b, dequantize(node, node.in(3), node.in(4), node.in(5), 1, "b"));
  QR_ASSIGN_OR_RETURN(const std::int32_t y,
                      node.step(node.proto.op_type() == "QLinearAdd" ? Op::Add : Op::Mul, {a, b}, "op"));
  return quantize_result(node, y, node.in(6), node.in(7));
}

// com.microsoft QLinear* with one data input: x, x_scale, x_zero_point, y_scale, y_zero_point.
Status qlinear_unary(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(2));
  if (!node.has(3)) return node.error(ErrorId::onnx_invalid, "input 3 (y_scale) is missing");
  const std::string_view op = node.proto.op_type();
  if (node.get_int("channels_last", 0) != 0)
    return node.error(ErrorId::onnx_attribute, "attribute channels_last is 1, only 0 is supported");
  const Op real = op == "QLinearSigmoid"       ? Op::Sigmoid
                  : op == "QLinearLeakyRelu"   ? Op::LeakyRelu
                  : op == "QLinearSoftmax"     ? Op::Softmax
                  : op == "QLinearAveragePool" ? Op::AveragePool
                                               : Op::GlobalAveragePool;
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(real, {}, {"channels_last", "opset"}));
  if (real == Op::Softmax && node.get_int("opset", 13) < 13) {
    const auto rank = static_cast<std::int64_t>(node.tensor(0).shape.size());
    const std::int64_t axis = node.get_int("axis", 1);
    if ((axis < 0 ? axis + rank : axis) != rank - 1)
      return node.error(ErrorId::onnx_attribute,
                        "attribute axis is %lld in the sense of opset 12, only the last axis is supported", axis);
    made.set("axis", std::int64_t{-1});
  }
  QR_ASSIGN_OR_RETURN(const std::int32_t x, dequantize(node, node.in(0), node.in(1), node.in(2), 1, "x"));
  made.inputs = {x};
  made.name += "/op";
  QR_ASSIGN_OR_RETURN(const std::int32_t y, node.step(std::move(made)));
  return quantize_result(node, y, node.in(3), node.in(4));
}

// com.microsoft QLinearConcat: y_scale, y_zero_point, then (x, scale, zero_point) each.
Status qlinear_concat(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(4));
  QR_ASSIGN_OR_RETURN(qir::Node concat, node.copy(Op::Concat, {}));
  for (std::size_t i = 2; i + 1 < node.proto.input_size() + std::size_t{0}; i += 3) {
    if (!node.has(i) || !node.has(i + 1))
      return node.error(ErrorId::onnx_invalid, "inputs come in threes; input %zu or its scale is missing", i);
    QR_ASSIGN_OR_RETURN(const std::int32_t x,
                        dequantize(node, node.in(i), node.in(i + 1), node.in(i + 2), 1, format("x%zu", i / 3).c_str()));
    concat.inputs.push_back(x);
  }
  concat.name += "/concat";
  QR_ASSIGN_OR_RETURN(const std::int32_t y, node.step(std::move(concat)));
  return quantize_result(node, y, node.in(0), node.in(1));
}

// QuantizeLinear and DequantizeLinear, ai.onnx from opset 10 and com.microsoft: one-element parameters become scalars.
Status convert(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(2));
  const bool quantizes = node.proto.op_type() == "QuantizeLinear",
             microsoft = !node.proto.domain().empty() && node.proto.domain() != "ai.onnx";
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(quantizes ? Op::QuantizeLinear : Op::DequantizeLinear, node.inputs()));
  if (made.get_int("block_size", 0) == 0) {
    const bool single = node.tensor(1).shape == qir::Shape{1};
    if (single)
      for (std::size_t i = 1; i < made.inputs.size(); ++i) {
        QR_ASSIGN_OR_RETURN(const std::int32_t one, parameter(node, made.inputs[i], i == 1 ? "scale" : "zero_point"));
        made.inputs.set(i, one);
      }
    if (single || node.tensor(1).shape.empty() || (!microsoft && node.opset < 13))
      std::erase_if(made.attributes, [](const auto &a) { return a.name == "axis"; });
  }
  return node.finish(std::move(made));
}

}  // namespace quarry::onnx_import::rules
