// SPDX-License-Identifier: Apache-2.0
// Operators of foreign domains: what they compute is a backend's to know, so they pass through whole, with their
// attributes and the types that the model states for their results.
#include <google/protobuf/unknown_field_set.h>

#include "formats/onnx/rewriter.h"

namespace quarry::onnx_import {
namespace {

constexpr int kFunctionValueInfoField = 12;  // FunctionProto.value_info: newer than libonnx's headers

Result<std::optional<Declared>> find_declared(const Rewriter &node, std::string_view name) {
  const pb::ValueInfoProto *const found = node.importer.value_info(node.scope, name);
  if (!found) return std::optional<Declared>();
  Reasons reasons;
  Declared declared = declare(*found, "value", reasons);
  QR_RETURN_IF_ERROR(reasons.status());
  return std::optional<Declared>(std::move(declared));
}

// The name of an attribute's kind that has no place in QIR.
const char *unkept_kind(pb::AttributeProto_AttributeType type) {
  switch (type) {
    case pb::AttributeProto_AttributeType_GRAPH: return "a graph";
    case pb::AttributeProto_AttributeType_GRAPHS: return "graphs";
    case pb::AttributeProto_AttributeType_SPARSE_TENSOR: return "a sparse tensor";
    case pb::AttributeProto_AttributeType_SPARSE_TENSORS: return "sparse tensors";
    case pb::AttributeProto_AttributeType_TYPE_PROTO: return "a type";
    case pb::AttributeProto_AttributeType_TYPE_PROTOS: return "types";
    default: return "something of a kind that this version does not know";
  }
}

Status add_attributes(Rewriter &node, qir::Node *made) {
  const bool is_context = made->custom->type == "EPContext" && made->custom->domain == "com.microsoft";
  if (is_context) QR_RETURN_IF_ERROR(add_ep_context(node, made));
  for (const auto &listed : node.proto.attribute()) {
    if (is_context && listed.name() == "ep_cache_context") continue;
    const pb::AttributeProto *found = node.attribute(listed.name());  // follows a reference
    if (!found || Rewriter::add_attribute(*found, listed.name(), made)) continue;
    qir::Attribute kept;
    kept.name = String(listed.name());
    const auto add = [&](const pb::TensorProto &from) -> Status {
      QR_ASSIGN_OR_RETURN(Constant value, node.importer.constant(
                                              from, format("%s: attribute '%s'", node.where(), printable(kept.name))));
      qir::Tensor &tensor = kept.tensors.emplace_back();
      tensor.name = String(from.name());
      tensor.dtype = value.dtype;
      tensor.shape = std::move(value.shape);
      tensor.is_constant = true;
      tensor.data = value.data;
      return {};
    };
    const auto kind = Rewriter::kind_of(*found);
    if (kind == pb::AttributeProto_AttributeType_TENSOR) {
      kept.kind = qir::Attribute::Kind::Tensor;
      QR_RETURN_IF_ERROR(add(found->t()));
    } else if (kind == pb::AttributeProto_AttributeType_TENSORS) {
      kept.kind = qir::Attribute::Kind::Tensors;
      for (const auto &tensor : found->tensors()) QR_RETURN_IF_ERROR(add(tensor));
    } else {
      return node.error(ErrorId::onnx_attribute, "attribute '%s' holds %s, which a custom operator cannot keep",
                        printable(kept.name), unkept_kind(kind));
    }
    made->attributes.push_back(std::move(kept));
  }
  return {};
}

}  // namespace

// A value_info of the graph or function, or an output of the graph.
const pb::ValueInfoProto *Importer::value_info(const Scope &scope, std::string_view name) {
  const auto look = [&](const auto *of, const auto &add_all) -> const pb::ValueInfoProto * {
    if (!of) return nullptr;
    const auto [at, added] = infos_.try_emplace(of);
    if (added) add_all(*of, at->second);
    const auto found = at->second.find(name);
    return found == at->second.end() ? nullptr : found->second;
  };
  const auto add = [](const pb::ValueInfoProto &info, StringMap<const pb::ValueInfoProto *> &to) {
    if (info.has_type()) to.emplace(String(info.name()), &info);
  };
  const auto *const of_graph = look(scope.graph, [&](const pb::GraphProto &graph, auto &to) {
    for (const auto *list : {&graph.value_info(), &graph.output()})
      for (const auto &info : *list) add(info, to);
  });
  if (of_graph) return of_graph;
  return look(scope.function, [&](const pb::FunctionProto &function, auto &to) {
    const auto &unknown = function.GetReflection()->GetUnknownFields(function);
    for (int i = 0; i < unknown.field_count(); ++i) {
      const auto &field = unknown.field(i);
      if (field.number() != kFunctionValueInfoField ||
          field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
        continue;
      auto parsed = std::make_unique<pb::ValueInfoProto>();
      if (!parsed->ParseFromString(field.length_delimited())) continue;
      add(*parsed, to);
      parsed_infos_.push_back(std::move(parsed));
    }
  });
}

Status import_custom(Rewriter &node, std::string_view domain) {
  const pb::NodeProto &proto = node.proto;
  qir::CustomOp op;
  op.domain = String(domain);
  op.type = String(proto.op_type());
  op.version = node.opset;
  // Models of one such node often import no version of its domain; there is one alone.
  if (op.type == "EPContext" && op.domain == "com.microsoft" && op.version < 1) op.version = 1;
  const String shown = printable(op.domain) + "::" + printable(op.type);
  if (op.version < 1)
    return node.error(ErrorId::onnx_invalid, "the model imports no version of the domain of %s", shown);
  qir::Node made = node.make(qir::Op::Custom, {}, "");
  made.custom = quarry::make_shared<const qir::CustomOp>(std::move(op));
  // As many as the model gives, absent ones at the end included: the operator may count them.
  for (const auto &input : proto.input()) made.inputs.push_back(node.scope.lookup(input));
  QR_RETURN_IF_ERROR(add_attributes(node, &made));

  Vector<String> names;
  Vector<qir::InferType> types;
  for (int i = 0; i < proto.output_size(); ++i) {
    names.push_back(node.wants(i) ? node.scope.prefix + String(proto.output(i)) : String());
    types.emplace_back();
    if (!node.wants(i)) continue;
    const String value = printable(proto.output(i));
    QR_ASSIGN_OR_RETURN(std::optional<Declared> declared, find_declared(node, proto.output(i)));
    if (!declared || !declared->has_shape)
      return Status::error(
          ErrorId::onnx_op,
          format("%s: operator %s is none that Quarry knows; to keep it as a custom operator the model must state the "
                 "type of its result '%s', but %s",
                 node.where(), shown, value,
                 declared ? "gives its element type without a shape" : "has no value_info for it"),
          "export the model with a value_info (type and shape) for each result of the operator");
    types.back() = {declared->dtype, node.importer.known_extents(*declared, node.scope)};
  }
  QR_RETURN_IF_ERROR(node.check_inputs());  // last: what stands above is said of a node whose inputs were refused too
  Vector<std::int32_t> outputs;
  QR_RETURN_IF_ERROR(node.builder.emit_stated(std::move(made), names, std::move(types), &outputs));
  for (std::size_t i = 0; i < outputs.size(); ++i) node.bind(static_cast<int>(i), outputs[i]);
  return {};
}

}  // namespace quarry::onnx_import
