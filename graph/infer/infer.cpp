// SPDX-License-Identifier: Apache-2.0
// Inference of one node and of a graph, and the helpers that every family of rules uses.
#include "graph/infer/infer.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "base/float16.h"
#include "graph/infer/rules.h"
#include "graph/ops/op_spec.h"

namespace quarry::qir {

Status node_error_of(const Node &node, ErrorId id, const char *pattern, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  const String name = printable(node.name);
  const String op = op_text(node);
  return Status::errorf(id, "%s '%s': %s", op, name, text).with("node", name).with("op", op);
}

bool read_ints(DType dtype, const void *data, std::int64_t count, IntList *out) noexcept {
  if (count < 0 || count > static_cast<std::int64_t>(std::size(out->values)) ||
      (dtype != DType::I32 && dtype != DType::I64))
    return false;
  out->size = static_cast<std::uint32_t>(count);
  const std::size_t size = static_cast<std::size_t>(count);
  if (dtype == DType::I64) {
    if (size > 0) std::memcpy(out->values, data, size * sizeof(std::int64_t));
    return true;
  }
  for (std::size_t i = 0; i < size; ++i) {
    std::int32_t narrow;
    std::memcpy(&narrow, static_cast<const char *>(data) + i * sizeof narrow, sizeof narrow);
    out->values[i] = narrow;
  }
  return true;
}

Status read_ints(const Node &node, std::size_t input, const InferValue &value, IntList *out) {
  const std::optional<std::int64_t> count = element_count(value.shape.data(), value.shape.size());
  if (value.shape.size() > 1 || !count)
    return node_error(node, ErrorId::qir_shape, "input %zu has shape %s, expected a list (rank 1)", input,
                      text(value.shape));
  if (!read_ints(value.dtype, value.value.data, *count, out))
    return node_error(node, ErrorId::qir_shape, "input %zu lists %lld numbers, expected at most %zu", input, ll(*count),
                      std::size(out->values));
  return {};
}

Status resolve_axis(const Node &node, std::int64_t axis, std::size_t rank, std::size_t *out) {
  const std::int64_t r = static_cast<std::int64_t>(rank);
  if (axis < -r || axis >= r)
    return node_error(node, ErrorId::qir_shape, "axis %lld is outside a tensor of rank %zu, expected %lld to %lld",
                      ll(axis), rank, ll(-r), ll(r - 1));
  *out = index_of(axis < 0 ? axis + r : axis);
  return {};
}

Status resolve_axes(const Node &node, Dims axes, std::size_t rank, IntList *out) {
  IntList result;
  bool seen[2 * kMaxRank] = {};
  for (const std::int64_t axis : axes) {
    std::size_t normal = 0;
    QR_RETURN_IF_ERROR(resolve_axis(node, axis, rank, &normal));
    if (seen[normal]) return node_error(node, ErrorId::qir_shape, "axis %lld is named twice", ll(axis));
    seen[normal] = true;
    result.values[result.size++] = static_cast<std::int64_t>(normal);
  }
  *out = result;
  return {};
}

// ---- what rules share ---------------------------------------------------------------------------

namespace rules {

bool all_known(Dims dims) noexcept { return std::all_of(dims.begin(), dims.end(), is_known); }

void set_output(Outputs outputs, std::size_t i, DType dtype, Dims dims) {
  if (i >= outputs.size()) return;
  outputs[i].dtype = dtype;
  outputs[i].shape.assign(dims.begin(), dims.end());
}

Status multiply(const Node &node, std::int64_t a, std::int64_t b, std::int64_t *out) {
  if (a < 0 || b < 0) return *out = kUnknownDim, Status();
  if (!checked_mul(a, b, out))
    return node_error(node, ErrorId::qir_shape, "size %lld * %lld does not fit into 64 bits", ll(a), ll(b));
  return {};
}

Status add(const Node &node, std::int64_t a, std::int64_t b, std::int64_t *out) {
  if (a < 0 || b < 0) return *out = kUnknownDim, Status();
  if (!checked_add(a, b, out))
    return node_error(node, ErrorId::qir_shape, "size %lld + %lld does not fit into 64 bits", ll(a), ll(b));
  return {};
}

Status product(const Node &node, Dims dims, std::int64_t *out) {
  std::int64_t result = 1;
  for (const std::int64_t d : dims) QR_RETURN_IF_ERROR(multiply(node, result, d, &result));
  *out = result;
  return {};
}

Status expect_rank(const Node &node, const char *what, Dims dims, std::size_t rank) {
  if (dims.size() == rank) return {};
  return node_error(node, ErrorId::qir_shape, "%s has shape %s, expected rank %zu", what, text(dims), rank);
}

Status expect_rank_from(const Node &node, const char *what, Dims dims, std::size_t least) {
  if (dims.size() >= least) return {};
  return node_error(node, ErrorId::qir_shape, "%s has shape %s, expected rank %zu or more", what, text(dims), least);
}

Status expect_shape(const Node &node, const char *what, Dims dims, Dims expected) {
  if (std::equal(dims.begin(), dims.end(), expected.begin(), expected.end(), may_equal)) return {};
  return node_error(node, ErrorId::qir_shape, "%s has shape %s, expected %s", what, text(dims), text(expected));
}

Status expect_one_element(const Node &node, const char *what, const InferValue &value) {
  if (std::all_of(value.shape.begin(), value.shape.end(), [](std::int64_t d) { return may_equal(d, 1); })) return {};
  return node_error(node, ErrorId::qir_shape, "%s has shape %s, expected one element", what, text(value.shape));
}

Status expect_elements(const Node &node, Inputs inputs, std::size_t i, const char *what, std::int64_t count) {
  if (!has_input(inputs, i)) return {};
  std::int64_t found;
  QR_RETURN_IF_ERROR(product(node, dims_of(inputs[i]), &found));
  if (may_equal(found, count)) return {};
  return node_error(node, ErrorId::qir_shape, "%s has shape %s, expected %lld elements", what, text(inputs[i].shape),
                    ll(count));
}

Status expect_one_or(const Node &node, Inputs inputs, std::size_t i, const char *what, std::int64_t count) {
  if (has_input(inputs, i) && expect_one_element(node, what, inputs[i]).ok()) return {};
  return expect_elements(node, inputs, i, what, count);
}

Status expect_input_shape(const Node &node, Inputs inputs, std::size_t i, const char *what, Dims expected) {
  return has_input(inputs, i) ? expect_shape(node, what, dims_of(inputs[i]), expected) : Status();
}

std::int64_t int_at(const InferValue &value, std::size_t index) noexcept {
  const char *data = static_cast<const char *>(value.value.data);
  if (value.dtype == DType::I32) {
    std::int32_t narrow;
    std::memcpy(&narrow, data + index * sizeof narrow, sizeof narrow);
    return narrow;
  }
  std::int64_t wide;
  std::memcpy(&wide, data + index * sizeof wide, sizeof wide);
  return wide;
}

bool number_at(const InferValue &value, std::size_t index, double *out) noexcept {
  const char *data = static_cast<const char *>(value.value.data) + index * dtype_bits(value.dtype) / 8;
  const auto read = [&](auto number) {
    std::memcpy(&number, data, sizeof number);
    *out = static_cast<double>(number);
    return true;
  };
  switch (value.dtype) {
    case DType::F32: return read(float{});
    case DType::F64: return read(double{});
    case DType::I8: return read(std::int8_t{});
    case DType::I16: return read(std::int16_t{});
    case DType::I32: return read(std::int32_t{});
    case DType::I64: return read(std::int64_t{});
    case DType::U8: return read(std::uint8_t{});
    case DType::U16: return read(std::uint16_t{});
    case DType::U32: return read(std::uint32_t{});
    case DType::U64: return read(std::uint64_t{});
    case DType::BF16:
    case DType::F16: {
      std::uint16_t bits;
      std::memcpy(&bits, data, sizeof bits);
      *out = static_cast<double>(value.dtype == DType::F16 ? f16_to_f32(bits) : bf16_to_f32(bits));
      return true;
    }
    default: return false;
  }
}

Status scalar_int(const Node &node, Inputs inputs, std::size_t i, const char *what, std::int64_t *out) {
  if (!has_input(inputs, i)) return {};
  QR_RETURN_IF_ERROR(expect_one_element(node, what, inputs[i]));
  if (value_known(inputs, i)) *out = int_at(inputs[i], 0);
  return {};
}

Status dtype_attribute(const Node &node, const char *attribute, DType fallback, DType *out) {
  const std::int64_t number = node.get_int(attribute, 0);
  *out = fallback;
  if (number == 0 && fallback != DType::Unknown) return {};
  const std::optional<DType> dtype = dtype_from_number(number);
  if (!dtype)
    return node_error(node, ErrorId::qir_attribute, "attribute '%s' is %lld, which is no element type that Quarry has",
                      attribute, ll(number));
  *out = *dtype;
  return {};
}

// Nobody but its package knows what a custom operator makes: the types stand as they are stated.
Status custom(const Node &, Inputs, Outputs) { return {}; }

}  // namespace rules

void stated_types(const Graph &graph, const Node &node, Vector<InferType> *out) {
  out->assign(node.outputs.size(), {});
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kAbsent) continue;
    const Tensor &tensor = at(graph, node.outputs[i]);
    (*out)[i] = {tensor.dtype, tensor.shape};
  }
}

// ---- a node -------------------------------------------------------------------------------------

namespace {
// The last column of the op table; apart from the rows, so that a program which only reads graphs links no rule.
constexpr ShapeRule kShapeRules[] = {
#define QR_OP(enumerator, name, domain, family, value, opset, traits, least_in, most_in, least_out, most_out, \
              attributes, types, rule)                                                                        \
  rules::rule,
#include "graph/ops/ops.inc"
#undef QR_OP
};
}  // namespace

Status infer_node(const Node &node, const Vector<InferValue> &inputs, Vector<InferType> &outputs) {
  QR_RETURN_IF_ERROR(check_arity(node));
  QR_RETURN_IF_ERROR(check_attributes(node));
  if (inputs.size() != node.inputs.size())
    return node_error(node, ErrorId::internal, "inferred with %zu input values, the node has %zu inputs", inputs.size(),
                      node.inputs.size());
  QR_RETURN_IF_ERROR(check_input_types(node, inputs));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].present) continue;
    const Shape &shape = inputs[i].shape;
    if (shape.size() > kMaxRank)
      return node_error(node, ErrorId::qir_rank, "input %zu has %zu dimensions, expected at most %zu", i, shape.size(),
                        kMaxRank);
    if (std::any_of(shape.begin(), shape.end(), [](std::int64_t d) { return d < kUnknownDim; }))
      return node_error(node, ErrorId::qir_shape, "input %zu has shape %s, expected no negative size", i, text(shape));
    if (inputs[i].value.data == nullptr) continue;
    const std::optional<std::int64_t> count = element_count(shape.data(), shape.size());
    const std::optional<std::uint64_t> bytes = count ? packed_size(inputs[i].dtype, *count) : std::nullopt;
    if (!bytes || *bytes > inputs[i].value.size)
      return node_error(node, ErrorId::qir_shape, "the value of input %zu has %llu bytes, too few for %s %s", i,
                        inputs[i].value.size, dtype_name(inputs[i].dtype), text(shape));
  }
  const bool custom = node.op == Op::Custom;
  outputs.resize(node.outputs.size());
  for (InferType &output : outputs) {
    if (custom) continue;
    output.dtype = DType::Unknown;
    output.shape.clear();
  }
  QR_RETURN_IF_ERROR(kShapeRules[index_of(node.op)](node, inputs, outputs));
  const bool quantised = std::any_of(inputs.begin(), inputs.end(),
                                     [](const InferValue &v) { return v.present && v.quant && v.quant->has_value(); });
  if (!quantised) QR_RETURN_IF_ERROR(check_output_types(node, outputs));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Shape &shape = outputs[i].shape;
    if (shape.size() > kMaxRank)
      return node_error(node, ErrorId::qir_rank, "output %zu has %zu dimensions, expected at most %zu", i, shape.size(),
                        kMaxRank);
    if (rules::all_known({shape.data(), shape.size()}) && !element_count(shape.data(), shape.size()))
      return node_error(node, ErrorId::qir_shape, "output %zu of shape %s has more elements than 64 bits count", i,
                        text(shape));
  }
  return {};
}

}  // namespace quarry::qir
