// SPDX-License-Identifier: Apache-2.0
// Opsets 1 to 6, for old exports: broadcasting was an attribute, inference a flag. Operators that are not here are as
// in opset 7.
#include <algorithm>

#include "formats/onnx/rewriter.h"

namespace quarry::onnx_import {
namespace {

using qir::Op;

// `broadcast` with `axis` lines b up with the axes of a from `axis` on; without, with the last ones (as later opsets
// do).
Status binary(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(2));
  const Op op = qir::find_op("", node.proto.op_type())->op;
  std::int32_t b = node.in(1);
  const auto a_rank = static_cast<std::int64_t>(node.tensor(0).shape.size()),
             b_rank = static_cast<std::int64_t>(node.tensor(1).shape.size());
  if (node.get_int("broadcast", 0) == 0 && node.tensor(0).shape != node.tensor(1).shape &&
      node.builder.is_static(node.in(0)) && node.builder.is_static(b))
    return node.error(ErrorId::onnx_invalid, "its operands differ in shape and attribute broadcast is not set");
  if (node.get_int("broadcast", 0) != 0 && node.attribute("axis")) {
    const std::int64_t given = node.get_int("axis", 0), axis = given < 0 ? given + a_rank : given;
    if (axis < 0 || axis + b_rank > a_rank)
      return node.error(ErrorId::onnx_invalid, "axis is %lld for operands of %lld and %lld dimensions", given, a_rank,
                        b_rank);
    Vector<std::int64_t> axes;
    for (std::int64_t i = b_rank; axis + i < a_rank; ++i) axes.push_back(i);
    if (!axes.empty()) {
      QR_ASSIGN_OR_RETURN(b, node.step(Op::Unsqueeze, {b, node.ints("axes", axes)}, "b"));
    }
  }
  return node.finish(op, {node.in(0), b});
}

Status old_batch_normalization(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(5));
  if (node.get_int("spatial", 1) != 1)
    return node.error(ErrorId::onnx_attribute, "attribute spatial is 0 (statistics per position), only 1 is supported");
  for (int i = 1; i < node.proto.output_size(); ++i)
    if (node.wants(i) && node.get_int("is_test", 0) == 0)
      return node.error(ErrorId::onnx_attribute, "is in training mode (it has %d outputs), only inference is supported",
                        node.proto.output_size());
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::BatchNormalization, node.inputs(),
                                                {"spatial", "momentum", "is_test", "consumed_inputs"}));
  return node.finish(std::move(made), 1);
}

Status old_dropout(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  if (node.wants(1)) return node.error(ErrorId::onnx_attribute, "its second output is for training and not supported");
  node.bind(0, node.in(0));
  return {};
}

Status gemm(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::Gemm, node.inputs(), {"broadcast"}));
  return node.finish(std::move(made));
}

// A slope per channel is a vector; later opsets want it in the channels' place.
Status prelu(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(2));
  std::int32_t slope = node.in(1);
  const auto rank = static_cast<std::int64_t>(node.tensor(0).shape.size());
  if (node.tensor(1).shape.size() == 1 && node.tensor(1).shape[0] != 1 && rank > 2) {
    Vector<std::int64_t> axes;
    for (std::int64_t i = 1; i < rank - 1; ++i) axes.push_back(i);
    QR_ASSIGN_OR_RETURN(slope, node.step(Op::Unsqueeze, {slope, node.ints("axes", axes)}, "slope"));
  }
  return node.finish(Op::PRelu, {node.in(0), slope});
}

Status old_cast(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  const auto *to = node.attribute("to");
  pb::TensorProto_DataType number = pb::TensorProto_DataType_UNDEFINED;
  if (to && to->has_i()) number = static_cast<pb::TensorProto_DataType>(to->i());
  else if (to && to->has_s()) pb::TensorProto_DataType_Parse(to->s(), &number);
  QR_ASSIGN_OR_RETURN(const DType dtype, element_type(number, node.where()));
  qir::Node made = node.make(Op::Cast, {node.in(0)}, "");
  made.set("to", static_cast<std::int64_t>(dtype));
  return node.finish(std::move(made));
}

Status reshape(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  if (node.opset >= 5) return node.finish(Op::Reshape, node.inputs());
  const auto shape = node.get_ints("shape");
  if (!shape) return node.error(ErrorId::onnx_invalid, "has no attribute shape");
  return node.finish(Op::Reshape, {node.in(0), node.ints("shape", *shape)});
}

Status concat(Rewriter &node) {
  qir::Node made = node.make(Op::Concat, node.inputs(), "");
  made.set("axis", node.get_int("axis", 1));
  return node.finish(std::move(made));
}

Status selu(Rewriter &node) {
  qir::Node made = node.make(Op::Selu, node.inputs(), "");
  const bool first = node.opset < 6;  // had constants of fewer digits
  made.set("alpha", node.get_float("alpha", first ? 1.6732f : 1.67326319f));
  made.set("gamma", node.get_float("gamma", first ? 1.0507f : 1.05070102f));
  return node.finish(std::move(made));
}

// Recurrent operators had a flag whether the whole sequence is wanted; the outputs say that.
Status recurrent(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made,
                      node.copy(qir::find_op("", node.proto.op_type())->op, node.inputs(), {"output_sequence"}));
  return node.finish(std::move(made));
}

Status old_pad(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  const auto pads = node.get_ints("paddings") ? node.get_ints("paddings") : node.get_ints("pads");
  if (!pads) return node.error(ErrorId::onnx_invalid, "has no attribute pads");
  qir::Node made = node.make(Op::Pad, {node.in(0), node.ints("pads", *pads)}, "");
  if (const float value = node.get_float("value", 0); value != 0)
    made.inputs.push_back(node.number("value", node.tensor(0).dtype, value));
  made.set("mode", node.get_string("mode", "constant"));
  return node.finish(std::move(made));
}

// Opset 1 pools and normalisations have p as a float.
Status float_p(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made,
                      node.copy(qir::find_op("", node.proto.op_type())->op, node.inputs(), {"p", "consumed_inputs"}));
  made.set("p", node.get_int("p", static_cast<std::int64_t>(node.get_float("p", 2))));
  return node.finish(std::move(made));
}

constexpr struct {
  std::string_view op;
  Rule rule;
} kLegacyRules[] = {
    {"Add", binary},
    {"And", binary},
    {"BatchNormalization", old_batch_normalization},
    {"Cast", old_cast},
    {"Concat", concat},
    {"Div", binary},
    {"Dropout", old_dropout},
    {"Equal", binary},
    {"GRU", recurrent},
    {"Gemm", gemm},
    {"GlobalLpPool", float_p},
    {"Greater", binary},
    {"LSTM", recurrent},
    {"Less", binary},
    {"LpPool", float_p},
    {"Mul", binary},
    {"Or", binary},
    {"PRelu", prelu},
    {"Pad", old_pad},
    {"Pow", binary},
    {"RNN", recurrent},
    {"Reshape", reshape},
    {"Selu", selu},
    {"Sub", binary},
    {"Xor", binary},
};

}  // namespace

Rule find_legacy_rule(std::string_view op) {
  const auto *found = std::ranges::find(kLegacyRules, op, [](const auto &row) { return row.op; });
  return found == std::end(kLegacyRules) ? nullptr : found->rule;
}

}  // namespace quarry::onnx_import
