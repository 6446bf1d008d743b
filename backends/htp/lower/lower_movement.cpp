// SPDX-License-Identifier: Apache-2.0
// Operators that move values and compute none.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/htp/lower/rules.h"
#include "base/checked.h"
#include "formats/qir/quantization.h"

namespace quarry::htp::rules {

using qnn::DataType;

namespace {

bool is_empty(const qir::Tensor &tensor) {
  return std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
}

// The order of the first operand of full rank that is not stored as the model has it.
Order order_of_inputs(Lowering &l, const qir::Node &node) {
  for (const std::int32_t id : node.inputs)
    if (id != qir::kAbsent && !l.tensor(id).is_constant && !is_natural(l.order(id))) return l.order(id);
  return natural_order(l.rank(node.inputs[0]));
}

}  // namespace

Status reshape(Lowering &l, const qir::Node &node) {
  const std::int32_t x = l.natural(node.inputs[0]);
  l.node("Reshape", {x}, {l.result(node.outputs[0])});
  return {};
}

// Nothing moves: what is stored is the same, its axes have other numbers. Who wants another order moves it then.
Status transpose(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]);
  const Vector<std::int64_t> *const perm = node.get_ints("perm");
  const Order from = l.order(node.inputs[0]);
  Order to(rank);
  for (std::size_t out = 0; out < rank; ++out) {
    const std::size_t in = perm ? static_cast<std::size_t>((*perm)[out]) : rank - 1 - out;
    to[place_of(from, in)] = static_cast<std::uint8_t>(out);
  }
  l.same_as(node.outputs[0], l.stored(node.inputs[0], from), to);
  return {};
}

Status concat(Lowering &l, const qir::Node &node) {
  const Order order = order_of_inputs(l, node);
  const std::size_t axis = axis_of(node, "axis", 0, order.size());
  Vector<std::int32_t> parts;
  for (const std::int32_t id : node.inputs)
    if (!is_empty(l.tensor(id))) parts.push_back(l.stored(id, order));
  if (parts.size() == 1) {
    l.same_as(node.outputs[0], parts[0], order);
    return {};
  }
  const std::int32_t y = l.result(node.outputs[0], order);
  DraftNode &written = l.node("Concat", {}, {y});
  written.inputs = std::move(parts);
  l.param(written, "axis", place_of(order, axis));
  return {};
}

Status split(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  const std::size_t axis = axis_of(node, "axis", 0, order.size());
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> given, constant_ints(l, node, 1, "sizes"));
  Vector<std::int64_t> sizes;
  QR_RETURN_IF_ERROR(qir::resolve_split(node, l.tensor(node.inputs[0]).shape[axis], given, &sizes));
  Vector<std::uint32_t> cuts;
  std::uint32_t at = 0;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) cuts.push_back(at += static_cast<std::uint32_t>(sizes[i]));
  const std::int32_t x = l.stored(node.inputs[0], order);
  if (cuts.empty()) {
    l.same_as(node.outputs[0], x, order);
    return {};
  }
  Vector<std::int32_t> parts;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    Vector<std::uint32_t> dims = l.drafted(x).dims;
    dims[place_of(order, axis)] = static_cast<std::uint32_t>(sizes[i]);
    parts.push_back(node.outputs[i] == qir::kAbsent ? l.between(node.inputs[0], "~part", dims)
                                                    : l.result(node.outputs[i], order));
  }
  DraftNode &made = l.node("Split", {x}, {});
  made.outputs = std::move(parts);
  l.param(made, "axis", place_of(order, axis));
  l.param(made, "split_index", cuts);
  return {};
}

Status slice(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  Vector<std::int64_t> lists[4];
  static constexpr const char *kNames[4] = {"starts", "ends", "axes", "steps"};
  for (std::size_t i = 0; i < 4; ++i) {
    QR_ASSIGN_OR_RETURN(lists[i], constant_ints(l, node, i + 1, kNames[i]));
  }
  qir::SliceGeometry g;
  QR_RETURN_IF_ERROR(
      qir::resolve_slice(node, l.tensor(node.inputs[0]).shape, lists[0], lists[1], lists[2], lists[3], &g));
  Vector<std::int32_t> ranges;
  for (const std::uint8_t axis : order) {
    ranges.push_back(static_cast<std::int32_t>(g.start[axis]));
    ranges.push_back(static_cast<std::int32_t>(g.start[axis] + g.step[axis] * g.extent[axis]));
    ranges.push_back(static_cast<std::int32_t>(g.step[axis]));
  }
  const std::int32_t x = l.stored(node.inputs[0], order);
  DraftNode &made = l.node("StridedSlice", {x}, {l.result(node.outputs[0], order)});
  l.param(made, "ranges", ranges, {static_cast<std::uint32_t>(order.size()), 3});
  for (const char *const mask : {"begin_mask", "end_mask", "shrink_axes", "new_axes_mask"})
    l.param(made, mask, std::uint32_t{0});
  return {};
}

Status pad(Lowering &l, const qir::Node &node) {
  const std::string_view mode = node.get_string("mode", "constant");
  if (mode == "wrap") return refuse(ErrorId::backend_limit, "mode wrap, expected constant, reflect or edge");
  const Order order = l.order(node.inputs[0]);
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> pads, constant_ints(l, node, 1, "pads"));
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> axes, constant_ints(l, node, 3, "axes"));
  qir::PadGeometry g;
  QR_RETURN_IF_ERROR(
      qir::resolve_pad(node, l.tensor(node.inputs[0]).shape, pads, qir::input_of(node, 3) != qir::kAbsent, axes, &g));
  Vector<std::uint32_t> amounts;
  for (const std::uint8_t axis : order) {
    if (g.begin[axis] < 0 || g.end[axis] < 0)
      return refuse(ErrorId::backend_limit, "negative pads, expected none: crop with a Slice");
    amounts.push_back(static_cast<std::uint32_t>(g.begin[axis]));
    amounts.push_back(static_cast<std::uint32_t>(g.end[axis]));
  }
  const std::int32_t value_id = qir::input_of(node, 2);
  const std::optional<float> value = value_id == qir::kAbsent ? std::optional<float>(0.0f) : scalar_of(l, value_id);
  if (!value) return refuse(ErrorId::backend_limit, "the value is known only at run time, expected a constant");
  const qir::Tensor &data = l.tensor(node.inputs[0]);
  const std::int32_t x = l.stored(node.inputs[0], order);
  DraftNode &made = l.node("Pad", {x}, {l.result(node.outputs[0], order)});
  l.param(made, "scheme", std::uint32_t{mode == "constant" ? 0u : mode == "reflect" ? 2u : 3u});
  l.param(made, "pad_amount", amounts, {static_cast<std::uint32_t>(order.size()), 2});
  if (mode == "constant") {
    if (data.quant) {
      const std::int64_t stored =
          qir::quantized_value(*value, data.quant->scales[0], data.quant->zero_points[0], data.dtype);
      l.param(made, "pad_constant_value", static_cast<std::int32_t>(stored));
    } else if (data.dtype == DType::F32 || data.dtype == DType::F16 || data.dtype == DType::BF16) {
      l.param(made, "pad_constant_value", *value);
    } else {
      l.param(made, "pad_constant_value", static_cast<std::int32_t>(*value));
    }
  }
  return {};
}

Status tile(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> repeats, constant_ints(l, node, 1, "repeats"));
  Vector<std::uint32_t> multiples;
  for (const std::uint8_t axis : order) multiples.push_back(static_cast<std::uint32_t>(repeats[axis]));
  const std::int32_t x = l.stored(node.inputs[0], order);
  l.param(l.node("Tile", {x}, {l.result(node.outputs[0], order)}), "multiples", multiples);
  return {};
}

Status expand(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.outputs[0]);
  const Order order = l.rank(node.inputs[0]) == rank ? l.order(node.inputs[0]) : natural_order(rank);
  std::int32_t x = l.broadcast(node.inputs[0], order);
  const Vector<std::uint32_t> from = l.drafted(x).dims, to = Lowering::dims_of(l.tensor(node.outputs[0]).shape, order);
  Vector<std::uint32_t> multiples;
  bool grows = false;
  for (std::size_t i = 0; i < to.size(); ++i) {
    multiples.push_back(to[i] / (i < from.size() ? from[i] : 1));
    grows |= multiples.back() != 1;
  }
  if (!grows) {
    l.same_as(node.outputs[0], x, order);
    return {};
  }
  l.param(l.node("Tile", {x}, {l.result(node.outputs[0], order)}), "multiples", multiples);
  return {};
}

Status gather(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]), axis = axis_of(node, "axis", 0, rank);
  const qir::Tensor &indices = l.tensor(node.inputs[1]);
  QR_ASSIGN_OR_RETURN(const std::int32_t at, indices_of(l, node, 1, {&l.tensor(node.inputs[0]).shape[axis], 1}));
  const std::int32_t x = l.natural(node.inputs[0]);
  // A single index makes an extent of 1 that the model does not have.
  Vector<std::uint32_t> dims = l.drafted(x).dims;
  const bool scalar = indices.shape.empty();
  std::int32_t y;
  if (scalar) {
    dims[axis] = 1;
    y = l.between(node.outputs[0], "~gathered", dims);
  } else {
    y = l.result(node.outputs[0]);
  }
  l.param(l.node("Gather", {x, at}, {y}), "axis", static_cast<std::int32_t>(axis));
  if (scalar) l.node("Reshape", {y}, {l.result(node.outputs[0])});
  return {};
}

}  // namespace quarry::htp::rules
