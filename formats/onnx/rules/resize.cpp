// SPDX-License-Identifier: Apache-2.0
// Resize, its ancestor, and sampling.
#include <cmath>
#include <cstring>

#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

Status grid_sample(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::GridSample, node.inputs(), {"mode"}));
  const std::string_view mode = node.get_string("mode", "linear");
  made.set("mode", mode == "bilinear"  ? std::string_view("linear")
                   : mode == "bicubic" ? std::string_view("cubic")
                                       : mode);
  return node.finish(std::move(made));
}

// Opset 7 to 9: the ancestor of Resize.
Status upsample(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  std::int32_t scales = node.in(1);
  if (node.opset < 9) {
    const auto given = node.get_floats("scales");
    if (!given) return node.error(ErrorId::onnx_invalid, "has no attribute scales");
    scales = node.builder.add_constant(node.name + "/scales",
                                       {DType::F32,
                                        {static_cast<std::int64_t>(given->size())},
                                        node.builder.store().copy(given->data(), given->size() * sizeof(float))});
  }
  const std::string_view mode = node.get_string("mode", "nearest");
  qir::Node made = node.make(Op::Resize, {node.in(0), qir::kAbsent, scales}, "");
  made.set("mode", mode == "bilinear" ? std::string_view("linear") : mode);
  made.set("coordinate_transformation_mode", std::string_view("asymmetric"));
  made.set("nearest_mode", std::string_view("floor"));
  return node.finish(std::move(made));
}

namespace {

// align_corners stretches to scale * length, which may be no whole number. Where the scales are constants and the model
// states the shape of the result, by numbers or by names, its exporter meant that length, as PyTorch and ONNX Runtime
// compute it.
void take_stated_lengths(Rewriter &node, qir::Node &made) {
  const Builder &builder = node.builder;
  const std::int32_t scales = made.inputs[2];
  if (made.get_string("coordinate_transformation_mode", "") != "align_corners" || made.find("axes") ||
      !builder.is_constant(scales) || made.inputs[3] != qir::kAbsent || node.proto.output_size() < 1)
    return;
  // What is an input too, with a value of the model's or of who binds it, is no exporter's constant.
  for (const auto &input : node.importer.model.proto().graph().input())
    if (node.proto.input_size() > 2 && input.name() == node.proto.input(2)) return;
  const pb::ValueInfoProto *const info = node.importer.value_info(node.scope, node.proto.output(0));
  if (!info) return;
  Reasons reasons;  // what it states wrongly is reported elsewhere
  const Declared stated = declare(*info, "value", reasons);
  const qir::Shape &from = builder.tensor(made.inputs[0]).shape;
  const qir::Tensor &factors = builder.tensor(scales);
  if (!stated.has_shape || stated.shape.size() != from.size() || factors.dtype != DType::F32 ||
      factors.data.size != from.size() * sizeof(float))
    return;
  qir::Shape lengths;
  for (std::size_t i = 0; i < from.size(); ++i) {
    float factor;
    std::memcpy(&factor, static_cast<const std::uint8_t *>(factors.data.data) + i * sizeof factor, sizeof factor);
    // As inference rounds it, or the statement is of another result.
    const double length = std::floor(static_cast<double>(from[i]) * static_cast<double>(factor));
    if (from[i] < 1 || !(length >= 1 && length < 0x1p53)) return;
    if (stated.shape[i] >= 0 && length != static_cast<double>(stated.shape[i])) return;
    lengths.push_back(static_cast<std::int64_t>(length));
  }
  made.inputs.set(2, qir::kAbsent);
  made.inputs.set(
      3, node.builder.add_constant(node.name + "/sizes",
                                   {DType::I64,
                                    {static_cast<std::int64_t>(from.size())},
                                    node.builder.store().copy(lengths.data(), lengths.size() * sizeof(std::int64_t))}));
}

}  // namespace

Status resize(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  if (node.opset < 11) {
    qir::Node made = node.make(Op::Resize, {node.in(0), qir::kAbsent, node.in(1)}, "");
    made.set("mode", node.get_string("mode", "nearest"));
    made.set("coordinate_transformation_mode", std::string_view("asymmetric"));
    made.set("nearest_mode", std::string_view("floor"));
    return node.finish(std::move(made));
  }
  Vector<std::int32_t> inputs = node.inputs();
  inputs.resize(4, qir::kAbsent);
  // Opset 11 cannot leave roi and scales out and gives empty tensors instead.
  for (std::size_t i = 1; i < 4; ++i)
    if (inputs[i] != qir::kAbsent && node.builder.tensor(inputs[i]).shape == qir::Shape{0}) inputs[i] = qir::kAbsent;
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::Resize, std::move(inputs)));
  if (made.get_string("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize" &&
      made.inputs.size() > 1) {
    made.inputs.set(1, qir::kAbsent);  // roi means nothing without it
  }
  if (made.get_string("coordinate_transformation_mode", "") == "tf_half_pixel_for_nn") {
    // (x + 0.5) / scale is half_pixel's coordinate plus a half, which moves into the rounding.
    const std::string_view rounding = made.get_string("nearest_mode", "round_prefer_floor");
    const bool nearest = made.get_string("mode", "nearest") == "nearest";
    if (!nearest || (rounding != "floor" && rounding != "round_prefer_floor"))
      return node.error(ErrorId::onnx_attribute,
                        "coordinate_transformation_mode tf_half_pixel_for_nn with nearest_mode %s is not supported",
                        String(rounding));
    made.set("nearest_mode", rounding == "floor" ? std::string_view("round_prefer_ceil") : std::string_view("ceil"));
    made.set("coordinate_transformation_mode", std::string_view("half_pixel"));
  }
  take_stated_lengths(node, made);
  return node.finish(std::move(made));
}

}  // namespace quarry::onnx_import::rules
