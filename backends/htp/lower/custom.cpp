// SPDX-License-Identifier: Apache-2.0
// Operators of the user's own packages: the node as it is, in the model's order of axes; its domain is the package's
// name, its attributes are parameters.
#include <algorithm>

#include "backends/htp/lower/lowering.h"

namespace quarry::htp {

namespace {

Status check_attribute(const qir::Node &node, const qir::Attribute &attribute) {
  using Kind = qir::Attribute::Kind;
  const auto is_wide = [](std::int64_t value) { return value != static_cast<std::int32_t>(value); };
  const char *found = nullptr;
  switch (attribute.kind) {
    case Kind::Int: found = is_wide(attribute.i) ? "an integer of 64 bits" : nullptr; break;
    case Kind::Ints:
      if (std::ranges::any_of(attribute.ints, is_wide)) found = "an integer of 64 bits";
      else if (attribute.ints.empty()) found = "an empty list";
      break;
    case Kind::Floats: found = attribute.floats.empty() ? "an empty list" : nullptr; break;
    case Kind::Float:
    case Kind::String: break;
    default: found = "texts or tensors"; break;
  }
  if (!found) return {};
  return refuse(ErrorId::backend_limit,
                format("%s: attribute %s: found %s, expected a number, a text, or a list of numbers of 32 bits",
                       qir::op_text(node), printable(attribute.name), found),
                "give it as an input");
}

DraftParam param_of(Lowering &l, const qir::Node &node, const qir::Attribute &attribute) {
  using Kind = qir::Attribute::Kind;
  const char *const name = attribute.name.c_str();
  const auto list = [&](qnn::DataType dtype, const auto &values) {
    return DraftParam{name, DraftParam::Ref{l.constant(node.name + "." + attribute.name, dtype,
                                                       {static_cast<std::uint32_t>(values.size())}, values.data(),
                                                       values.size() * sizeof values[0])}};
  };
  switch (attribute.kind) {
    case Kind::Int: return {name, static_cast<std::int32_t>(attribute.i)};
    case Kind::Float: return {name, attribute.f};
    case Kind::Floats: return list(qnn::DataType::F32, attribute.floats);
    case Kind::Ints: {
      Vector<std::int32_t> values;
      for (const std::int64_t value : attribute.ints) values.push_back(static_cast<std::int32_t>(value));
      return list(qnn::DataType::I32, values);
    }
    default: return {name, DraftParam::Text{attribute.s.c_str()}};
  }
}

}  // namespace

Status lower_custom(Lowering &l, const qir::Node &node) {
  for (const qir::Attribute &attribute : node.attributes) QR_RETURN_IF_ERROR(check_attribute(node, attribute));
  if (std::ranges::find(node.inputs, qir::kAbsent) != node.inputs.end())
    return refuse(ErrorId::backend_limit,
                  format("%s: found an input that is left out, expected all of them", qir::op_text(node)));
  Vector<DraftParam> params;
  for (const qir::Attribute &attribute : node.attributes) params.push_back(param_of(l, node, attribute));
  Vector<std::int32_t> inputs, outputs;
  for (const std::int32_t id : node.inputs) inputs.push_back(l.natural(id));
  for (const std::int32_t id : node.outputs)
    if (id != qir::kAbsent) outputs.push_back(l.result(id));
  DraftNode &made = l.node(node.custom->type.c_str(), {}, {});
  made.params = std::move(params), made.inputs = std::move(inputs), made.outputs = std::move(outputs);
  made.custom = node.custom;
  return {};
}

}  // namespace quarry::htp
