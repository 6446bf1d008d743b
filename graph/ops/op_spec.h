// SPDX-License-Identifier: Apache-2.0
// Reads the two text columns of the op table (attributes and types, see OpRow); op_table.cpp reads the types at compile
// time, and proves there that every row reads.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/graph.h"

namespace quarry::qir {

struct AttributeSpec {
  std::string_view name;
  Attribute::Kind kind = Attribute::Kind::Int;
  bool required = false;
  bool has_default = false;
  std::string_view fallback;  // the default, as text
  std::string_view allowed;   // "a,b,c"; empty: anything
};

// for (AttributeSpecs walk(row.attributes); walk.next(&spec);) ...
class AttributeSpecs {
 public:
  constexpr explicit AttributeSpecs(std::string_view text) noexcept : rest_(text) {}
  constexpr bool next(AttributeSpec *out) noexcept;
  constexpr bool bad() const noexcept { return bad_; }  // stopped at something that is no attribute

 private:
  std::string_view rest_;
  bool bad_ = false;
};

// One input or output: a variable ("T") or a type ("i64").
struct TypeSlot {
  std::string_view type;
  bool optional = false;  // "T?"; "T*?": each of them may be absent
  bool variadic = false;  // "T..." all of one type, "T*" each of its own
  bool mixed = false;
};

// The types of one row: walks the inputs or the outputs, and says what a variable may be.
class TypeSpec {
 public:
  constexpr explicit TypeSpec(std::string_view text) noexcept;
  constexpr std::string_view inputs() const noexcept { return inputs_; }
  constexpr std::string_view outputs() const noexcept { return outputs_; }
  // Takes the next slot off a list that inputs() or outputs() gave.
  static constexpr bool next(std::string_view *list, TypeSlot *out) noexcept;
  // What a slot may be, one bit per DType number; 0: the text names no such variable or type.
  constexpr std::uint32_t mask(std::string_view type) const noexcept;

 private:
  std::string_view inputs_, outputs_, variables_;
};

constexpr std::uint32_t dtype_bit(DType dtype) noexcept { return std::uint32_t{1} << static_cast<unsigned>(dtype); }
// The types of "float,i32": names of base/dtypes.inc and the groups int, float, num, std, f8, all. 0: an unknown name
// is among them.
constexpr std::uint32_t dtype_mask(std::string_view list) noexcept;

const char *attribute_kind_name(Attribute::Kind kind) noexcept;

// What must hold of any node before its shapes are looked at: arity, attributes and input types as its row says.
// infer_node does it first.
Status check_attributes(const Node &node);
Status check_arity(const Node &node);
Status check_input_types(const Node &node, const Vector<InferValue> &inputs);
// The types that a rule gave; a quantised tensor's is that of its real values.
Status check_output_types(const Node &node, const Vector<InferType> &outputs);

// ---- constexpr parts ----------------------------------------------------------------------------

namespace detail {
constexpr std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}
// Cuts what is before `separator` off `*text`; all of it where there is none.
constexpr std::string_view take(std::string_view *text, std::string_view separator) noexcept {
  const std::size_t at = text->find(separator);
  const std::string_view head = text->substr(0, at);
  *text = at == std::string_view::npos ? std::string_view() : text->substr(at + separator.size());
  return trim(head);
}
}  // namespace detail

constexpr bool AttributeSpecs::next(AttributeSpec *out) noexcept {
  if (rest_.empty() || bad_) return false;
  std::string_view item = detail::take(&rest_, ";");
  *out = AttributeSpec();
  out->name = detail::take(&item, ":");
  if (!item.empty() && item.back() == '}') {
    const std::size_t open = item.find('{');
    if (open == std::string_view::npos) return bad_ = true, false;
    out->allowed = item.substr(open + 1, item.size() - open - 2);
    item = item.substr(0, open);
  }
  if (const std::size_t equals = item.find('='); equals != std::string_view::npos) {
    out->has_default = true;
    out->fallback = item.substr(equals + 1);
    item = item.substr(0, equals);
  }
  const bool optional = !item.empty() && item.back() == '?';
  if (optional) item.remove_suffix(1);
  out->required = !optional && !out->has_default;
  constexpr std::string_view kKinds[] = {"int", "float", "string", "ints", "floats", "strings"};
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    if (item != kKinds[i]) continue;
    out->kind = static_cast<Attribute::Kind>(i);
    return !out->name.empty();
  }
  return bad_ = true, false;
}

constexpr std::uint32_t dtype_mask(std::string_view list) noexcept {
  constexpr auto bits = [](auto... types) { return (dtype_bit(types) | ...); };
  constexpr std::uint32_t kFloat = bits(DType::F16, DType::BF16, DType::F32, DType::F64);
  constexpr std::uint32_t kInt =
      bits(DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64);
  constexpr std::uint32_t kF8 = bits(DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ);
  constexpr std::uint32_t kNum = kFloat | kInt, kStd = kNum | dtype_bit(DType::Bool);
  constexpr std::uint32_t kAll =
      kStd | kF8 | bits(DType::F8E8M0, DType::F4E2M1, DType::I4, DType::U4, DType::I2, DType::U2);
  constexpr struct {
    std::string_view name;
    std::uint32_t mask;
  } kNames[] = {
      {"float", kFloat}, {"int", kInt}, {"num", kNum}, {"std", kStd}, {"f8", kF8}, {"all", kAll},
#define QR_DTYPE_ROW(enumerator, number, name, size, kind) {name, dtype_bit(DType::enumerator)},
#include "base/dtypes.inc"
#undef QR_DTYPE_ROW
  };
  std::uint32_t mask = 0;
  while (!list.empty()) {
    const std::string_view name = detail::take(&list, ",");
    std::uint32_t found = 0;
    // (The last letter differs in most of them: nodes of unknown shapes are checked in each run.)
    for (const auto &entry : kNames)
      if (entry.name.size() == name.size() && entry.name.back() == name.back() && entry.name == name) {
        found = entry.mask;
        break;
      }
    if (found == 0) return 0;
    mask |= found;
  }
  return mask;
}

constexpr TypeSpec::TypeSpec(std::string_view text) noexcept {
  std::string_view signature = detail::take(&text, ";");
  variables_ = text;
  inputs_ = detail::take(&signature, "->");
  outputs_ = detail::trim(signature);
}

constexpr bool TypeSpec::next(std::string_view *list, TypeSlot *out) noexcept {
  if (list->empty()) return false;
  std::string_view item = detail::take(list, ",");
  *out = TypeSlot();
  if (item.ends_with('?')) out->optional = true, item.remove_suffix(1);
  if (item.ends_with("...")) out->variadic = true, item.remove_suffix(3);
  else if (item.ends_with('*')) out->variadic = out->mixed = true, item.remove_suffix(1);
  out->type = item;
  return true;
}

constexpr std::uint32_t TypeSpec::mask(std::string_view type) const noexcept {
  for (std::string_view rest = variables_; !rest.empty();) {
    std::string_view definition = detail::take(&rest, ";");
    if (detail::take(&definition, "=") == type) return dtype_mask(definition);
  }
  return dtype_mask(type);
}

}  // namespace quarry::qir
