// SPDX-License-Identifier: Apache-2.0
// Operators of ai.onnx whose older opsets mean or look otherwise than the normal form: one rule each, for opsets 7 to
// kNormalOpset.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "formats/onnx/rewriter.h"

namespace quarry::onnx_import {
namespace {

using qir::Op;

Op op_of(const Rewriter &node) { return qir::find_op("", node.proto.op_type())->op; }

// ---- values -------------------------------------------------------------------------------------

Status identity(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  node.bind(0, node.in(0));
  return {};
}

Status constant(Rewriter &node) {
  Constant made;
  const auto vector = [&](DType dtype, const auto &list) {
    made.dtype = dtype;
    made.shape = {static_cast<std::int64_t>(list.size())};
    Vector<std::decay_t<decltype(*list.begin())>> values(list.begin(), list.end());
    made.data = node.builder.store().copy(values.data(), values.size() * sizeof *values.data());
  };
  if (const auto *value = node.attribute("value"); value && value->has_t()) {
    QR_ASSIGN_OR_RETURN(made, node.importer.constant(value->t(), node.where()));
  } else if (const auto *sparse = node.attribute("sparse_value"); sparse && sparse->has_sparse_tensor()) {
    QR_ASSIGN_OR_RETURN(made, node.importer.constant(sparse->sparse_tensor(), node.where()));
  } else if (const auto *ints = node.attribute("value_ints")) {
    vector(DType::I64, Vector<std::int64_t>(ints->ints().begin(), ints->ints().end()));
  } else if (const auto *floats = node.attribute("value_floats")) {
    vector(DType::F32, Vector<float>(floats->floats().begin(), floats->floats().end()));
  } else if (const auto *integer = node.attribute("value_int")) {
    vector(DType::I64, Vector<std::int64_t>{integer->i()});
    made.shape.clear();
  } else if (const auto *real = node.attribute("value_float")) {
    vector(DType::F32, Vector<float>{real->f()});
    made.shape.clear();
  } else if (node.attribute("value_string") || node.attribute("value_strings")) {
    return node.error(ErrorId::onnx_type, "holds strings, which Quarry does not take");
  } else {
    return node.error(ErrorId::onnx_invalid, "has no value");
  }
  if (node.wants(0))
    node.bind(0, node.builder.add_constant(node.scope.prefix + String(node.proto.output(0)), std::move(made)));
  return {};
}

Status constant_of_shape(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  std::int32_t value = qir::kAbsent;
  if (const auto *given = node.attribute("value"); given && given->has_t()) {
    QR_ASSIGN_OR_RETURN(Constant made, node.importer.constant(given->t(), node.where()));
    value = node.builder.add_constant(node.name + "/value", std::move(made));
  }
  return node.finish(Op::ConstantOfShape, {node.in(0), value});
}

Status dropout(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  if (node.opset >= 12 && node.has(2)) {
    const std::int32_t mode = node.in(2);
    const bool inference = node.builder.is_constant(mode) && node.builder.tensor(mode).dtype == DType::Bool &&
                           node.builder.tensor(mode).data.size == 1 &&
                           *static_cast<const std::uint8_t *>(node.builder.tensor(mode).data.data) == 0;
    if (!inference) {
      QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::Dropout, node.inputs()));
      return node.finish(std::move(made));
    }
  }
  node.bind(0, node.in(0));
  if (node.wants(1)) {  // nothing is dropped: the mask is all true (ones of the data's type before opset 10)
    QR_ASSIGN_OR_RETURN(const std::int32_t shape, node.shape_of(node.in(0), "shape"));
    const std::int32_t one = node.number("one", node.opset < 10 ? node.tensor(0).dtype : DType::Bool, 1);
    QR_ASSIGN_OR_RETURN(const std::int32_t mask, node.step(Op::Expand, {one, shape}, "mask"));
    node.bind(1, mask);
  }
  return {};
}

// ---- attributes that became inputs --------------------------------------------------------------

// An ints attribute that is input `index` from opset `since` on.
Status ints_to_input(Rewriter &node, const char *attribute, std::int64_t since, std::size_t index) {
  Vector<std::int32_t> inputs = node.inputs();
  if (node.opset < since)
    if (const auto values = node.get_ints(attribute)) {
      inputs.resize(std::max(inputs.size(), index + 1), qir::kAbsent);
      inputs[index] = node.ints(attribute, *values);
    }
  QR_ASSIGN_OR_RETURN(qir::Node made, node.opset < since ? node.copy(op_of(node), std::move(inputs), {attribute})
                                                         : node.copy(op_of(node), std::move(inputs)));
  return node.finish(std::move(made));
}

Status squeeze(Rewriter &node) { return ints_to_input(node, "axes", 13, 1); }
Status reduce_sum(Rewriter &node) { return ints_to_input(node, "axes", 13, 1); }
Status reduce(Rewriter &node) { return ints_to_input(node, "axes", 18, 1); }

Status split(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  Vector<std::int32_t> inputs = node.inputs();
  if (node.opset < 13)
    if (const auto sizes = node.get_ints("split")) inputs = {node.in(0), node.ints("split", *sizes)};
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::Split, inputs, {"split"}));
  if (inputs.size() < 2 && !made.find("num_outputs"))
    made.set("num_outputs", static_cast<std::int64_t>(node.proto.output_size()));
  return node.finish(std::move(made));
}

Status pad(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  Vector<std::int32_t> inputs = node.inputs();
  if (node.opset < 11) {
    auto pads = node.get_ints("pads");
    if (!pads) return node.error(ErrorId::onnx_invalid, "has no attribute pads");
    inputs = {node.in(0), node.ints("pads", *pads)};
    if (const float value = node.get_float("value", 0); value != 0)
      inputs.push_back(node.number("value", node.tensor(0).dtype, value));
  }
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::Pad, std::move(inputs), {"pads", "value"}));
  return node.finish(std::move(made));
}

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

Status slice(Rewriter &node) {
  if (node.opset >= 10) return node.finish(Op::Slice, node.inputs());
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  const auto starts = node.get_ints("starts"), ends = node.get_ints("ends"), axes = node.get_ints("axes");
  if (!starts || !ends) return node.error(ErrorId::onnx_invalid, "has no attribute %s", starts ? "ends" : "starts");
  Vector<std::int32_t> inputs = {node.in(0), node.ints("starts", *starts), node.ints("ends", *ends)};
  if (axes) inputs.push_back(node.ints("axes", *axes));
  return node.finish(Op::Slice, std::move(inputs));
}

Status top_k(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  Vector<std::int32_t> inputs = node.inputs();
  if (node.opset < 10) {
    const std::int64_t k = node.get_int("k", -1);
    if (k < 0) return node.error(ErrorId::onnx_invalid, "has no attribute k");
    inputs = {node.in(0), node.ints("k", {&k, 1})};
  }
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::TopK, std::move(inputs), {"k"}));
  return node.finish(std::move(made));
}

Status dft(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  Vector<std::int32_t> inputs = node.inputs();
  if (node.opset < 20)
    inputs = {node.in(0), node.in(1), node.builder.add_int(node.name + "/axis", node.get_int("axis", 1))};
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::DFT, std::move(inputs), {"axis"}));
  return node.finish(std::move(made));
}

// ---- changed meaning ----------------------------------------------------------------------------

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

Status grid_sample(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::GridSample, node.inputs(), {"mode"}));
  const std::string_view mode = node.get_string("mode", "linear");
  made.set("mode", mode == "bilinear"  ? std::string_view("linear")
                   : mode == "bicubic" ? std::string_view("cubic")
                                       : mode);
  return node.finish(std::move(made));
}

Status roi_align(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::RoiAlign, node.inputs()));
  if (node.opset < 16 && !made.find("coordinate_transformation_mode"))
    made.set("coordinate_transformation_mode", std::string_view("output_half_pixel"));
  return node.finish(std::move(made));
}

Status scatter(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::ScatterElements, node.inputs()));
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

// align_corners stretches to scale * length, which may be no whole number. Where the scales are constants and the model
// states the shape of the result, its exporter meant that length, as PyTorch and ONNX Runtime compute it.
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
  for (std::size_t i = 0; i < from.size(); ++i) {
    float factor;
    std::memcpy(&factor, static_cast<const std::uint8_t *>(factors.data.data) + i * sizeof factor, sizeof factor);
    // As inference rounds it, or the statement is of another result.
    const double length = std::floor(static_cast<double>(from[i]) * static_cast<double>(factor));
    if (from[i] < 1 || stated.shape[i] < 1 || length != static_cast<double>(stated.shape[i])) return;
  }
  made.inputs.set(2, qir::kAbsent);
  made.inputs.set(3, node.builder.add_constant(
                         node.name + "/sizes",
                         {DType::I64,
                          {static_cast<std::int64_t>(from.size())},
                          node.builder.store().copy(stated.shape.data(), stated.shape.size() * sizeof(std::int64_t))}));
}

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

// Min, Max, Sum, Mean of one value are that value.
Status variadic(Rewriter &node) {
  if (node.input_count() == 1) return identity(node);
  return node.finish(op_of(node), node.inputs());
}

// ONNX Runtime takes -1 as the last axis; QIR has axes as they count.
Status transpose(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::Transpose, node.inputs()));
  if (const Vector<std::int64_t> *given = made.get_ints("perm")) {
    Vector<std::int64_t> perm = *given;
    const auto rank = static_cast<std::int64_t>(node.tensor(0).shape.size());
    for (std::int64_t &axis : perm)
      if (axis < 0 && axis >= -rank) axis += rank;
    made.set("perm", std::move(perm));
  }
  return node.finish(std::move(made));
}

Status cast(Rewriter &node) {
  QR_ASSIGN_OR_RETURN([[maybe_unused]] const DType to,
                      element_type(static_cast<std::int32_t>(node.get_int("to", 0)), node.where()));
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::Cast, node.inputs()));
  return node.finish(std::move(made));
}

constexpr struct {
  std::string_view op;
  Rule rule;
} kStandardRules[] = {
    {"BatchNormalization", batch_normalization},
    {"Cast", cast},
    {"Clip", clip},
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
    {"DFT", dft},
    {"Dropout", dropout},
    {"GridSample", grid_sample},
    {"GroupNormalization", group_normalization},
    {"Hardmax", softmax},
    {"Identity", identity},
    {"LogSoftmax", softmax},
    {"Max", variadic},
    {"Mean", variadic},
    {"Min", variadic},
    {"Pad", pad},
    {"ReduceL1", reduce},
    {"ReduceL2", reduce},
    {"ReduceLogSum", reduce},
    {"ReduceLogSumExp", reduce},
    {"ReduceMax", reduce},
    {"ReduceMean", reduce},
    {"ReduceMin", reduce},
    {"ReduceProd", reduce},
    {"ReduceSum", reduce_sum},
    {"ReduceSumSquare", reduce},
    {"Resize", resize},
    {"RoiAlign", roi_align},
    {"Scatter", scatter},
    {"Slice", slice},
    {"Softmax", softmax},
    {"Split", split},
    {"Squeeze", squeeze},
    {"Sum", variadic},
    {"TopK", top_k},
    {"Transpose", transpose},
    {"Unsqueeze", squeeze},
    {"Upsample", upsample},
};

}  // namespace

Rule find_standard_rule(std::string_view op) {
  const auto *found = std::ranges::find(kStandardRules, op, [](const auto &row) { return row.op; });
  return found == std::end(kStandardRules) ? nullptr : found->rule;
}

}  // namespace quarry::onnx_import
