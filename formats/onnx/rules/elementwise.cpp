// SPDX-License-Identifier: Apache-2.0
// Functions of elements.
#include <limits>

#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

Status clip(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  if (node.opset >= 11) return node.finish(Op::Clip, node.inputs());
  Vector<std::int32_t> inputs = {node.in(0), qir::kAbsent, qir::kAbsent};
  constexpr float kLowest = std::numeric_limits<float>::lowest(), kHighest = std::numeric_limits<float>::max();
  const DType dtype = node.tensor(0).dtype;
  if (const float low = node.get_float("min", kLowest); low > kLowest) inputs[1] = node.number("min", dtype, low);
  if (const float high = node.get_float("max", kHighest); high < kHighest) inputs[2] = node.number("max", dtype, high);
  if (inputs[1] == qir::kAbsent && inputs[2] == qir::kAbsent) return identity(node);
  return node.finish(Op::Clip, std::move(inputs));
}

// Min, Max, Sum, Mean of one value are that value.
Status variadic(Rewriter &node) {
  if (node.input_count() == 1) return identity(node);
  return node.finish(op_of(node), node.inputs());
}

Status cast(Rewriter &node) {
  QR_ASSIGN_OR_RETURN([[maybe_unused]] const DType to,
                      element_type(static_cast<std::int32_t>(node.get_int("to", 0)), node.where()));
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::Cast, node.inputs()));
  return node.finish(std::move(made));
}

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

Status selu(Rewriter &node) {
  qir::Node made = node.make(Op::Selu, node.inputs(), "");
  const bool first = node.opset < 6;  // had constants of fewer digits
  made.set("alpha", node.get_float("alpha", first ? 1.6732f : 1.67326319f));
  made.set("gamma", node.get_float("gamma", first ? 1.0507f : 1.05070102f));
  return node.finish(std::move(made));
}

// y = alpha * x + beta
Status affine(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  const DType dtype = node.tensor(0).dtype;
  const std::int32_t alpha = node.number("alpha", dtype, node.get_float("alpha", 1)),
                     beta = node.number("beta", dtype, node.get_float("beta", 0));
  QR_ASSIGN_OR_RETURN(const std::int32_t product, node.step(Op::Mul, {node.in(0), alpha}, "product"));
  return node.finish(Op::Add, {product, beta});
}

// y = scale * x + bias, with one bias per channel
Status image_scaler(Rewriter &node) {
  QR_RETURN_IF_ERROR(need_image(node));
  const DType dtype = node.tensor(0).dtype;
  const std::int64_t channels = node.tensor(0).shape[1];
  const Vector<float> bias = node.get_floats("bias").value_or(Vector<float>());
  const auto entries = static_cast<std::int64_t>(bias.size());
  if (entries > 0 && channels >= 0 && entries != channels)
    return node.error(ErrorId::onnx_invalid, "attribute bias has %lld entries, the image has %lld channels", entries,
                      channels);
  const std::int32_t scale = node.number("scale", dtype, node.get_float("scale", 1));
  if (bias.empty()) return node.finish(Op::Mul, {node.in(0), scale});
  QR_ASSIGN_OR_RETURN(const std::int32_t product, node.step(Op::Mul, {node.in(0), scale}, "product"));
  std::int32_t added = node.builder.add_constant(
      node.name + "/bias",
      {DType::F32, {entries, 1, 1}, node.builder.store().copy(bias.data(), bias.size() * sizeof(float))});
  if (dtype != DType::F32) {
    qir::Node cast = node.make(Op::Cast, {added}, "bias/cast");
    cast.set("to", static_cast<std::int64_t>(dtype));
    QR_ASSIGN_OR_RETURN(added, node.step(std::move(cast)));
  }
  return node.finish(Op::Add, {product, added});
}

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

}  // namespace quarry::onnx_import::rules
