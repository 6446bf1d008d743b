// SPDX-License-Identifier: Apache-2.0
// Regions of images, and classes as vectors.
#include "backends/htp/lower/rules.h"
#include "graph/ops/quantization.h"

namespace quarry::htp::rules {

using qnn::DataType;

Status roi_align(Lowering &l, const qir::Node &node) {
  if (node.get_string("mode", "avg") != "avg") return refuse(ErrorId::backend_limit, "mode max, expected avg");
  const Order order = channels_last(4);
  const std::int32_t x = l.stored(node.inputs[0], order), regions = l.natural(node.inputs[1]),
                     images = l.natural(node.inputs[2]);
  const float ratio = 1 / node.get_float("spatial_scale", 1);
  const float ratios[2] = {ratio, ratio};
  const auto samples = static_cast<std::int32_t>(node.get_int("sampling_ratio", 0));
  DraftNode &made = l.node("RoiAlign", {x, regions, images}, {l.result(node.outputs[0], order)});
  const std::int32_t given = l.constant(made.name + ".img_size_ratio", DataType::F32, {2}, ratios, sizeof ratios);
  made.params.push_back({"img_size_ratio", DraftParam::Ref{given}});
  l.param(made, "num_samples_y", samples > 0 ? samples : -1);
  l.param(made, "num_samples_x", samples > 0 ? samples : -1);
  l.param(made, "aligned", node.get_string("coordinate_transformation_mode", "half_pixel") == "half_pixel");
  return {};
}

// An index below 0 counts from the end.
Status one_hot(Lowering &l, const qir::Node &node) {
  const float *const values = qir::constant_floats(l.graph(), node.inputs[2]);
  const qir::Shape &out = l.tensor(node.outputs[0]).shape;
  const std::size_t axis = axis_of(node, "axis", -1, out.size());
  const std::int64_t extent = out[axis];
  QR_ASSIGN_OR_RETURN(const std::int32_t at, indices_of(l, node, 0, {&extent, 1}));
  if (!values) {  // the library's own has constants of f32
    Vector<std::uint32_t> dims = Lowering::dims_of(out, natural_order(out.size())), one = dims, each(dims.size(), 1);
    one[axis] = 1, each[axis] = dims[axis];
    Vector<std::int32_t> numbers;
    for (std::uint32_t i = 0; i < dims[axis]; ++i) numbers.push_back(static_cast<std::int32_t>(i));
    const std::int32_t classes =
        l.constant(node.name + ".classes", DataType::I32, each, numbers.data(), numbers.size() * sizeof(std::int32_t));
    const std::int32_t is_it = l.between(node.name + ".is_it", DataType::Bool8, dims), both = l.natural(node.inputs[2]);
    l.node("ElementWiseEqual", {l.reshaped(at, one), classes}, {is_it});
    l.node("ElementWiseSelect", {is_it, part_of(l, both, 0, 1, 2), part_of(l, both, 0, 0, 1)},
           {l.result(node.outputs[0])});
    return {};
  }
  DraftNode &made = l.node("OneHot", {at}, {l.result(node.outputs[0])});
  l.param(made, "depth", static_cast<std::uint32_t>(extent));
  l.param(made, "axis", static_cast<std::uint32_t>(axis));
  l.param(made, "on_value", values[1]);
  l.param(made, "off_value", values[0]);
  return {};
}

}  // namespace quarry::htp::rules
