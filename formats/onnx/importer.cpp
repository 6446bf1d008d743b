// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx/importer.h"

#include <algorithm>

#include <google/protobuf/unknown_field_set.h>

#include "formats/onnx/rewriter.h"
#include "formats/qir/limits.h"

namespace quarry::onnx_import {
namespace {

constexpr int kNodeOverloadField = 8;        // NodeProto.overload
constexpr int kFunctionAttributeField = 11;  // FunctionProto.attribute_proto: attributes with defaults
constexpr int kDeepestNesting = 32;          // functions in functions, subgraphs in subgraphs

using NodeList = google::protobuf::RepeatedPtrField<pb::NodeProto>;

// Adds the names that a graph uses but does not make.
void collect_free_names(const pb::GraphProto &graph, StringSet &seen, Vector<String> &out);

// Adds the names that a node uses: its inputs, and what its subgraphs take from outside.
void collect_uses(const pb::NodeProto &node, StringSet &seen, Vector<String> &out) {
  for (const auto &input : node.input())
    if (!input.empty() && seen.emplace(input).second) out.emplace_back(input);
  for (const auto &attribute : node.attribute())
    if (attribute.has_g()) collect_free_names(attribute.g(), seen, out);
}

void collect_free_names(const pb::GraphProto &graph, StringSet &seen, Vector<String> &out) {
  StringSet inside, made;
  for (const auto &input : graph.input()) made.emplace(input.name());
  for (const auto &tensor : graph.initializer()) made.emplace(tensor.name());
  for (const auto &tensor : graph.sparse_initializer()) made.emplace(tensor.values().name());
  for (const auto &node : graph.node())
    for (const auto &output : node.output()) made.emplace(output);
  Vector<String> used;
  for (const auto &node : graph.node()) collect_uses(node, inside, used);
  for (const auto &output : graph.output()) used.emplace_back(output.name());
  for (String &name : used)
    if (!name.empty() && !made.contains(name) && seen.insert(name).second) out.push_back(std::move(name));
}

// Nodes in an order in which they can run. ONNX demands that order of the file; a file that breaks it is put right
// unless it has a cycle.
Result<Vector<const pb::NodeProto *>> sorted(const NodeList &list, const Scope &scope) {
  Vector<const pb::NodeProto *> order;
  StringMap<int> maker;
  StringSet made;
  bool in_order = true;
  const auto uses = [](const pb::NodeProto &node) {
    StringSet seen;
    Vector<String> names;
    collect_uses(node, seen, names);
    return names;
  };
  for (int i = 0; i < list.size(); ++i)
    for (const auto &output : list[i].output()) {
      if (output.empty()) continue;
      if (!maker.emplace(String(output), i).second || scope.names.contains(std::string_view(output)))
        return Status::error(ErrorId::onnx_invalid,
                             format("value '%s': is made more than once", printable(output).c_str()));
    }
  for (const auto &node : list) {
    for (const String &name : uses(node)) in_order = in_order && (!maker.contains(name) || made.contains(name));
    for (const auto &output : node.output()) made.emplace(output);
    order.push_back(&node);
  }
  if (in_order) return order;

  Vector<int> missing(static_cast<std::size_t>(list.size()), 0);
  Vector<Vector<int>> users(static_cast<std::size_t>(list.size()));
  for (int i = 0; i < list.size(); ++i)
    for (const String &name : uses(list[i]))
      if (const auto found = maker.find(name); found != maker.end()) {
        users[static_cast<std::size_t>(found->second)].push_back(i);
        ++missing[static_cast<std::size_t>(i)];
      }
  order.clear();
  Vector<int> ready;
  for (int i = 0; i < list.size(); ++i)
    if (missing[static_cast<std::size_t>(i)] == 0) ready.push_back(i);
  for (std::size_t at = 0; at < ready.size(); ++at) {
    order.push_back(&list[ready[at]]);
    for (const int user : users[static_cast<std::size_t>(ready[at])])
      if (--missing[static_cast<std::size_t>(user)] == 0) ready.push_back(user);
  }
  if (order.size() == static_cast<std::size_t>(list.size())) return order;
  const auto stuck = std::ranges::find_if(missing, [](int count) { return count > 0; }) - missing.begin();
  const pb::NodeProto &node = list[static_cast<int>(stuck)];
  return Status::error(ErrorId::onnx_invalid,
                       format("%s '%s': needs its own result (the nodes form a cycle)",
                              printable(node.op_type()).c_str(), printable(node.name()).c_str()));
}

}  // namespace

Vector<String> Importer::free_names(const pb::GraphProto &graph) {
  Vector<String> names;
  StringSet seen;
  collect_free_names(graph, seen, names);
  return names;
}

void Importer::poison(const pb::NodeProto &proto, Scope &scope) {
  for (const auto &output : proto.output())
    if (!output.empty()) scope.names[String(output)] = Scope::kPoisoned;
}

void Importer::bind_extents(const Vector<Declared> &inputs, const Vector<InputBinding> &bindings) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (std::size_t d = 0; d < inputs[i].dim_names.size() && d < bindings[i].shape.size(); ++d)
      if (!inputs[i].dim_names[d].empty()) extents_.emplace(inputs[i].dim_names[d], bindings[i].shape[d]);
}

qir::Shape Importer::known_extents(const Declared &value, const Scope &scope) const {
  qir::Shape shape = value.shape;
  if (scope.arguments) return shape;  // the names of a function are its own
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (const auto found = extents_.find(value.dim_names[d]); shape[d] < 0 && found != extents_.end())
      shape[d] = found->second;
  return shape;
}

void Importer::body(const pb::GraphProto &graph, Scope &scope) {
  scope.graph = &graph;
  const auto add = [&](const std::string &name, const char *kind, Result<Constant> constant) {
    const String subject = format("%s '%s'", kind, printable(name).c_str());
    std::int32_t id = Scope::kPoisoned;
    if (!constant.ok()) reasons.add(constant.status(), subject);
    else id = scope.builder->add_constant(scope.prefix + String(name), std::move(*constant));
    if (!scope.names.emplace(String(name), id).second)
      reasons.add(ErrorId::onnx_invalid, subject, "its name is taken already");
  };
  for (const auto &tensor : graph.initializer())
    add(tensor.name(), "initializer",
        read_tensor(tensor, model.external(), store, format("initializer '%s'", printable(tensor.name()).c_str())));
  for (const auto &tensor : graph.sparse_initializer())
    add(tensor.values().name(), "sparse initializer",
        read_sparse_tensor(tensor, model.external(), store,
                           format("sparse initializer '%s'", printable(tensor.values().name()).c_str())));
  nodes(graph.node(), scope);
}

void Importer::nodes(const NodeList &list, Scope &scope) {
  auto order = sorted(list, scope);
  if (!order.ok()) {
    reasons.add(order.status(), "");
    for (const auto &proto : list) poison(proto, scope);
    return;
  }
  total_ += order->size();
  for (const pb::NodeProto *proto : *order) {
    if (!stopped.ok()) return;
    node(*proto, scope);
    ++done_;
    if (watcher) stopped = watcher->node_done(done_, total_);
  }
}

void Importer::node(const pb::NodeProto &proto, Scope &scope) {
  const String domain(normal_domain(proto.domain()));
  const auto version = scope.opsets->find(domain);
  Rewriter rewriter(*this, scope, proto, version == scope.opsets->end() ? 0 : version->second);

  Status status;
  if (const auto *function = model.function(domain, proto.op_type(), unknown_string(proto, kNodeOverloadField))) {
    status = call(*function, rewriter);
  } else {
    status = rewrite(rewriter, domain);
  }
  if (status.ok()) return;
  if (!status.message().empty()) reasons.add(status, rewriter.where);
  poison(proto, scope);
}

Status Importer::rewrite(Rewriter &node, std::string_view domain) {
  const pb::NodeProto &proto = node.proto;
  const Rule rule = find_rule(domain, proto.op_type(), node.opset);
  const qir::OpRow *row = rule ? nullptr : qir::find_op(domain, proto.op_type());
  if (row && row->op == qir::Op::Custom) row = nullptr;  // a model cannot name the row that stands for all others
  if (!rule && !row && domain.empty())
    return node.error(ErrorId::onnx_op, "operator ai.onnx.%s is not supported", printable(proto.op_type()).c_str());
  if (domain.empty() && node.opset == 0)
    return node.error(ErrorId::onnx_invalid, "the model imports no opset of ai.onnx");
  if (!rule && !row) return import_custom(node, domain);
  QR_RETURN_IF_ERROR(node.check_inputs());
  if (rule) return rule(node);
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(row->op, node.inputs()));
  return node.finish(std::move(made));
}

Status Importer::call(const pb::FunctionProto &function, Rewriter &node) {
  if (node.scope.depth >= kDeepestNesting)
    return node.error(ErrorId::onnx_invalid, "functions are nested deeper than %d: does one call itself?",
                      kDeepestNesting);
  for (const std::int32_t id : node.inputs()) {
    if (id == Scope::kPoisoned) return poisoned_status();
    if (id == Scope::kUnknown)
      return node.error(ErrorId::onnx_invalid, "an input of the call is made by no node, input or initializer");
  }
  if (node.proto.input_size() > function.input_size() || node.proto.output_size() > function.output_size())
    return node.error(ErrorId::onnx_invalid, "the call has %d inputs and %d outputs, the function %d and %d",
                      node.proto.input_size(), node.proto.output_size(), function.input_size(), function.output_size());
  Opsets opsets = *node.scope.opsets;
  QR_RETURN_IF_ERROR(read_opsets(function.opset_import(), node.where, &opsets));

  // The call's attributes, and the defaults of those that it does not give (a field newer than libonnx).
  StringMap<const pb::AttributeProto *> arguments;
  Vector<std::unique_ptr<pb::AttributeProto>> defaults;
  const auto &unknown = function.GetReflection()->GetUnknownFields(function);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto &field = unknown.field(i);
    if (field.number() != kFunctionAttributeField ||
        field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      continue;
    defaults.push_back(std::make_unique<pb::AttributeProto>());
    if (!defaults.back()->ParseFromString(field.length_delimited()))
      return node.error(ErrorId::onnx_invalid, "a default of the function does not parse");
    arguments[String(defaults.back()->name())] = defaults.back().get();
  }
  for (const auto &attribute : node.proto.attribute())
    if (const auto *found = node.attribute(attribute.name())) arguments[String(attribute.name())] = found;

  Scope scope;
  scope.builder = node.scope.builder;
  scope.opsets = &opsets;
  scope.arguments = &arguments;
  scope.function = &function;
  scope.prefix = node.name + "/";
  scope.depth = node.scope.depth + 1;
  for (int i = 0; i < function.input_size(); ++i)
    scope.names[String(function.input(i))] = node.in(static_cast<std::size_t>(i));
  const std::size_t before = reasons.size();
  nodes(function.node(), scope);
  if (reasons.size() != before || !stopped.ok()) return poisoned_status();
  for (int i = 0; i < function.output_size(); ++i) {
    const std::int32_t id = scope.lookup(function.output(i));
    if (id == Scope::kUnknown)
      return node.error(ErrorId::onnx_invalid, "the function does not make its output '%s'",
                        printable(function.output(i)).c_str());
    node.bind(i, id);
  }
  return {};
}

Result<qir::Graph> import_graph(Model &model, const Vector<InputBinding> &bindings, Store &store, Folder *folder,
                                Watcher *watcher) {
  const pb::GraphProto &graph = model.proto().graph();
  Importer importer(model, store, folder, watcher);
  Builder builder(store, folder);
  builder.graph.name = graph.name();
  Scope scope;
  scope.builder = &builder;
  scope.opsets = &model.opsets();
  for (std::size_t i = 0; i < model.inputs().size(); ++i) {
    const Declared &input = model.inputs()[i];
    const auto &[shape, values] = bindings[i];
    scope.names[input.name] = values.empty() ? builder.add_input(input.name, input.dtype, shape)
                                             : builder.add_numbers(input.name, input.dtype, shape, values);
  }
  importer.bind_extents(model.inputs(), bindings);
  // Outputs keep their names, whatever is made on the way.
  importer.body(graph, scope);
  if (!importer.stopped.ok()) return std::move(importer.stopped);
  for (const auto &output : graph.output()) {
    const std::int32_t id = scope.lookup(output.name());
    if (id >= 0) QR_RETURN_IF_ERROR(builder.add_output(id, output.name()));
    else if (id != Scope::kPoisoned)
      importer.reasons.add(ErrorId::onnx_invalid, format("output '%s'", printable(output.name()).c_str()),
                           "is made by no node");
  }
  QR_RETURN_IF_ERROR(importer.reasons.status());
  return std::move(builder.graph);
}

}  // namespace quarry::onnx_import
