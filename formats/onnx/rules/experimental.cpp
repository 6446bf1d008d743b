// SPDX-License-Identifier: Apache-2.0
// Operators that ai.onnx had on trial up to opset 9 and then dropped, as far as models in use have them (converters of
// Core ML models wrote them).
#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "formats/onnx/rewriter.h"

namespace quarry::onnx_import {
namespace {

using qir::Op;

Status need_image(const Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  if (node.tensor(0).shape.size() == 4) return {};
  return node.error(ErrorId::onnx_invalid, "its input has %zu dimensions, expected 4: [N,C,H,W]",
                    node.tensor(0).shape.size());
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

constexpr struct {
  std::string_view op;
  Rule rule;
} kExperimentalRules[] = {
    {"Affine", affine},
    {"Crop", crop},
    {"ImageScaler", image_scaler},
};

}  // namespace

Rule find_experimental_rule(std::string_view op) {
  const auto *found = std::ranges::find(kExperimentalRules, op, [](const auto &row) { return row.op; });
  return found == std::end(kExperimentalRules) ? nullptr : found->rule;
}

}  // namespace quarry::onnx_import
