// SPDX-License-Identifier: Apache-2.0
// Elements in another shape or order, and constants.
#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

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

Status squeeze(Rewriter &node) { return ints_to_input(node, "axes", 13, 1); }

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

Status slice(Rewriter &node) {
  if (node.opset >= 10) return node.finish(Op::Slice, node.inputs());
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  const auto starts = node.get_ints("starts"), ends = node.get_ints("ends"), axes = node.get_ints("axes");
  if (!starts || !ends) return node.error(ErrorId::onnx_invalid, "has no attribute %s", starts ? "ends" : "starts");
  Vector<std::int32_t> inputs = {node.in(0), node.ints("starts", *starts), node.ints("ends", *ends)};
  if (axes) inputs.push_back(node.ints("axes", *axes));
  return node.finish(Op::Slice, std::move(inputs));
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

// Cuts a border off an image: `border` is left, top, right, bottom; `scale` is the height and width that are kept, from
// the top left corner within the border on, and makes right and bottom mean nothing.
Status crop(Rewriter &node) {
  QR_RETURN_IF_ERROR(need_image(node));
  const qir::Shape &shape = node.tensor(0).shape;
  const auto border = node.get_ints("border");
  const Vector<std::int64_t> kept = node.get_ints("scale").value_or(Vector<std::int64_t>());
  if (!border || border->size() != 4 || (!kept.empty() && kept.size() != 2))
    return node.error(ErrorId::onnx_invalid, "has %zu entries in border and %zu in scale, expected 4 and 0 or 2",
                      border ? border->size() : 0, kept.size());
  const auto negative = [](std::int64_t value) { return value < 0; };
  if (std::ranges::any_of(*border, negative) || std::ranges::any_of(kept, negative))
    return node.error(ErrorId::onnx_invalid, "has a negative entry in border or scale");
  std::int64_t starts[2], ends[2];
  for (std::size_t i = 0; i < 2; ++i) {  // height, width
    const std::int64_t extent = shape[2 + i], before = (*border)[1 - i], after = (*border)[3 - i];
    std::int64_t needed = 0;
    if (!checked_add(before, kept.empty() ? after : kept[i], &needed) || (extent >= 0 && needed > extent))
      return node.error(ErrorId::onnx_invalid, "the image is %lld %s, too little for what border and scale take",
                        extent, i == 0 ? "high" : "wide");
    starts[i] = before;
    if (!kept.empty()) ends[i] = needed;
    else ends[i] = after > 0 ? -after : std::numeric_limits<std::int64_t>::max();
  }
  constexpr std::int64_t kAxes[] = {2, 3};
  return node.finish(Op::Slice,
                     {node.in(0), node.ints("starts", starts), node.ints("ends", ends), node.ints("axes", kAxes)});
}

// Conv, Gelu and others that ONNX Runtime moved into its own domain but mean as ai.onnx does.
Status same_as_standard(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(qir::find_op("", node.proto.op_type())->op, node.inputs()));
  return node.finish(std::move(made));
}

}  // namespace quarry::onnx_import::rules
