// SPDX-License-Identifier: Apache-2.0
// Reductions over axes.
#include <algorithm>

#include "backends/htp/lower/rules.h"
#include "base/small_sort.h"

namespace quarry::htp::rules {

using qir::Op;

namespace {

// The order of what is left when axes go: they keep their order among themselves.
Order without(const Order &order, const bool *gone, bool keep) {
  if (keep) return order;
  Order left;
  for (const std::uint8_t axis : order) {
    if (gone[axis]) continue;
    std::uint8_t number = 0;
    for (std::uint8_t i = 0; i < axis; ++i) number = static_cast<std::uint8_t>(number + !gone[i]);
    left.push_back(number);
  }
  return left;
}

}  // namespace

Status reduce(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]);
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> given, constant_ints(l, node, 1, "axes"));
  bool gone[qir::kMaxRank] = {};
  QR_RETURN_IF_ERROR(qir::resolve_reduce(node, given, rank, &gone));
  const Order order = l.order(node.inputs[0]);
  const bool keep = node.get_int("keepdims", 1) != 0;
  Vector<std::uint32_t> axes;
  for (std::size_t axis = 0; axis < rank; ++axis)
    if (gone[axis]) axes.push_back(place_of(order, axis));
  small_sort(axes);  // the library's sum over axes in another order, without keep_dims, is one of its operands
  const std::int32_t x = l.stored(node.inputs[0], order);
  if (axes.empty()) {
    l.same_as(node.outputs[0], x, order);
    return {};
  }
  const char *const name = node.op == Op::ReduceMax   ? "ReduceMax"
                           : node.op == Op::ReduceMin ? "ReduceMin"
                           : node.op == Op::ReduceSum ? "ReduceSum"
                                                      : "ReduceMean";
  DraftNode &made = l.node(name, {x}, {l.result(node.outputs[0], without(order, gone, keep))});
  l.param(made, "axes", axes);
  l.param(made, "keep_dims", keep);
  return {};
}

Status arg_reduce(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]), axis = axis_of(node, "axis", 0, rank);
  const bool keep = node.get_int("keepdims", 1) != 0;
  const Order order = l.order(node.inputs[0]);
  bool gone[qir::kMaxRank] = {};
  gone[axis] = true;
  std::int32_t x = l.stored(node.inputs[0], order);
  const std::uint32_t place = place_of(order, axis);
  const std::int32_t y = l.result(node.outputs[0], without(order, gone, keep));
  // The least of floats along a last axis of two the library takes from elsewhere; the greatest it does not.
  const bool negates = node.op == qir::Op::ArgMin && l.drafted(x).encoding.scales.empty() &&
                       (l.drafted(x).dtype == qnn::DataType::F32 || l.drafted(x).dtype == qnn::DataType::F16);
  if (negates) {
    const DraftTensor from = l.drafted(x);
    const std::int32_t negative = l.between(from.name, from.dtype, from.dims);
    l.node("ElementWiseNeg", {x}, {negative});
    x = negative;
  }
  const bool last = node.get_int("select_last_index", 0) != 0;
  std::int32_t found = y;
  if (last) {  // the first of those in reverse
    const DraftTensor from = l.drafted(x);
    Vector<std::int32_t> backwards;
    for (std::uint32_t i = from.dims[place]; i-- > 0;) backwards.push_back(static_cast<std::int32_t>(i));
    const std::int32_t at = l.constant(node.name + ".backwards", qnn::DataType::I32, {from.dims[place]},
                                       backwards.data(), backwards.size() * 4);
    const std::int32_t turned = l.between(from.name, from.dtype, from.dims, from.encoding);
    l.param(l.node("Gather", {x, at}, {turned}), "axis", static_cast<std::int32_t>(place));
    x = turned;
    found = l.between(node.name + ".from_end", l.drafted(y).dtype, l.drafted(y).dims);
  }
  DraftNode &made = l.node(node.op == Op::ArgMax || negates ? "Argmax" : "Argmin", {x}, {found});
  l.param(made, "axis", place);
  l.param(made, "keep_dims", keep);
  if (last) {
    const std::int32_t end = static_cast<std::int32_t>(l.drafted(x).dims[place]) - 1;
    l.node("ElementWiseSubtract", {l.constant(node.name + ".last", qnn::DataType::I32, {1}, &end, sizeof end), found},
           {y});
  }
  return {};
}

Status top_k(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]), axis = axis_of(node, "axis", -1, rank);
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> k, constant_ints(l, node, 1, "k"));
  Order order = natural_order(rank);
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(axis));
  order.push_back(static_cast<std::uint8_t>(axis));
  const std::int32_t x = l.stored(node.inputs[0], order);
  const std::int32_t values =
      node.outputs[0] == qir::kAbsent
          ? l.between(node.inputs[0], "~values", Lowering::dims_of(l.tensor(node.outputs[1]).shape, order))
          : l.result(node.outputs[0], order);
  const std::int32_t indices = node.outputs.size() < 2 || node.outputs[1] == qir::kAbsent
                                   ? l.between(node.name + ".indices", qnn::DataType::I32,
                                               Lowering::dims_of(l.tensor(node.outputs[0]).shape, order))
                                   : l.result(node.outputs[1], order);
  DraftNode &made = l.node("TopK", {x}, {values, indices});
  l.param(made, "k", static_cast<std::uint32_t>(k.empty() ? 1 : k[0]));
  l.param(made, "largest", node.get_int("largest", 1) != 0);
  return {};
}

}  // namespace quarry::htp::rules
