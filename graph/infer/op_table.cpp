// SPDX-License-Identifier: Apache-2.0
// The op table itself, and the checks that its text columns ask for.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "graph/infer/infer.h"
#include "graph/ops/op_spec.h"

namespace quarry::qir {
namespace {

using enum OpTraits;
constexpr OpRow kRows[] = {
#define QR_OP(enumerator, name, domain, family, value, opset, traits, least_in, most_in, least_out, most_out, \
              attributes, types, rule)                                                                        \
  {Op::enumerator, OpFamily::family, OpValue::value, opset,    traits,     name, domain,                      \
   least_in,       most_in,          least_out,      most_out, attributes, types},
#include "graph/ops/ops.inc"
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

constexpr bool properties_agree(const OpRow &row) {
  if (row.opset < 21 || row.opset > kNormalOpset) return false;
  if (row.value == OpValue::Function && (row.family != OpFamily::Elementwise || row.max_outputs != 1)) return false;
  if (row.value == OpValue::Function && row.has(Quantized)) return false;  // said twice
  return !row.has(Bias) || (row.has(OpTraits::Gemm) && row.max_inputs >= 3);
}

constexpr bool row_reads(const OpRow &row) {
  AttributeSpecs walk(row.attributes);
  AttributeSpec spec;
  while (walk.next(&spec)) {
  }
  const TypeSpec types(row.types);
  return !walk.bad() && properties_agree(row) && slots_read(types, types.inputs(), row.min_inputs, row.max_inputs) &&
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

// The types of every row, read once: nodes are checked each time that a graph is made, read or compiled, and reading
// them off the text each time was an eighth of making a session.
struct Slot {
  std::uint32_t mask = 0;
  bool optional = false, variadic = false, mixed = false;  // TypeSlot
  std::uint8_t same = 0;                                   // the first of the row's inputs with this type
};
struct Slots {
  std::uint16_t first = 0;  // in kSlots: the inputs, and then the outputs
  std::uint8_t inputs = 0, outputs = 0;
};

constexpr std::size_t slot_count() {
  std::size_t count = 0;
  for (const OpRow &row : kRows) {
    const TypeSpec types(row.types);
    TypeSlot slot;
    for (std::string_view list : {types.inputs(), types.outputs()})
      while (TypeSpec::next(&list, &slot)) ++count;
  }
  return count;
}

struct SlotTable {
  std::array<Slots, std::size(kRows)> rows{};
  std::array<Slot, slot_count()> slots{};
};
// The slots of one row, behind those of the rows before it.
class SlotReader {
 public:
  constexpr SlotReader(const OpRow &row, SlotTable *out, std::size_t *count)
      : types_(row.types), row_(out->rows[index_of(row.op)]), slots_(out->slots), count_(*count) {
    row_.first = static_cast<std::uint16_t>(count_);
  }
  constexpr void read() {
    std::string_view inputs = types_.inputs(), outputs = types_.outputs();
    for (TypeSlot slot; TypeSpec::next(&inputs, &slot);) {
      add(slot);
      seen_[row_.inputs++] = slot.type;
    }
    for (TypeSlot slot; TypeSpec::next(&outputs, &slot); ++row_.outputs) add(slot);
  }

 private:
  constexpr void add(const TypeSlot &slot) {
    Slot &made = slots_[count_++];
    made.optional = slot.optional, made.variadic = slot.variadic, made.mixed = slot.mixed;
    std::uint8_t same = 0;
    while (same < row_.inputs && seen_[same] != slot.type) ++same;
    made.same = same;
    made.mask = same < row_.inputs ? slots_[row_.first + same].mask : types_.mask(slot.type);
  }

  const TypeSpec types_;
  Slots &row_;
  std::array<Slot, slot_count()> &slots_;
  std::size_t &count_;
  std::string_view seen_[16];  // the types of the inputs
};

constexpr SlotTable kSlots = [] {
  SlotTable out;
  std::size_t count = 0;
  for (const OpRow &row : kRows) SlotReader(row, &out, &count).read();
  return out;
}();

std::span<const Slot> inputs_of(Op op) {
  const Slots &row = kSlots.rows[index_of(op)];
  return {kSlots.slots.data() + row.first, row.inputs};
}
std::span<const Slot> outputs_of(Op op) {
  const Slots &row = kSlots.rows[index_of(op)];
  return {kSlots.slots.data() + row.first + row.inputs, row.outputs};
}

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

const OpRow &op_row(Op op) noexcept { return kRows[index_of(op)]; }
std::size_t op_count() noexcept { return std::size(kRows); }

std::size_t subgraph_count(Op op) noexcept {
  if (op_row(op).family != OpFamily::Control) return 0;
  return op == Op::If ? 2 : 1;
}

const OpRow *find_op(std::string_view domain, std::string_view name) noexcept {
  if (domain == "ai.onnx") domain = {};
  if (name.empty()) return nullptr;
  for (const OpRow &row : kRows)  // by the first letter: there are many rows, and many nodes ask
    if (row.name[0] == name[0] && name == row.name && domain == row.domain) return &row;
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
    return node_error(node, ErrorId::qir_bad, "%zu %s, expected %s", found, what, count_text(least, most));
  };
  QR_RETURN_IF_ERROR(check("inputs", node.inputs.size(), row.min_inputs, row.max_inputs));
  QR_RETURN_IF_ERROR(check("outputs", node.outputs.size(), row.min_outputs, row.max_outputs));
  if (const std::size_t expected = subgraph_count(node.op); node.subgraphs.size() != expected)
    return node_error(node, ErrorId::qir_bad, "%zu subgraphs, expected %zu", node.subgraphs.size(), expected);
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
      if (found) return node_error(node, ErrorId::qir_attribute, "attribute '%s' is given twice", attribute.name);
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
      return node_error(node, ErrorId::qir_attribute, "attribute '%s' is of kind %s, expected %s", found->name,
                        attribute_kind_name(found->kind), attribute_kind_name(spec.kind));
    if (spec.kind == Attribute::Kind::String && !spec.allowed.empty() && !allows(spec.allowed, found->s))
      return node_error(node, ErrorId::qir_attribute, "attribute '%s' is \"%s\", expected one of %.*s", found->name,
                        printable(found->s, 64), spec.allowed);
  }
  if (matched == node.attributes.size()) return {};
  for (const Attribute &attribute : node.attributes) {
    bool known = false;
    for (AttributeSpecs walk(row.attributes); walk.next(&spec);) known |= std::string_view(attribute.name) == spec.name;
    if (!known)
      return node_error(node, ErrorId::qir_attribute, "attribute '%s' is unknown; %s takes: %s",
                        printable(attribute.name, 64), row.name, *row.attributes ? row.attributes : "none");
  }
  return {};
}

Status check_input_types(const Node &node, const Vector<InferValue> &inputs) {
  constexpr std::size_t kUnbound = SIZE_MAX;
  const std::span<const Slot> slots = inputs_of(node.op);
  std::size_t bound[16];  // by the first slot of a type: the input that said which it is
  std::fill_n(bound, slots.size(), kUnbound);
  const bool quantised = std::any_of(inputs.begin(), inputs.end(),
                                     [](const InferValue &v) { return v.present && v.quant && v.quant->has_value(); });
  for (std::size_t i = 0; i < inputs.size() && !slots.empty(); ++i) {
    if (i >= slots.size() && !slots.back().variadic) break;
    const Slot &slot = slots[std::min(i, slots.size() - 1)];
    const InferValue &input = inputs[i];
    if (!input.present) {
      if (slot.optional) continue;
      return node_error(node, ErrorId::qir_bad, "input %zu is absent, but required", i);
    }
    if (input.quant && input.quant->has_value()) continue;           // stands for real numbers of any width
    if (quantised && i == 2 && input.dtype == DType::I32) continue;  // bias in units of scale(x) * scale(w)
    if (input.dtype == DType::Unknown || !(slot.mask & dtype_bit(input.dtype)))
      return node_error(node, ErrorId::qir_type, "input %zu is %s, expected %s", i, dtype_name(input.dtype),
                        mask_text(slot.mask));
    if (slot.mixed || (slot.mask & (slot.mask - 1)) == 0) continue;  // a single type binds nothing
    std::size_t &by = bound[slot.same];
    if (by == kUnbound) by = i;
    else if (inputs[by].dtype != input.dtype)
      return node_error(node, ErrorId::qir_type, "input %zu is %s, expected %s as input %zu", i,
                        dtype_name(input.dtype), dtype_name(inputs[by].dtype), by);
  }
  return {};
}

Status check_output_types(const Node &node, const Vector<InferType> &outputs) {
  const std::span<const Slot> slots = outputs_of(node.op);
  for (std::size_t i = 0; i < outputs.size() && !slots.empty(); ++i) {
    if (i >= slots.size() && !slots.back().variadic) break;
    const std::uint32_t mask = slots[std::min(i, slots.size() - 1)].mask;
    if (node.op == Op::Custom && node.outputs[i] == kAbsent) continue;  // nobody states a type of what is not there
    if (outputs[i].dtype == DType::Unknown || !(mask & dtype_bit(outputs[i].dtype)))
      return node_error(node, ErrorId::qir_type, "output %zu would be %s, expected %s", i, dtype_name(outputs[i].dtype),
                        mask_text(mask));
  }
  return {};
}

}  // namespace quarry::qir
