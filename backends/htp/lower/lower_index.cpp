// SPDX-License-Identifier: Apache-2.0
// Operators that move values by indices, and sums along an axis.
#include "backends/htp/lower/rules.h"

namespace quarry::htp::rules {

using qnn::DataType;

namespace {

// Of ScatterElements and ScatterNd; nothing: the library has none.
std::optional<std::uint32_t> reduction_of(const qir::Node &node) {
  const std::string_view word = node.get_string("reduction", "none");
  if (word == "none") return 0u;
  if (word == "add") return 1u;
  if (word == "mul") return 2u;
  return std::nullopt;
}

Status no_reduction(const qir::Node &node) {
  return refuse(ErrorId::backend_limit, format("reduction %s, expected none, add or mul",
                                               printable(node.get_string("reduction", "none")).c_str()));
}

// How many axes an index of GatherND or ScatterND names.
std::size_t indexed_axes(Lowering &l, const qir::Node &node) {
  return static_cast<std::size_t>(l.tensor(node.inputs[1]).shape.back());
}

}  // namespace

// A negative index counts from the end; the library takes it for 0. Those of a constant are counted here, others on the
// device. `extents`: one for all, or one for each element of the last axis.
Result<std::int32_t> indices_of(Lowering &l, const qir::Node &node, std::size_t input,
                                std::span<const std::int64_t> extents) {
  const qir::Tensor &indices = l.tensor(node.inputs[input]);
  const Vector<std::uint32_t> dims = Lowering::dims_of(indices.shape, natural_order(indices.shape.size()));
  if (indices.is_constant) {
    QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> given, constant_ints(l, node, input, "indices"));
    Vector<std::int32_t> values;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const std::int64_t extent = extents[i % extents.size()], index = given[i];
      if (index < -extent || index >= extent)
        return refuse(ErrorId::backend_limit,
                      format("index %lld, expected one from %lld to %lld", static_cast<long long>(index),
                             static_cast<long long>(-extent), static_cast<long long>(extent - 1)));
      values.push_back(static_cast<std::int32_t>(index < 0 ? index + extent : index));
    }
    return l.constant(indices.name, DataType::I32, dims, values.data(), values.size() * 4);
  }
  Vector<std::int32_t> ends;
  for (const std::int64_t extent : extents) ends.push_back(static_cast<std::int32_t>(extent));
  Vector<std::uint32_t> end_dims(dims.size(), 1);
  end_dims.back() = static_cast<std::uint32_t>(ends.size());
  const std::int32_t at = l.natural(node.inputs[input]), zero = scalar_like(l, node.inputs[input], "zero", 0);
  const std::int32_t end = l.constant(node.name + ".extent", DataType::I32, end_dims, ends.data(), ends.size() * 4);
  const std::int32_t is_negative = l.between(node.name + ".negative", DataType::Bool8, dims);
  const std::int32_t from_end = l.between(node.name + ".from_end", DataType::I32, dims);
  const std::int32_t counted = l.between(node.name + ".indices", DataType::I32, dims);
  l.node("ElementWiseLess", {at, zero}, {is_negative});
  l.node("ElementWiseAdd", {at, end}, {from_end});
  l.node("ElementWiseSelect", {is_negative, from_end, at}, {counted});
  return counted;
}

Status gather_elements(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]), axis = axis_of(node, "axis", 0, rank);
  QR_ASSIGN_OR_RETURN(const std::int32_t at, indices_of(l, node, 1, {&l.tensor(node.inputs[0]).shape[axis], 1}));
  const std::int32_t x = l.natural(node.inputs[0]);
  DraftNode &made = l.node("GatherElements", {x, at}, {l.result(node.outputs[0])});
  l.param(made, "axis", static_cast<std::uint32_t>(axis));
  return {};
}

Status gather_nd(Lowering &l, const qir::Node &node) {
  const std::size_t batch = static_cast<std::size_t>(node.get_int("batch_dims", 0));
  const std::span<const std::int64_t> shape = l.tensor(node.inputs[0]).shape;
  QR_ASSIGN_OR_RETURN(const std::int32_t at, indices_of(l, node, 1, shape.subspan(batch, indexed_axes(l, node))));
  const std::int32_t x = l.natural(node.inputs[0]);
  DraftNode &made = l.node("GatherNd", {x, at}, {l.result(node.outputs[0])});
  l.param(made, "batch_dims", static_cast<std::uint32_t>(batch));
  return {};
}

Status scatter_elements(Lowering &l, const qir::Node &node) {
  const std::optional<std::uint32_t> reduction = reduction_of(node);
  if (!reduction) return no_reduction(node);
  const std::size_t rank = l.rank(node.inputs[0]), axis = axis_of(node, "axis", 0, rank);
  QR_ASSIGN_OR_RETURN(const std::int32_t at, indices_of(l, node, 1, {&l.tensor(node.inputs[0]).shape[axis], 1}));
  const std::int32_t x = l.natural(node.inputs[0]), updates = l.natural(node.inputs[2]);
  DraftNode &made = l.node("ScatterElements", {x, at, updates}, {l.result(node.outputs[0])});
  l.param(made, "axis", static_cast<std::uint32_t>(axis));
  l.param(made, "reduction", *reduction);
  return {};
}

Status scatter_nd(Lowering &l, const qir::Node &node) {
  const std::optional<std::uint32_t> reduction = reduction_of(node);
  if (!reduction) return no_reduction(node);
  const std::span<const std::int64_t> shape = l.tensor(node.inputs[0]).shape;
  QR_ASSIGN_OR_RETURN(const std::int32_t at, indices_of(l, node, 1, shape.first(indexed_axes(l, node))));
  const std::int32_t x = l.natural(node.inputs[0]), updates = l.natural(node.inputs[2]);
  l.param(l.node("ScatterNd", {x, at, updates}, {l.result(node.outputs[0])}), "reduction", *reduction);
  return {};
}

Status cumulative_sum(Lowering &l, const qir::Node &node) {
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> axes, constant_ints(l, node, 1, "axis"));
  const std::size_t rank = l.rank(node.inputs[0]);
  const std::int64_t given = axes.empty() ? 0 : axes[0];
  const std::size_t axis = static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(rank) : given);
  const Order order = l.order(node.inputs[0]);
  const std::int32_t x = l.stored(node.inputs[0], order);
  DraftNode &made = l.node("CumulativeSum", {x}, {l.result(node.outputs[0], order)});
  l.param(made, "axis", place_of(order, axis));
  l.param(made, "exclusive", node.get_int("exclusive", 0) != 0);
  l.param(made, "reverse", node.get_int("reverse", 0) != 0);
  return {};
}

Status grid_sample(Lowering &l, const qir::Node &node) {
  if (l.rank(node.inputs[0]) != 4)
    return refuse(ErrorId::backend_limit, format("rank %zu, expected 4", l.rank(node.inputs[0])));
  const std::string_view mode = node.get_string("mode", "linear"), edge = node.get_string("padding_mode", "zeros");
  if (mode != "linear")  // nearest rounds halves another way
    return refuse(ErrorId::backend_limit, format("mode %s, expected linear", printable(mode).c_str()));
  const Order order = channels_last(4);
  const std::int32_t x = l.stored(node.inputs[0], order), grid = l.natural(node.inputs[1]);
  DraftNode &made = l.node("GridSample", {x, grid}, {l.result(node.outputs[0], order)});
  l.param(made, "align_corners", node.get_int("align_corners", 0) != 0);
  l.param(made, "mode", std::uint32_t{0});
  l.param(made, "padding_mode", std::uint32_t{edge == "zeros" ? 0u : edge == "border" ? 1u : 2u});
  return {};
}

// A constant mask chooses between the values and zero.
Status trilu(Lowering &l, const qir::Node &node) {
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> given, constant_ints(l, node, 1, "k"));
  const std::int64_t k = given.empty() ? 0 : given[0];
  const bool upper = node.get_int("upper", 1) != 0;
  const qir::Shape &shape = l.tensor(node.inputs[0]).shape;
  const std::size_t rank = shape.size();
  const std::int64_t rows = shape[rank - 2], columns = shape[rank - 1];
  Vector<std::uint8_t> mask;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) mask.push_back(upper ? j - i >= k : j - i <= k);
  Vector<std::uint32_t> dims(rank, 1);
  dims[rank - 2] = static_cast<std::uint32_t>(rows), dims[rank - 1] = static_cast<std::uint32_t>(columns);
  const std::int32_t x = l.natural(node.inputs[0]);
  const std::int32_t chosen = l.constant(node.name + ".mask", qnn::DataType::Bool8, dims, mask.data(), mask.size());
  const std::int32_t zero = scalar_like(l, node.inputs[0], "zero", 0);
  l.node("ElementWiseSelect", {chosen, x, zero}, {l.result(node.outputs[0])});
  return {};
}

}  // namespace quarry::htp::rules
