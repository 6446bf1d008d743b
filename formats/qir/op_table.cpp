// SPDX-License-Identifier: Apache-2.0
// The op table itself, and the checks that its text columns ask for.
#include <algorithm>
#include <cstring>

#include "formats/qir/infer.h"
#include "formats/qir/op_spec.h"

namespace quarry::qir {
namespace {

constexpr OpRow kRows[] = {
#define QR_OP(enumerator, name, domain, least_in, most_in, least_out, most_out, attributes, types, rule) \
  {Op::enumerator, name, domain, least_in, most_in, least_out, most_out, attributes, types},
#include "formats/qir/ops.inc"
#undef QR_OP
};

constexpr bool slots_read(const TypeSpec &types, std::string_view list, std::int16_t least, std::int16_t most) {
  TypeSlot slot;
  std::int16_t count = 0;
  bool variadic = false;
  while (TypeSpec::next(&list, &slot)) {
    if (types.mask(slot.type) == 0 || variadic) return false;
    if (count >= least && !slot.optional && !slot.variadic && least != most)
      return false;  // may be left out, so it is optional
    variadic = slot.variadic;
    ++count;
  }
  return variadic ? most == -1 : most == count;
}

constexpr bool row_reads(const OpRow &row) {
  AttributeSpecs walk(row.attributes);
  AttributeSpec spec;
  while (walk.next(&spec)) {
  }
  const TypeSpec types(row.types);
  return !walk.bad() && slots_read(types, types.inputs(), row.min_inputs, row.max_inputs) &&
         slots_read(types, types.outputs(), row.min_outputs, row.max_outputs);
}

constexpr std::size_t first_bad_row() {
  std::size_t i = 0;
  while (i < std::size(kRows) && kRows[i].op == static_cast<Op>(i) && row_reads(kRows[i])) ++i;
  return i;
}
template <std::size_t bad>
struct RowsRead {
  static_assert(bad == std::size(kRows), "row `bad` of ops.inc does not read: see op_spec.h");
};
template struct RowsRead<first_bad_row()>;

String mask_text(std::uint32_t mask) {
  String text;
  for (unsigned number = 0; number < 32; ++number)
    if (mask >> number & 1) text += (text.empty() ? "" : ", "), text += dtype_name(static_cast<DType>(number));
  return text;
}

bool allows(std::string_view allowed, std::string_view value) noexcept {
  while (!allowed.empty())
    if (detail::take(&allowed, ",") == value) return true;
  return false;
}

String count_text(std::int16_t least, std::int16_t most) {
  if (most < 0) return format("%d or more", least);
  return least == most ? format("%d", least) : format("%d to %d", least, most);
}

}  // namespace

const OpRow &op_row(Op op) noexcept { return kRows[static_cast<std::size_t>(op)]; }
std::size_t op_count() noexcept { return std::size(kRows); }

const OpRow *find_op(std::string_view domain, std::string_view name) noexcept {
  if (domain == "ai.onnx") domain = {};
  for (const OpRow &row : kRows)
    if (name == row.name && domain == row.domain) return &row;
  return nullptr;
}

const char *attribute_kind_name(Attribute::Kind kind) noexcept {
  switch (kind) {
    case Attribute::Kind::Int: return "int";
    case Attribute::Kind::Float: return "float";
    case Attribute::Kind::String: return "string";
    case Attribute::Kind::Ints: return "ints";
    case Attribute::Kind::Floats: return "floats";
    case Attribute::Kind::Strings: return "strings";
    case Attribute::Kind::Tensor: return "tensor";
    case Attribute::Kind::Tensors: return "tensors";
  }
  return "unknown";
}

Status check_arity(const Node &node) {
  const OpRow &row = op_row(node.op);
  const auto check = [&](const char *what, std::size_t found, std::int16_t least, std::int16_t most) -> Status {
    if (found >= static_cast<std::size_t>(least) && (most < 0 || found <= static_cast<std::size_t>(most))) return {};
    return node_error(node, ErrorId::qir_bad, "%zu %s, expected %s", found, what, count_text(least, most).c_str());
  };
  QR_RETURN_IF_ERROR(check("inputs", node.inputs.size(), row.min_inputs, row.max_inputs));
  QR_RETURN_IF_ERROR(check("outputs", node.outputs.size(), row.min_outputs, row.max_outputs));
  const std::size_t subgraphs = node.op == Op::If ? 2 : node.op == Op::Loop || node.op == Op::Scan ? 1 : 0;
  if (node.subgraphs.size() != subgraphs)
    return node_error(node, ErrorId::qir_bad, "%zu subgraphs, expected %zu", node.subgraphs.size(), subgraphs);
  return {};
}

Status check_attributes(const Node &node) {
  if (node.op == Op::Custom) return {};  // its attributes are its own
  const OpRow &row = op_row(node.op);
  std::size_t matched = 0;
  AttributeSpec spec;
  for (AttributeSpecs walk(row.attributes); walk.next(&spec);) {
    const Attribute *found = nullptr;
    for (const Attribute &attribute : node.attributes) {
      if (std::string_view(attribute.name) != spec.name) continue;
      if (found)
        return node_error(node, ErrorId::qir_attribute, "attribute '%s' is given twice", attribute.name.c_str());
      found = &attribute;
    }
    const int length = static_cast<int>(spec.name.size());
    if (!found) {
      if (!spec.required) continue;
      return node_error(node, ErrorId::qir_attribute, "attribute '%.*s' is missing; %s requires it", length,
                        spec.name.data(), row.name);
    }
    ++matched;
    if (found->kind != spec.kind)
      return node_error(node, ErrorId::qir_attribute, "attribute '%s' is of kind %s, expected %s", found->name.c_str(),
                        attribute_kind_name(found->kind), attribute_kind_name(spec.kind));
    if (spec.kind == Attribute::Kind::String && !spec.allowed.empty() && !allows(spec.allowed, found->s))
      return node_error(node, ErrorId::qir_attribute, "attribute '%s' is \"%s\", expected one of %.*s",
                        found->name.c_str(), printable(found->s, 64).c_str(), static_cast<int>(spec.allowed.size()),
                        spec.allowed.data());
  }
  if (matched == node.attributes.size()) return {};
  for (const Attribute &attribute : node.attributes) {
    bool known = false;
    for (AttributeSpecs walk(row.attributes); walk.next(&spec);) known |= std::string_view(attribute.name) == spec.name;
    if (!known)
      return node_error(node, ErrorId::qir_attribute, "attribute '%s' is unknown; %s takes: %s",
                        printable(attribute.name, 64).c_str(), row.name, *row.attributes ? row.attributes : "none");
  }
  return {};
}

Status check_input_types(const Node &node, const Vector<InferValue> &inputs) {
  const TypeSpec types(op_row(node.op).types);
  struct Binding {
    std::string_view variable;
    DType dtype;
    std::size_t input;
  } bound[8];
  std::size_t bound_count = 0;
  const bool quantised = std::any_of(inputs.begin(), inputs.end(),
                                     [](const InferValue &v) { return v.present && v.quant && v.quant->has_value(); });
  std::string_view list = types.inputs();
  TypeSlot slot;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!slot.variadic && !TypeSpec::next(&list, &slot)) break;
    const InferValue &input = inputs[i];
    if (!input.present) {
      if (slot.optional) continue;
      return node_error(node, ErrorId::qir_bad, "input %zu is absent, but required", i);
    }
    if (input.quant && input.quant->has_value()) continue;           // stands for real numbers of any width
    if (quantised && i == 2 && input.dtype == DType::I32) continue;  // bias in units of scale(x) * scale(w)
    const std::uint32_t mask = types.mask(slot.type);
    if (input.dtype == DType::Unknown || !(mask & dtype_bit(input.dtype)))
      return node_error(node, ErrorId::qir_type, "input %zu is %s, expected %s", i, dtype_name(input.dtype),
                        mask_text(mask).c_str());
    if (slot.mixed || (mask & (mask - 1)) == 0) continue;  // a single type binds nothing
    const Binding *binding =
        std::find_if(bound, bound + bound_count, [&](const Binding &b) { return b.variable == slot.type; });
    if (binding == bound + bound_count) {
      if (bound_count < std::size(bound)) bound[bound_count++] = {slot.type, input.dtype, i};
    } else if (binding->dtype != input.dtype) {
      return node_error(node, ErrorId::qir_type, "input %zu is %s, expected %s as input %zu", i,
                        dtype_name(input.dtype), dtype_name(binding->dtype), binding->input);
    }
  }
  return {};
}

Status check_output_types(const Node &node, const Vector<InferType> &outputs) {
  const TypeSpec types(op_row(node.op).types);
  std::string_view list = types.outputs();
  TypeSlot slot;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!slot.variadic && !TypeSpec::next(&list, &slot)) break;
    if (node.op == Op::Custom && node.outputs[i] == kAbsent) continue;  // nobody states a type of what is not there
    const std::uint32_t mask = types.mask(slot.type);
    if (outputs[i].dtype == DType::Unknown || !(mask & dtype_bit(outputs[i].dtype)))
      return node_error(node, ErrorId::qir_type, "output %zu would be %s, expected %s", i, dtype_name(outputs[i].dtype),
                        mask_text(mask).c_str());
  }
  return {};
}

}  // namespace quarry::qir
