// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx/rewriter.h"

#include <algorithm>
#include <cstdio>

#include "graph/ops/op_spec.h"

namespace quarry::onnx_import {

// Old exporters leave `type` out; the field that is there says it.
pb::AttributeProto_AttributeType Rewriter::kind_of(const pb::AttributeProto &attribute) {
  if (attribute.type() != pb::AttributeProto_AttributeType_UNDEFINED) return attribute.type();
  if (attribute.has_i()) return pb::AttributeProto_AttributeType_INT;
  if (attribute.has_f()) return pb::AttributeProto_AttributeType_FLOAT;
  if (attribute.has_s()) return pb::AttributeProto_AttributeType_STRING;
  if (attribute.floats_size() > 0) return pb::AttributeProto_AttributeType_FLOATS;
  if (attribute.strings_size() > 0) return pb::AttributeProto_AttributeType_STRINGS;
  if (attribute.has_t()) return pb::AttributeProto_AttributeType_TENSOR;
  if (attribute.has_g()) return pb::AttributeProto_AttributeType_GRAPH;
  return pb::AttributeProto_AttributeType_INTS;
}

bool Rewriter::add_attribute(const pb::AttributeProto &from, std::string_view key, qir::Node *to) {
  switch (kind_of(from)) {
    case pb::AttributeProto_AttributeType_INT: to->set(key, static_cast<std::int64_t>(from.i())); return true;
    case pb::AttributeProto_AttributeType_FLOAT: to->set(key, from.f()); return true;
    case pb::AttributeProto_AttributeType_STRING: to->set(key, std::string_view(from.s())); return true;
    case pb::AttributeProto_AttributeType_INTS:
      to->set(key, Vector<std::int64_t>(from.ints().begin(), from.ints().end()));
      return true;
    case pb::AttributeProto_AttributeType_FLOATS:
      to->set(key, Vector<float>(from.floats().begin(), from.floats().end()));
      return true;
    case pb::AttributeProto_AttributeType_STRINGS: {
      Vector<String> strings;
      for (const auto &text : from.strings()) strings.emplace_back(text);
      to->set(key, std::move(strings));
      return true;
    }
    default: return false;
  }
}

std::int32_t Scope::lookup(std::string_view name) const {
  if (name.empty()) return qir::kAbsent;
  for (const Scope *scope = this; scope; scope = scope->parent)
    if (const std::int32_t *found = scope->names.find(name)) return *found;
  return kUnknown;
}

Rewriter::Rewriter(Importer &importer_, Scope &scope_, const pb::NodeProto &proto_, std::int64_t opset_)
    : importer(importer_), scope(scope_), builder(*scope_.builder), proto(proto_), opset(opset_) {
  name = scope.prefix;
  if (!proto.name().empty()) name += proto.name();
  else if (proto.output_size() > 0 && !proto.output(0).empty()) name += proto.output(0);
  else name += proto.op_type();
  for (const auto &input : proto.input()) inputs_.push_back(scope.lookup(input));
  while (!inputs_.empty() && inputs_.back() == qir::kAbsent) inputs_.pop_back();
}

String Rewriter::where() const { return format("%s '%s'", printable(proto.op_type()), printable(name)); }

Status Rewriter::need_inputs(std::size_t count) const {
  for (std::size_t i = 0; i < count; ++i)
    if (!has(i)) return error(ErrorId::onnx_invalid, "input %zu is missing, expected %zu inputs", i, count);
  return {};
}

Status Rewriter::check_inputs(bool takes_sequences) const {
  for (std::size_t i = 0; i < input_count(); ++i) {
    if (in(i) == Scope::kPoisoned) return poisoned_status();
    if (in(i) == Scope::kUnknown)
      return error(ErrorId::onnx_invalid, "input %zu '%s' is made by no node, input or initializer", i,
                   printable(proto.input(static_cast<int>(i))));
    if (!takes_sequences && importer.sequence(in(i)))
      return error(ErrorId::onnx_type, "input %zu '%s' is a sequence, expected a tensor", i,
                   printable(proto.input(static_cast<int>(i))));
  }
  return {};
}

void Rewriter::bind(int output, std::int32_t id) {
  if (wants(output)) scope.names.set(proto.output(output), id);
}

const pb::AttributeProto *Rewriter::attribute(std::string_view wanted) const {
  for (const auto &attribute : proto.attribute()) {
    if (attribute.name() != wanted) continue;
    if (attribute.ref_attr_name().empty()) return &attribute;
    if (!scope.arguments) return nullptr;
    const auto found = scope.arguments->find(std::string_view(attribute.ref_attr_name()));
    return found == scope.arguments->end() ? nullptr : found->second;
  }
  return nullptr;
}

std::int64_t Rewriter::get_int(std::string_view wanted, std::int64_t fallback) const {
  const auto *found = attribute(wanted);
  return found && found->has_i() ? found->i() : fallback;
}
float Rewriter::get_float(std::string_view wanted, float fallback) const {
  const auto *found = attribute(wanted);
  return found && found->has_f() ? found->f() : fallback;
}
std::string_view Rewriter::get_string(std::string_view wanted, std::string_view fallback) const {
  const auto *found = attribute(wanted);
  return found && found->has_s() ? std::string_view(found->s()) : fallback;
}
std::optional<Vector<std::int64_t>> Rewriter::get_ints(std::string_view wanted) const {
  const auto *found = attribute(wanted);
  if (!found) return std::nullopt;
  return Vector<std::int64_t>(found->ints().begin(), found->ints().end());
}
std::optional<Vector<float>> Rewriter::get_floats(std::string_view wanted) const {
  const auto *found = attribute(wanted);
  if (!found) return std::nullopt;
  return Vector<float>(found->floats().begin(), found->floats().end());
}

Result<qir::Node> Rewriter::copy(qir::Op op, Vector<std::int32_t> inputs,
                                 std::initializer_list<std::string_view> without) const {
  qir::Node node = make(op, std::move(inputs), "");
  for (const auto &listed : proto.attribute()) {
    const std::string_view key = listed.name();
    if (std::ranges::find(without, key) != without.end() || key == "consumed_inputs")
      continue;                                        // a hint of opsets 1 to 5
    const pb::AttributeProto *found = attribute(key);  // follows a reference
    if (!found) continue;
    if (!add_attribute(*found, key, &node))
      return error(ErrorId::onnx_attribute,
                   "attribute '%s' holds a tensor, graph or type, which the operator does not take here",
                   printable(key));
  }
  return node;
}

qir::Node Rewriter::make(qir::Op op, Vector<std::int32_t> inputs, std::string_view suffix) const {
  qir::Node node;
  node.op = op;
  node.name = name;
  if (!suffix.empty()) (node.name += '/') += suffix;
  node.inputs = std::move(inputs);
  while (!node.inputs.empty() && node.inputs.back() == qir::kAbsent) node.inputs.pop_back();
  return node;
}

Result<std::int32_t> Rewriter::step(qir::Node node) {
  Vector<std::int32_t> outputs;
  const String output = node.name;
  QR_RETURN_IF_ERROR(builder.emit(std::move(node), {output}, &outputs));
  return outputs[0];
}

Status Rewriter::finish(qir::Node node, int count) {
  const qir::OpRow &row = qir::op_row(node.op);
  Vector<String> names;
  const int listed = count < 0 ? proto.output_size() : std::min(count, proto.output_size());
  for (int i = 0; i < listed; ++i) names.push_back(wants(i) ? scope.prefix + String(proto.output(i)) : String());
  while (names.size() > static_cast<std::size_t>(std::max<int>(row.min_outputs, 0)) && names.back().empty())
    names.pop_back();
  // An output that the operator always makes exists even where nobody wants it.
  for (std::size_t i = 0; i < names.size() || i < static_cast<std::size_t>(row.min_outputs); ++i) {
    if (i == names.size()) names.emplace_back();
    if (names[i].empty() && i < static_cast<std::size_t>(row.min_outputs)) names[i] = node.name + "/unused";
  }
  Vector<std::int32_t> outputs;
  QR_RETURN_IF_ERROR(builder.emit(std::move(node), names, &outputs));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i] != qir::kAbsent) bind(static_cast<int>(i), outputs[i]);
  return {};
}

Result<std::int32_t> Rewriter::shape_of(std::int32_t id, std::string_view suffix) {
  if (builder.is_static(id)) return ints(suffix, builder.tensor(id).shape);
  return step(qir::Op::Shape, {id}, suffix);
}

Status Rewriter::error_of(ErrorId id, const char *pattern, ...) const {
  char text[1024];
  va_list args;
  va_start(args, pattern);
  std::vsnprintf(text, sizeof text, pattern, args);
  va_end(args);
  return Status::error(id, where() + ": " + text);
}

}  // namespace quarry::onnx_import
