// SPDX-License-Identifier: Apache-2.0
// Rules of operators whose output has the shape of an input, or the common shape of several.
#include <algorithm>

#include "graph/infer/rules.h"

namespace quarry::qir {

Status resolve_broadcast(const Node &node, Dims a, Dims b, IntList *out) {
  IntList result;
  result.size = static_cast<std::uint32_t>(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size; ++i) {
    const std::size_t from_end = result.size - i;
    const std::int64_t x = from_end <= a.size() ? a[a.size() - from_end] : 1,
                       y = from_end <= b.size() ? b[b.size() - from_end] : 1;
    if (x == y || y == 1) result.values[i] = x;
    else if (x == 1) result.values[i] = y;
    else if (x < 0 || y < 0) result.values[i] = rules::known_of(x, y);
    else
      return node_error(node, ErrorId::qir_shape, "shapes %s and %s do not broadcast: %lld against %lld", text(a),
                        text(b), ll(x), ll(y));
  }
  *out = result;
  return {};
}

namespace rules {
namespace {

Status broadcast_all(const Node &node, Inputs inputs, IntList *out) {
  DimList shape(dims_of(inputs[0]));
  *out = shape;
  for (std::size_t i = 1; i < inputs.size(); ++i)
    QR_RETURN_IF_ERROR(resolve_broadcast(node, *out, dims_of(inputs[i]), out));
  return {};
}

// `value` broadcasts to `target` without changing it (ONNX's unidirectional broadcasting).
Status expect_broadcasts_to(const Node &node, const char *what, Dims value, Dims target) {
  bool fits = value.size() <= target.size();
  for (std::size_t i = 0; fits && i < value.size(); ++i) {
    const std::int64_t have = value[value.size() - 1 - i];
    fits = have == 1 || may_equal(have, target[target.size() - 1 - i]);
  }
  if (fits) return {};
  return node_error(node, ErrorId::qir_shape, "%s has shape %s, which does not broadcast to %s", what, text(value),
                    text(target));
}

// Scale and zero point of QuantizeLinear and DequantizeLinear: one, one per index of `axis`, or blocks along it.
Status check_quantisation(const Node &node, Inputs inputs) {
  const Dims x = dims_of(inputs[0]), scale = dims_of(inputs[1]);
  const std::int64_t block = node.get_int("block_size", 0);
  if (block < 0)
    return node_error(node, ErrorId::qir_attribute, "attribute 'block_size' is %lld, expected 0 or more", ll(block));
  const auto is_one = [](Dims dims) { return dims.empty() || (dims.size() == 1 && dims[0] == 1); };
  if (!has_input(inputs, 2) || !is_one(scale) || !is_one(dims_of(inputs[2])))
    QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 2, "the zero point", scale));
  if (block == 0 && is_one(scale)) return {};
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", 1), x.size(), &axis));
  if (block == 0) return expect_shape(node, "the scale", scale, x.subspan(axis, 1));
  DimList blocks(x);
  if (is_known(x[axis])) blocks.values[axis] = x[axis] / block + (x[axis] % block != 0);
  return expect_shape(node, "the scale", scale, blocks);
}

}  // namespace

Status same(const Node &, Inputs inputs, Outputs outputs) {
  set_output(outputs, 0, real_dtype(inputs[0]), dims_of(inputs[0]));
  return {};
}

Status flags(const Node &, Inputs inputs, Outputs outputs) {
  set_output(outputs, 0, DType::Bool, dims_of(inputs[0]));
  return {};
}

Status broadcast(const Node &node, Inputs inputs, Outputs outputs) {
  IntList shape;
  QR_RETURN_IF_ERROR(broadcast_all(node, inputs, &shape));
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status compare(const Node &node, Inputs inputs, Outputs outputs) {
  IntList shape;
  QR_RETURN_IF_ERROR(broadcast_all(node, inputs, &shape));
  set_output(outputs, 0, DType::Bool, shape);
  return {};
}

Status where(const Node &node, Inputs inputs, Outputs outputs) {
  IntList shape;
  QR_RETURN_IF_ERROR(broadcast_all(node, inputs, &shape));
  set_output(outputs, 0, real_dtype(inputs[1]), shape);
  return {};
}

Status prelu(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(expect_broadcasts_to(node, "the slope", dims_of(inputs[1]), dims_of(inputs[0])));
  return same(node, inputs, outputs);
}

Status clip(const Node &node, Inputs inputs, Outputs outputs) {
  if (has_input(inputs, 1)) QR_RETURN_IF_ERROR(expect_one_element(node, "min", inputs[1]));
  if (has_input(inputs, 2)) QR_RETURN_IF_ERROR(expect_one_element(node, "max", inputs[2]));
  return same(node, inputs, outputs);
}

Status dropout(const Node &node, Inputs inputs, Outputs outputs) {
  if (has_input(inputs, 1)) QR_RETURN_IF_ERROR(expect_one_element(node, "ratio", inputs[1]));
  if (has_input(inputs, 2)) QR_RETURN_IF_ERROR(expect_one_element(node, "training_mode", inputs[2]));
  set_output(outputs, 1, DType::Bool, dims_of(inputs[0]));
  return same(node, inputs, outputs);
}

Status swiglu(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(expect_shape(node, "B", dims_of(inputs[1]), dims_of(inputs[0])));
  return same(node, inputs, outputs);
}

Status same_with_axis(const Node &node, Inputs inputs, Outputs outputs) {
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(resolve_axis(node, node.get_int("axis", -1), inputs[0].shape.size(), &axis));
  if (node.op == Op::LpNormalization)
    if (const std::int64_t p = node.get_int("p", 2); p != 1 && p != 2)
      return node_error(node, ErrorId::qir_attribute, "attribute 'p' is %lld, expected 1 or 2", ll(p));
  return same(node, inputs, outputs);
}

Status lrn(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(expect_rank_from(node, "X", dims_of(inputs[0]), 2));
  if (const std::int64_t size = node.get_int("size", 1); size < 1)
    return node_error(node, ErrorId::qir_attribute, "attribute 'size' is %lld, expected 1 or more", ll(size));
  return same(node, inputs, outputs);
}

Status mvn(const Node &node, Inputs inputs, Outputs outputs) {
  static constexpr std::int64_t kDefault[] = {0, 2, 3};
  const Vector<std::int64_t> *axes = node.get_ints("axes");
  IntList resolved;
  QR_RETURN_IF_ERROR(
      resolve_axes(node, axes ? Dims(axes->data(), axes->size()) : Dims(kDefault), inputs[0].shape.size(), &resolved));
  return same(node, inputs, outputs);
}

// ---- change of type -----------------------------------------------------------------------------

Status cast(const Node &node, Inputs inputs, Outputs outputs) {
  DType to;
  QR_RETURN_IF_ERROR(dtype_attribute(node, "to", DType::Unknown, &to));
  set_output(outputs, 0, to, dims_of(inputs[0]));
  return {};
}

Status cast_like(const Node &, Inputs inputs, Outputs outputs) {
  set_output(outputs, 0, real_dtype(inputs[1]), dims_of(inputs[0]));
  return {};
}

Status bit_cast(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(cast(node, inputs, outputs));
  const DType from = real_dtype(inputs[0]), to = outputs[0].dtype;
  if (dtype_bits(from) == dtype_bits(to)) return {};
  return node_error(node, ErrorId::qir_type, "%s has %u bits, expected those of %s (%u)", dtype_name(from),
                    dtype_bits(from), dtype_name(to), dtype_bits(to));
}

Status quantize(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(check_quantisation(node, inputs));
  DType dtype;
  QR_RETURN_IF_ERROR(dtype_attribute(node, "output_dtype", has_input(inputs, 2) ? inputs[2].dtype : DType::U8, &dtype));
  if (has_input(inputs, 2) && dtype != inputs[2].dtype)
    return node_error(node, ErrorId::qir_type, "the zero point is %s, but output_dtype says %s",
                      dtype_name(inputs[2].dtype), dtype_name(dtype));
  DType precision;
  QR_RETURN_IF_ERROR(dtype_attribute(node, "precision", DType::F32, &precision));
  if (!is_float(precision))
    return node_error(node, ErrorId::qir_attribute, "attribute 'precision' says %s, expected a float",
                      dtype_name(precision));
  set_output(outputs, 0, dtype, dims_of(inputs[0]));
  return {};
}

Status dequantize(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(check_quantisation(node, inputs));
  DType dtype;
  QR_RETURN_IF_ERROR(dtype_attribute(node, "output_dtype", inputs[1].dtype, &dtype));
  set_output(outputs, 0, dtype, dims_of(inputs[0]));
  return {};
}

Status dynamic_quantize(const Node &, Inputs inputs, Outputs outputs) {
  set_output(outputs, 0, DType::U8, dims_of(inputs[0]));
  set_output(outputs, 1, DType::F32, {});
  set_output(outputs, 2, DType::U8, {});
  return {};
}

}  // namespace rules
}  // namespace quarry::qir
