// SPDX-License-Identifier: Apache-2.0
// Normalisations over groups and over chosen axes, by the library's LayerNorm; and products along axes.
#include <cstring>

#include "backends/htp/lower/rules.h"

namespace quarry::htp::rules {

using qnn::DataType;

namespace {

Status want_float(Lowering &l, const qir::Node &node) {
  if (!l.tensor(node.inputs[0]).quant) return {};
  return refuse(ErrorId::backend_type,
                format("%s on quantised tensors, expected its data as f32 between DequantizeLinear and QuantizeLinear",
                       qir::op_text(node)));
}

// A constant of one number in each element, in the type of a tensor of the model.
std::int32_t filled(Lowering &l, std::int32_t like, const char *name, float value, Vector<std::uint32_t> dims) {
  const std::int32_t one = scalar_like(l, like, name, value);
  const DraftTensor from = l.drafted(one);
  std::uint64_t count = 1;
  for (const std::uint32_t extent : dims) count *= extent;
  auto *const bytes = static_cast<std::uint8_t *>(l.store().allocate(count * from.data.size));
  for (std::uint64_t i = 0; i < count; ++i) std::memcpy(bytes + i * from.data.size, from.data.data, from.data.size);
  return l.constant(from.name, from.dtype, std::move(dims), {bytes, count * from.data.size}, from.encoding);
}

// y = (x - mean) / sqrt(variance + epsilon) over the last axis of a matrix.
void normalise_rows(Lowering &l, std::int32_t like, std::int32_t x, float epsilon, std::int32_t y) {
  const Vector<std::uint32_t> row = {l.drafted(x).dims.back()};
  const std::int32_t scale = filled(l, like, "one", 1, row), bias = filled(l, like, "zero", 0, row);
  DraftNode &made = l.node("LayerNorm", {x, scale, bias}, {y});
  l.param(made, "epsilon", epsilon);
  l.param(made, "axes", Vector<std::uint32_t>{1});
}

}  // namespace

// [N, C, ...] as [N * groups, the rest], whose rows are normalised. InstanceNormalization has a group for each channel.
Status group_normalization(Lowering &l, const qir::Node &node) {
  QR_RETURN_IF_ERROR(want_float(l, node));
  const std::int32_t x = l.natural(node.inputs[0]);
  const Vector<std::uint32_t> dims = l.drafted(x).dims;
  const auto groups =
      node.op == qir::Op::InstanceNormalization ? dims[1] : static_cast<std::uint32_t>(node.get_int("num_groups", 1));
  std::uint32_t rest = dims[1] / groups;
  for (std::size_t i = 2; i < dims.size(); ++i) rest *= dims[i];
  const Vector<std::uint32_t> rows = {dims[0] * groups, rest};
  const std::int32_t flat = l.between(node.inputs[0], "~groups", rows),
                     normal = l.between(node.inputs[0], "~normal", rows),
                     shaped = l.between(node.inputs[0], "~shaped", dims);
  l.node("Reshape", {x}, {flat});
  normalise_rows(l, node.inputs[0], flat, node.get_float("epsilon", 1e-5f), normal);
  l.node("Reshape", {normal}, {shaped});
  // Scale and bias of a channel stand at axis 1.
  std::int32_t given[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int32_t id = node.inputs[i + 1], from = l.natural(id);
    Vector<std::uint32_t> wide(dims.size(), 1);
    wide[1] = dims[1];
    if (l.tensor(id).is_constant) {
      const DraftTensor constant = l.drafted(from);
      given[i] = l.constant(constant.name, constant.dtype, wide, constant.data);
    } else {
      given[i] = l.between(id, "~channels", wide);
      l.node("Reshape", {from}, {given[i]});
    }
  }
  const std::int32_t scaled = l.between(node.inputs[0], "~scaled", dims);
  l.node("ElementWiseMultiply", {shaped, given[0]}, {scaled});
  l.node("ElementWiseAdd", {scaled, given[1]}, {l.result(node.outputs[0])});
  return {};
}

// The axes are moved to the end and made one.
Status mean_variance_normalization(Lowering &l, const qir::Node &node) {
  QR_RETURN_IF_ERROR(want_float(l, node));
  const std::size_t rank = l.rank(node.inputs[0]);
  const Vector<std::int64_t> *const given = node.get_ints("axes");
  bool gone[qir::kMaxRank] = {};
  for (const std::int64_t axis : given ? *given : Vector<std::int64_t>{0, 2, 3}) {
    const std::int64_t at = axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
    if (at < 0 || at >= static_cast<std::int64_t>(rank))
      return refuse(ErrorId::backend_limit, format("axis %lld, expected one of %zu", axis, rank));
    gone[at] = true;
  }
  Order order;
  for (const bool wanted : {false, true})
    for (std::size_t axis = 0; axis < rank; ++axis)
      if (gone[axis] == wanted) order.push_back(static_cast<std::uint8_t>(axis));
  const std::int32_t x = l.stored(node.inputs[0], order);
  const Vector<std::uint32_t> dims = l.drafted(x).dims;
  Vector<std::uint32_t> rows = {1, 1};
  for (std::size_t i = 0; i < rank; ++i) rows[gone[order[i]] ? 1 : 0] *= dims[i];
  const std::int32_t flat = l.between(node.inputs[0], "~rows", rows),
                     normal = l.between(node.inputs[0], "~normal", rows);
  l.node("Reshape", {x}, {flat});
  normalise_rows(l, node.inputs[0], flat, 1e-9f, normal);
  l.node("Reshape", {normal}, {l.result(node.outputs[0], order)});
  return {};
}

// The library has none: the two parts are multiplied until one is left; an element that has no partner waits behind
// them.
std::int32_t product_along(Lowering &l, std::int32_t x, std::size_t position) {
  const DraftTensor like = l.drafted(x);
  Vector<std::uint32_t> dims = like.dims;
  const auto fresh = [&] { return l.between(like.name, like.dtype, dims, like.encoding); };
  while (dims[position] > 1) {
    const std::uint32_t half = dims[position] / 2, odd = dims[position] % 2;
    const std::int32_t a = part_of(l, x, position, 0, half), b = part_of(l, x, position, half, 2 * half),
                       rest = odd ? part_of(l, x, position, 2 * half, dims[position]) : -1;
    dims[position] = half;
    std::int32_t product = fresh();
    l.node("ElementWiseMultiply", {a, b}, {product});
    if (odd) {
      ++dims[position];
      const std::int32_t with = fresh();
      l.param(l.node("Concat", {product, rest}, {with}), "axis", static_cast<std::uint32_t>(position));
      product = with;
    }
    x = product;
  }
  return x;
}

Status reduce_product(Lowering &l, const qir::Node &node) {
  QR_RETURN_IF_ERROR(want_float(l, node));
  const std::size_t rank = l.rank(node.inputs[0]);
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> given, constant_ints(l, node, 1, "axes"));
  bool gone[qir::kMaxRank] = {};
  QR_RETURN_IF_ERROR(qir::resolve_reduce(node, given, rank, &gone));
  std::int32_t x = l.natural(node.inputs[0]);
  for (std::size_t axis = 0; axis < rank; ++axis)
    if (gone[axis]) x = product_along(l, x, axis);
  l.node("Reshape", {x}, {l.result(node.outputs[0])});
  return {};
}

}  // namespace quarry::htp::rules
