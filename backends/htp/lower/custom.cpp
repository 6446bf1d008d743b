// SPDX-License-Identifier: Apache-2.0
// Operators of the user's own packages: the node as it is, in the model's order of axes; its domain is the package's
// name, its attributes are parameters.
#include "backends/htp/lower/lowering.h"

namespace quarry::htp {

Status lower_custom(Lowering &l, const qir::Node &node) {
  Vector<DraftParam> params;
  const auto refused = [&](const qir::Attribute &attribute, const char *found) {
    return refuse(ErrorId::backend_limit,
                  format("%s: attribute %s: found %s, expected a number, a text, or a list of numbers of 32 bits",
                         qir::op_text(node).c_str(), printable(attribute.name).c_str(), found),
                  "give it as an input");
  };
  for (const qir::Attribute &attribute : node.attributes) {
    using Kind = qir::Attribute::Kind;
    const char *const name = attribute.name.c_str();
    const String full = node.name + "." + attribute.name;
    switch (attribute.kind) {
      case Kind::Int:
        if (attribute.i != static_cast<std::int32_t>(attribute.i)) return refused(attribute, "an integer of 64 bits");
        params.push_back({name, static_cast<std::int32_t>(attribute.i)});
        break;
      case Kind::Float: params.push_back({name, attribute.f}); break;
      case Kind::String: params.push_back({name, DraftParam::Text{attribute.s.c_str()}}); break;
      case Kind::Ints: {
        Vector<std::int32_t> values;
        for (const std::int64_t value : attribute.ints) {
          if (value != static_cast<std::int32_t>(value)) return refused(attribute, "an integer of 64 bits");
          values.push_back(static_cast<std::int32_t>(value));
        }
        if (values.empty()) return refused(attribute, "an empty list");
        params.push_back(
            {name, DraftParam::Ref{l.constant(full, qnn::DataType::I32, {static_cast<std::uint32_t>(values.size())},
                                              values.data(), values.size() * sizeof values[0])}});
        break;
      }
      case Kind::Floats:
        if (attribute.floats.empty()) return refused(attribute, "an empty list");
        params.push_back({name, DraftParam::Ref{l.constant(
                                    full, qnn::DataType::F32, {static_cast<std::uint32_t>(attribute.floats.size())},
                                    attribute.floats.data(), attribute.floats.size() * sizeof(float))}});
        break;
      default: return refused(attribute, "texts or tensors");
    }
  }
  Vector<std::int32_t> inputs, outputs;
  for (const std::int32_t id : node.inputs) {
    if (id == qir::kAbsent)
      return refuse(ErrorId::backend_limit,
                    format("%s: found an input that is left out, expected all of them", qir::op_text(node).c_str()));
    inputs.push_back(l.natural(id));
  }
  for (const std::int32_t id : node.outputs)
    if (id != qir::kAbsent) outputs.push_back(l.result(id));
  DraftNode &made = l.node(node.custom->type.c_str(), {}, {});
  made.params = std::move(params), made.inputs = std::move(inputs), made.outputs = std::move(outputs);
  made.custom = node.custom;
  return {};
}

}  // namespace quarry::htp
