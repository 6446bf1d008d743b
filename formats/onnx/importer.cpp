// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx/importer.h"

#include <algorithm>

#include <google/protobuf/unknown_field_set.h>

#include "base/stop.h"
#include "formats/onnx/rewriter.h"
#include "graph/limits.h"

namespace quarry::onnx_import {
namespace {

constexpr int kNodeOverloadField = 8;        // NodeProto.overload
constexpr int kFunctionAttributeField = 11;  // FunctionProto.attribute_proto: attributes with defaults
constexpr int kDeepestCalls = 96;            // functions in functions, subgraphs in subgraphs

// Functions call functions, and a body is imported again until its shapes hold still: so many nodes may come of it,
// and so many times those that the file has.
constexpr std::uint64_t kFreeNodes = std::uint64_t{1} << 16, kNodeTimes = 16;

using NodeList = google::protobuf::RepeatedPtrField<pb::NodeProto>;

// One, and more for what takes long to copy: names, lists.
std::uint64_t weight_of(const pb::NodeProto &node) {
  std::size_t bytes = node.name().size();
  for (const auto *list : {&node.input(), &node.output()})
    for (const auto &name : *list) bytes += name.size();
  for (const auto &attribute : node.attribute()) {
    bytes += attribute.s().size() + static_cast<std::size_t>(attribute.ints_size()) * sizeof(std::int64_t) +
             static_cast<std::size_t>(attribute.floats_size()) * sizeof(float);
    for (const auto &text : attribute.strings()) bytes += text.size();
  }
  return 1 + bytes / 256;
}

std::uint64_t weight_of(const NodeList &list) {
  std::uint64_t all = 0;
  for (const auto &node : list) {
    all += weight_of(node);
    for (const auto &attribute : node.attribute())
      if (attribute.has_g()) all += weight_of(attribute.g().node());
  }
  return all;
}

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

// Calls `found` with each name that a node uses.
template <class Found>
void for_each_use(const pb::NodeProto &node, const Found &found) {
  if (std::ranges::none_of(node.attribute(), [](const auto &attribute) { return attribute.has_g(); })) {
    for (const auto &input : node.input())
      if (!input.empty()) found(std::string_view(input));
    return;
  }
  StringSet seen;
  Vector<String> names;
  collect_uses(node, seen, names);
  for (const String &name : names) found(std::string_view(name));
}

// The order where the file has none. `maker`: by name, the node that makes it.
Result<Vector<const pb::NodeProto *>> sorted_anew(const NodeList &list, const NameTable &maker) {
  Vector<int> missing(static_cast<std::size_t>(list.size()), 0);
  Vector<Vector<int>> users(static_cast<std::size_t>(list.size()));
  for (int i = 0; i < list.size(); ++i) {
    if (stop_asked()) return stop_status("import");
    for_each_use(list[i], [&](std::string_view name) {
      const std::int32_t *const made_by = maker.find(name);
      if (!made_by) return;
      users[index_of(*made_by)].push_back(i);
      ++missing[index_of(i)];
    });
  }
  Vector<const pb::NodeProto *> order;
  Vector<int> ready;
  for (int i = 0; i < list.size(); ++i)
    if (missing[index_of(i)] == 0) ready.push_back(i);
  for (std::size_t at = 0; at < ready.size(); ++at) {
    order.push_back(&list[ready[at]]);
    for (const int user : users[index_of(ready[at])])
      if (--missing[index_of(user)] == 0) ready.push_back(user);
  }
  if (order.size() == static_cast<std::size_t>(list.size())) return order;
  const auto stuck = std::ranges::find_if(missing, [](int count) { return count > 0; }) - missing.begin();
  const pb::NodeProto &node = list[static_cast<int>(stuck)];
  return Status::error(ErrorId::onnx_invalid, format("%s '%s': needs its own result (the nodes form a cycle)",
                                                     printable(node.op_type()), printable(node.name())));
}

// Nodes in an order in which they can run. ONNX demands that order of the file; a file that breaks it is put right
// unless it has a cycle.
Result<Vector<const pb::NodeProto *>> sorted(const NodeList &list, const Scope &scope) {
  Vector<const pb::NodeProto *> order;
  NameTable maker;
  bool in_order = true;
  for (int i = 0; i < list.size(); ++i) {
    if (stop_asked()) return stop_status("import");
    for (const auto &output : list[i].output()) {
      if (output.empty()) continue;
      if (!maker.emplace(output, i) || scope.names.find(output))
        return Status::error(ErrorId::onnx_invalid, format("value '%s': is made more than once", printable(output)));
    }
  }
  order.reserve(static_cast<std::size_t>(list.size()));
  for (int i = 0; i < list.size(); ++i) {
    if (stop_asked()) return stop_status("import");
    for_each_use(list[i], [&](std::string_view name) {
      const std::int32_t *const made_by = maker.find(name);
      in_order = in_order && (!made_by || *made_by < i);
    });
    order.push_back(&list[i]);
  }
  if (in_order) return order;

  return sorted_anew(list, maker);
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
    if (!output.empty()) scope.names.set(output, Scope::kPoisoned);
}

void Importer::bind_dimensions(const Vector<Declared> &inputs, const Vector<InputBinding> &bindings) {
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
  // The main graph is imported once: nobody asks for its tensors again.
  const bool keep = &graph != &model.proto().graph();
  const auto add = [&](const std::string &name, const char *kind, const auto &proto) {
    if (!keep && replaced.contains(std::string_view(name))) return;
    // Written where there is something to say of it.
    const auto subject = [&] { return format("%s '%s'", kind, printable(name)); };
    std::int32_t id = Scope::kPoisoned;
    Result<Constant> value = keep ? constant(proto, {}) : read(proto, {});
    if (!value.ok()) value = read(proto, subject());
    if (!value.ok()) reasons.add(value.take_status(), subject());
    else id = scope.builder->add_constant(scope.prefix + String(name), std::move(*value));
    if (!scope.names.emplace(name, id)) reasons.add(ErrorId::onnx_invalid, subject(), "its name is taken already");
  };
  // nodes() says why.
  for (const auto &tensor : graph.initializer()) {
    if (stop_asked()) break;
    add(tensor.name(), "initializer", tensor);
  }
  for (const auto &tensor : graph.sparse_initializer()) {
    if (stop_asked()) break;
    add(tensor.values().name(), "sparse initializer", tensor);
  }
  if (stop_asked()) stopped = stop_status("import");
  else nodes(graph.node(), scope);
}

void Importer::limit() {
  const pb::ModelProto &proto = model.proto();
  std::uint64_t in_file = weight_of(proto.graph().node());
  for (const auto &function : proto.functions()) in_file += weight_of(function.node());
  limit_ = left_ = kFreeNodes + kNodeTimes * in_file;
}

void Importer::spend(std::uint64_t weight) {
  if (weight <= left_) {
    left_ -= weight;
  } else if (stopped.ok()) {
    stopped = Status::error(
        ErrorId::qir_limit,
        format("the model: found more than %llu nodes where each is counted as often as it is imported, expected at "
               "most %llu and %llu times those in the file",
               limit_, kFreeNodes, kNodeTimes),
        "its functions call functions, or its loops stand in loops, too often: write some of them out");
  }
}

Result<Constant> Importer::read(const pb::TensorProto &proto, std::string_view subject) {
  QR_ASSIGN_OR_RETURN(Constant made, read_tensor(proto, model.external(), store, subject));
  if (folder && proto.external_data_size() > 0) folder->left += made.data.size * Folder::kTimes;
  return made;
}

Result<Constant> Importer::read(const pb::SparseTensorProto &proto, std::string_view subject) {
  return read_sparse_tensor(proto, model.external(), store, subject);
}

template <class Proto>
Result<Constant> Importer::constant(const Proto &proto, std::string_view subject) {
  if (const auto known = constants_.find(&proto); known != constants_.end()) return known->second;
  QR_ASSIGN_OR_RETURN(Constant made, read(proto, subject));
  return constants_.emplace(&proto, std::move(made)).first->second;
}
template Result<Constant> Importer::constant(const pb::TensorProto &, std::string_view);
template Result<Constant> Importer::constant(const pb::SparseTensorProto &, std::string_view);

void Importer::nodes(const NodeList &list, Scope &scope) {
  auto order = sorted(list, scope);
  if (!order.ok()) {
    if (stop_asked()) {
      stopped = order.take_status();
      return;
    }
    reasons.add(order.take_status(), "");
    for (const auto &proto : list) poison(proto, scope);
    return;
  }
  total_ += order->size();
  for (const pb::NodeProto *proto : *order) {
    spend(weight_of(*proto));
    if (!stopped.ok()) return;
    node(*proto, scope);
    ++done_;
    if (stopped.ok()) stopped = watcher ? watcher->node_done(done_, total_) : stop_status("importing the model");
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
  if (!status.message().empty()) reasons.add(status, rewriter.where());
  poison(proto, scope);
}

Status Importer::rewrite(Rewriter &node, std::string_view domain) {
  const pb::NodeProto &proto = node.proto;
  const Rule rule = find_rule(domain, proto.op_type(), node.opset);
  const qir::OpRow *row = rule ? nullptr : qir::find_op(domain, proto.op_type());
  if (row && row->op == qir::Op::Custom) row = nullptr;  // a model cannot name the row that stands for all others
  if (!rule && !row && domain.empty())
    return node.error(ErrorId::onnx_op, "operator ai.onnx.%s is not supported", printable(proto.op_type()));
  if (domain.empty() && node.opset == 0)
    return node.error(ErrorId::onnx_invalid, "the model imports no opset of ai.onnx");
  if (!rule && !row) return import_custom(node, domain);
  const bool takes_sequences = domain.empty() && (is_sequence_operator(proto.op_type()) ||
                                                  proto.op_type() == "Identity" || proto.op_type() == "Loop");
  QR_RETURN_IF_ERROR(node.check_inputs(takes_sequences));
  if (rule) return rule(node);
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(row->op, node.inputs()));
  return node.finish(std::move(made));
}

// They stand in a field that is newer than libonnx, so they are parsed here, once for all calls.
Result<const Vector<std::unique_ptr<pb::AttributeProto>> *> Importer::defaults_of(const pb::FunctionProto &function,
                                                                                  const Rewriter &node) {
  const auto [at, added] = defaults_.try_emplace(&function);
  const auto &unknown = function.GetReflection()->GetUnknownFields(function);
  for (int i = 0; added && i < unknown.field_count(); ++i) {
    const auto &field = unknown.field(i);
    if (field.number() != kFunctionAttributeField ||
        field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      continue;
    auto parsed = std::make_unique<pb::AttributeProto>();
    if (!parsed->ParseFromString(field.length_delimited()))
      return node.error(ErrorId::onnx_invalid, "a default of the function does not parse");
    at->second.push_back(std::move(parsed));
  }
  return &at->second;
}

Status Importer::call(const pb::FunctionProto &function, Rewriter &node) {
  if (node.scope.depth >= kDeepestCalls)
    return node.error(ErrorId::onnx_invalid, "functions are nested deeper than %d: does one call itself?",
                      kDeepestCalls);
  for (const std::int32_t id : node.inputs()) {
    if (id == Scope::kPoisoned) return poisoned_status();
    if (id == Scope::kUnknown)
      return node.error(ErrorId::onnx_invalid, "an input of the call is made by no node, input or initializer");
  }
  if (node.proto.input_size() > function.input_size() || node.proto.output_size() > function.output_size())
    return node.error(ErrorId::onnx_invalid, "the call has %d inputs and %d outputs, the function %d and %d",
                      node.proto.input_size(), node.proto.output_size(), function.input_size(), function.output_size());
  spend(static_cast<std::uint64_t>(function.opset_import_size()));
  Opsets opsets = *node.scope.opsets;
  QR_RETURN_IF_ERROR(read_opsets(function.opset_import(), node.where(), &opsets));

  // The call's attributes, and the defaults of those that it does not give.
  StringMap<const pb::AttributeProto *> arguments;
  QR_ASSIGN_OR_RETURN(const auto *defaults, defaults_of(function, node));
  for (const auto &given : *defaults) arguments[String(given->name())] = given.get();
  for (const auto &attribute : node.proto.attribute())
    if (const auto *found = node.attribute(attribute.name())) arguments[String(attribute.name())] = found;

  Scope scope;
  scope.builder = node.scope.builder;
  scope.opsets = &opsets;
  scope.arguments = &arguments;
  scope.function = &function;
  scope.prefix = node.name + "/";
  scope.depth = node.scope.depth + 1;
  for (int i = 0; i < function.input_size(); ++i) scope.names.set(function.input(i), node.in(index_of(i)));
  const std::size_t before = reasons.size();
  nodes(function.node(), scope);
  if (reasons.size() != before || !stopped.ok()) return poisoned_status();
  for (int i = 0; i < function.output_size(); ++i) {
    const std::int32_t id = scope.lookup(function.output(i));
    if (id == Scope::kUnknown)
      return node.error(ErrorId::onnx_invalid, "the function does not make its output '%s'",
                        printable(function.output(i)));
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
    QR_RETURN_IF_ERROR(stop_status("import"));
    const Declared &input = model.inputs()[i];
    const auto &[shape, values, replaces] = bindings[i];
    scope.names.set(input.name, values.empty() ? builder.add_input(input.name, input.dtype, shape)
                                               : builder.add_numbers(input.name, input.dtype, shape, values));
  }
  for (std::size_t i = model.inputs().size(); i < bindings.size(); ++i) {
    const auto &[shape, values, replaces] = bindings[i];
    const Declared &input = model.defaults()[replaces];
    importer.replaced.emplace(input.name);
    scope.names.set(input.name, values.empty() ? builder.add_input(input.name, input.dtype, shape)
                                               : builder.add_numbers(input.name, input.dtype, shape, values));
  }
  builder.graph.nodes.reserve(static_cast<std::size_t>(graph.node_size()));
  builder.graph.tensors.reserve(builder.graph.tensors.size() + static_cast<std::size_t>(graph.initializer_size()) +
                                static_cast<std::size_t>(graph.node_size()));
  importer.bind_dimensions(model.inputs(), bindings);
  importer.limit();
  if (folder) folder->left = Folder::kAllowed + model.file_bytes() * Folder::kTimes;
  // Outputs keep their names, whatever is made on the way.
  importer.body(graph, scope);
  if (!importer.stopped.ok()) return std::move(importer.stopped);
  for (const auto &output : graph.output()) {
    QR_RETURN_IF_ERROR(stop_status("import"));
    const std::int32_t id = scope.lookup(output.name());
    if (id >= 0) QR_RETURN_IF_ERROR(builder.add_output(id, output.name()));
    else if (importer.sequence(id))
      importer.reasons.add(ErrorId::onnx_type, format("output '%s'", printable(output.name())),
                           "is a sequence; Quarry gives tensors");
    else if (id != Scope::kPoisoned)
      importer.reasons.add(ErrorId::onnx_invalid, format("output '%s'", printable(output.name())),
                           "is made by no node");
  }
  QR_RETURN_IF_ERROR(importer.reasons.status());
  // What was noted on the way goes piece by piece: of a large graph that takes some milliseconds each.
  QR_RETURN_IF_ERROR(stop_status("import"));
  scope.names = {};
  QR_RETURN_IF_ERROR(stop_status("import"));
  importer.forget();
  QR_RETURN_IF_ERROR(stop_status("import"));
  return std::move(builder.graph);
}

}  // namespace quarry::onnx_import
