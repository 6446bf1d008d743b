// SPDX-License-Identifier: Apache-2.0
// Normalisations and Softmax.
#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

// Before opset 13 Softmax, LogSoftmax and Hardmax work on the data seen as a matrix: the axes from `axis` on are one.
Status softmax(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  const Op op = op_of(node);
  if (node.opset >= 13) {
    QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(op, node.inputs()));
    return node.finish(std::move(made));
  }
  const qir::Shape shape = node.tensor(0).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t given = node.get_int("axis", 1), axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis > rank)
    return node.error(ErrorId::onnx_invalid, "axis is %lld, the data has %lld dimensions", given, rank);
  // With at most one axis from there on that is longer than 1 the matrix's rows lie along that axis.
  std::int64_t along = rank - 1, longer = 0;
  for (std::int64_t i = axis; i < rank; ++i)
    if (shape[index_of(i)] != 1) along = i, ++longer;
  if (axis < rank && longer <= 1) {
    qir::Node made = node.make(op, {node.in(0)}, "");
    made.set("axis", along);
    return node.finish(std::move(made));
  }
  qir::Node flat = node.make(Op::Flatten, {node.in(0)}, "matrix");
  flat.set("axis", axis);
  QR_ASSIGN_OR_RETURN(const std::int32_t matrix, node.step(std::move(flat)));
  qir::Node rows = node.make(op, {matrix}, "rows");
  rows.set("axis", std::int64_t{1});
  QR_ASSIGN_OR_RETURN(const std::int32_t result, node.step(std::move(rows)));
  QR_ASSIGN_OR_RETURN(const std::int32_t back, node.shape_of(node.in(0), "shape"));
  qir::Node reshape = node.make(Op::Reshape, {result, back}, "");
  reshape.set("allowzero", std::int64_t{1});
  return node.finish(std::move(reshape));
}

Status batch_normalization(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(5));
  if (node.opset < 9 && node.get_int("spatial", 1) != 1)
    return node.error(ErrorId::onnx_attribute, "attribute spatial is 0 (statistics per position), only 1 is supported");
  if (node.opset < 14) {
    for (int i = 1; i < node.proto.output_size(); ++i)
      if (node.wants(i))
        return node.error(ErrorId::onnx_attribute,
                          "is in training mode (it has %d outputs), only inference is supported",
                          node.proto.output_size());
    QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::BatchNormalization, node.inputs(), {"spatial", "momentum"}));
    return node.finish(std::move(made), 1);
  }
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::BatchNormalization, node.inputs()));
  return node.finish(std::move(made));
}

// Before opset 21 scale and bias have one entry per group; now one per channel.
Status group_normalization(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(3));
  Vector<std::int32_t> inputs = node.inputs();
  if (node.opset < 21) {
    const std::int64_t groups = node.get_int("num_groups", 0);
    const std::int64_t channels = node.tensor(0).shape.size() > 1 ? node.tensor(0).shape[1] : -1;
    if (groups <= 0 || channels <= 0 || channels % groups != 0)
      return node.error(ErrorId::onnx_invalid, "num_groups is %lld, the data has %lld channels", groups, channels);
    const std::int64_t column[] = {groups, 1}, table[] = {groups, channels / groups};
    for (std::size_t i = 1; i < 3; ++i) {
      const String at = i == 1 ? "scale" : "bias";
      QR_ASSIGN_OR_RETURN(const std::int32_t tall,
                          node.step(Op::Reshape, {inputs[i], node.ints(at + "/column", column)}, at + "/reshape"));
      QR_ASSIGN_OR_RETURN(const std::int32_t wide,
                          node.step(Op::Expand, {tall, node.ints(at + "/table", table)}, at + "/expand"));
      QR_ASSIGN_OR_RETURN(inputs[i], node.step(Op::Reshape, {wide, node.ints(at + "/channels", {&channels, 1})}, at));
    }
  }
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::GroupNormalization, std::move(inputs)));
  return node.finish(std::move(made));
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

}  // namespace quarry::onnx_import::rules
