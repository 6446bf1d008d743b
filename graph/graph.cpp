// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

namespace quarry::qir {
namespace {

const Attribute *find_kind(const Node &node, std::string_view name, Attribute::Kind kind) noexcept {
  const Attribute *attribute = node.find(name);
  return attribute && attribute->kind == kind ? attribute : nullptr;
}

// The attribute of that name, made empty: a name occurs once.
Attribute &reset(Node &node, std::string_view name, Attribute::Kind kind) {
  Attribute fresh;
  fresh.name = String(name);
  fresh.kind = kind;
  for (Attribute &attribute : node.attributes)
    if (attribute.name == name) return attribute = std::move(fresh);
  return node.attributes.emplace_back(std::move(fresh));
}

// Made by the compiler, and never destroyed: nothing of it is allocated.
union AbsentTensor {
  constexpr AbsentTensor() : tensor() {}
  constexpr ~AbsentTensor() {}
  Tensor tensor;
};
#if defined(__clang__)  // 16 cannot evaluate the strings of libstdc++ 12: a constructor runs, in the fuzzers' build
const AbsentTensor kAbsentTensor{};
#else
constexpr AbsentTensor kAbsentTensor{};
#endif

}  // namespace

const Tensor &at(const Graph &graph, std::int32_t id) noexcept {
  const auto place = index_of(id);  // kAbsent is behind every end
  return place < graph.tensors.size() ? graph.tensors[place] : kAbsentTensor.tensor;
}
Tensor &at(Graph &graph, std::int32_t id) noexcept { return const_cast<Tensor &>(at(std::as_const(graph), id)); }

String op_text(const Node &node) {
  if (!node.custom) return op_name(node.op);
  return printable(node.custom->domain) + "::" + printable(node.custom->type);
}

const Attribute *Node::find(std::string_view attribute) const noexcept {
  for (const Attribute &candidate : attributes)
    if (candidate.name == attribute) return &candidate;
  return nullptr;
}

std::int64_t Node::get_int(std::string_view attribute, std::int64_t fallback) const noexcept {
  const Attribute *found = find_kind(*this, attribute, Attribute::Kind::Int);
  return found ? found->i : fallback;
}
float Node::get_float(std::string_view attribute, float fallback) const noexcept {
  const Attribute *found = find_kind(*this, attribute, Attribute::Kind::Float);
  return found ? found->f : fallback;
}
std::string_view Node::get_string(std::string_view attribute, std::string_view fallback) const noexcept {
  const Attribute *found = find_kind(*this, attribute, Attribute::Kind::String);
  return found ? std::string_view(found->s) : fallback;
}
const Vector<std::int64_t> *Node::get_ints(std::string_view attribute) const noexcept {
  const Attribute *found = find_kind(*this, attribute, Attribute::Kind::Ints);
  return found ? &found->ints : nullptr;
}
const Vector<float> *Node::get_floats(std::string_view attribute) const noexcept {
  const Attribute *found = find_kind(*this, attribute, Attribute::Kind::Floats);
  return found ? &found->floats : nullptr;
}
const Vector<String> *Node::get_strings(std::string_view attribute) const noexcept {
  const Attribute *found = find_kind(*this, attribute, Attribute::Kind::Strings);
  return found ? &found->strings : nullptr;
}

void Node::set(std::string_view attribute, std::int64_t value) {
  reset(*this, attribute, Attribute::Kind::Int).i = value;
}
void Node::set(std::string_view attribute, float value) { reset(*this, attribute, Attribute::Kind::Float).f = value; }
void Node::set(std::string_view attribute, std::string_view value) {
  String copy(value);  // `value` may point into what reset() clears
  reset(*this, attribute, Attribute::Kind::String).s = std::move(copy);
}
void Node::set(std::string_view attribute, Vector<std::int64_t> value) {
  reset(*this, attribute, Attribute::Kind::Ints).ints = std::move(value);
}
void Node::set(std::string_view attribute, Vector<float> value) {
  reset(*this, attribute, Attribute::Kind::Floats).floats = std::move(value);
}
void Node::set(std::string_view attribute, Vector<String> value) {
  reset(*this, attribute, Attribute::Kind::Strings).strings = std::move(value);
}

}  // namespace quarry::qir
