// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan. ONNX bodies use names of their surroundings; QIR's are closed, so what a body takes is found first
// and passed in. Constants are not passed: the body gets its own reference to the same bytes.
#include <algorithm>

#include "formats/onnx/rewriter.h"

namespace quarry::onnx_import {
namespace {

using qir::Op;

constexpr int kDeepestNesting = 16;  // qir::kMaxSubgraphDepth

struct Capture {
  String name;      // in the body
  std::int32_t id;  // outside: a tensor, or kAbsent
};

struct BodyInput {
  DType dtype;
  qir::Shape shape;
};

Result<const pb::GraphProto *> graph_attribute(const Rewriter &node, const char *key) {
  const auto *found = node.attribute(key);
  if (!found || !found->has_g()) return node.error(ErrorId::onnx_invalid, "has no graph attribute %s", key);
  return &found->g();
}

// What the bodies take from outside, each name once.
Result<Vector<Capture>> find_captures(const Rewriter &node, std::initializer_list<const pb::GraphProto *> bodies) {
  Vector<Capture> captures;
  StringSet seen;
  for (const auto *body : bodies)
    for (String &name : Importer::free_names(*body)) {
      if (!seen.insert(name).second) continue;
      const std::int32_t id = node.scope.lookup(name);
      if (id == Scope::kPoisoned) return poisoned_status();
      if (id == Scope::kUnknown)
        return node.error(ErrorId::onnx_invalid, "its body uses '%s', which is made by no node, input or initializer",
                          printable(name));
      captures.push_back({std::move(name), id});
    }
  return captures;
}

// The captures that have to be passed at run time, each tensor once.
Vector<std::int32_t> passed_values(const Rewriter &node, const Vector<Capture> &captures) {
  Vector<std::int32_t> ids;
  HashSet<std::int32_t> seen;
  for (const Capture &capture : captures)
    if (capture.id >= 0 && !node.builder.is_constant(capture.id) && seen.insert(capture.id).second)
      ids.push_back(capture.id);
  return ids;
}

// Imports a body as a closed graph: its own inputs as given, then one per entry of `passed`.
Result<qir::Graph> import_body(Rewriter &node, const pb::GraphProto &body, const Vector<BodyInput> &inputs,
                               const Vector<Capture> &captures, const Vector<std::int32_t> &passed) {
  if (node.scope.depth >= kDeepestNesting)
    return node.error(ErrorId::onnx_invalid, "subgraphs are nested deeper than %d", kDeepestNesting);
  if (static_cast<std::size_t>(body.input_size()) != inputs.size())
    return node.error(ErrorId::onnx_invalid, "its body has %d inputs, expected %zu", body.input_size(), inputs.size());
  Builder builder(node.builder.store(), node.builder.folder());
  builder.graph.name = body.name();
  Scope scope;
  scope.builder = &builder;
  scope.opsets = node.scope.opsets;
  scope.arguments = node.scope.arguments;
  scope.depth = node.scope.depth + 1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string &name = body.input(static_cast<int>(i)).name();
    if (!scope.names.emplace(name, builder.add_input(name, inputs[i].dtype, inputs[i].shape)))
      return node.error(ErrorId::onnx_invalid, "its body has two inputs '%s'", printable(name));
  }
  HashMap<std::int32_t, std::int32_t> inner;
  for (const std::int32_t id : passed)
    inner.emplace(id, builder.add_input(node.builder.tensor(id).name, node.builder.tensor(id).dtype,
                                        node.builder.tensor(id).shape));
  for (const Capture &capture : captures) {
    std::int32_t id = capture.id;
    if (id >= 0 && node.builder.is_constant(id)) {
      const qir::Tensor &from = node.builder.tensor(id);
      id = builder.add_constant(from.name, {from.dtype, from.shape, from.data});
    } else if (id >= 0) {
      id = inner[id];
    }
    scope.names.emplace(capture.name, id);  // a name of the body itself hides the one outside
  }
  const std::size_t before = node.importer.reasons.size();
  node.importer.body(body, scope);
  if (node.importer.reasons.size() != before || !node.importer.stopped.ok()) return poisoned_status();
  for (const auto &output : body.output()) {
    const std::int32_t id = scope.lookup(output.name());
    if (id < 0) return node.error(ErrorId::onnx_invalid, "its body does not make '%s'", printable(output.name()));
    QR_RETURN_IF_ERROR(builder.add_output(id, output.name()));
  }
  return std::move(builder.graph);
}

// A body that is known to run, once, is part of the graph around it.
Status inline_body(Rewriter &node, const pb::GraphProto &body) {
  if (body.output_size() < node.proto.output_size())
    return node.error(ErrorId::onnx_invalid, "its branch has %d outputs, the node %d", body.output_size(),
                      node.proto.output_size());
  Scope scope;
  scope.parent = &node.scope;
  scope.builder = &node.builder;
  scope.opsets = node.scope.opsets;
  scope.arguments = node.scope.arguments;
  scope.prefix = node.scope.prefix;
  scope.depth = node.scope.depth + 1;
  if (scope.depth > kDeepestNesting)
    return node.error(ErrorId::onnx_invalid, "subgraphs are nested deeper than %d", kDeepestNesting);
  const std::size_t before = node.importer.reasons.size();
  node.importer.body(body, scope);
  if (node.importer.reasons.size() != before || !node.importer.stopped.ok()) return poisoned_status();
  for (int i = 0; i < node.proto.output_size(); ++i) {
    const std::int32_t id = scope.lookup(body.output(i).name());
    if (id < 0 && node.wants(i))
      return node.error(ErrorId::onnx_invalid, "its branch does not make '%s'", printable(body.output(i).name()));
    node.bind(i, id);
  }
  return {};
}

const qir::Tensor &output_of(const qir::Graph &graph, std::size_t i) { return at(graph, graph.outputs[i]); }

// Values that go round a loop may change their shape but not their type. Marks dimensions that change as unknown; true
// where something changed.
Result<bool> widen(const Rewriter &node, Vector<BodyInput> &inputs, std::size_t first_input, const qir::Graph &body,
                   std::size_t first_output, std::size_t count) {
  bool changed = false;
  for (std::size_t i = 0; i < count; ++i) {
    BodyInput &in = inputs[first_input + i];
    const qir::Tensor &out = output_of(body, first_output + i);
    if (in.dtype != out.dtype || in.shape.size() != out.shape.size())
      return node.error(
          ErrorId::onnx_type,
          "the value carried round as '%s' is %s %s before and %s %s after the body; type and rank must not change",
          printable(out.name), dtype_name(in.dtype), shape_text(in.shape.data(), in.shape.size()),
          dtype_name(out.dtype), shape_text(out.shape.data(), out.shape.size()));
    for (std::size_t d = 0; d < in.shape.size(); ++d)
      if (in.shape[d] != qir::kUnknownDim && in.shape[d] != out.shape[d])
        in.shape[d] = qir::kUnknownDim, changed = true;
  }
  return changed;
}

// Imports the body until the shapes of what goes round hold still: each time at least one becomes unknown.
Result<qir::Graph> import_cycle(Rewriter &node, const pb::GraphProto &body, Vector<BodyInput> inputs,
                                std::size_t first_input, std::size_t first_output, std::size_t count,
                                const Vector<Capture> &captures, const Vector<std::int32_t> &passed) {
  for (;;) {
    QR_ASSIGN_OR_RETURN(qir::Graph graph, import_body(node, body, inputs, captures, passed));
    if (graph.outputs.size() < first_output + count)
      return node.error(ErrorId::onnx_invalid, "its body has %zu outputs, expected at least %zu", graph.outputs.size(),
                        first_output + count);
    QR_ASSIGN_OR_RETURN(const bool changed, widen(node, inputs, first_input, graph, first_output, count));
    if (!changed) return graph;
  }
}

BodyInput type_of(const qir::Tensor &tensor) { return {tensor.dtype, tensor.shape}; }

}  // namespace

Status import_if(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  QR_ASSIGN_OR_RETURN(const pb::GraphProto *then_branch, graph_attribute(node, "then_branch"));
  QR_ASSIGN_OR_RETURN(const pb::GraphProto *else_branch, graph_attribute(node, "else_branch"));
  const qir::Tensor &condition = node.tensor(0);
  if (condition.is_constant && condition.dtype == DType::Bool && condition.data.size == 1)
    return inline_body(node, *static_cast<const std::uint8_t *>(condition.data.data) ? *then_branch : *else_branch);

  QR_ASSIGN_OR_RETURN(const Vector<Capture> captures, find_captures(node, {then_branch, else_branch}));
  const Vector<std::int32_t> passed = passed_values(node, captures);
  qir::Node made = node.make(Op::If, {node.in(0)}, "");
  made.inputs.insert(made.inputs.end(), passed.begin(), passed.end());
  for (const auto *branch : {then_branch, else_branch}) {
    const std::size_t before = node.importer.reasons.size();
    Result<qir::Graph> graph = import_body(node, *branch, {}, captures, passed);
    if (node.importer.reasons.size() > before)
      node.importer.reasons.add(
          ErrorId::onnx_unsupported, node.where(),
          format("its %s branch cannot be imported; if it is never taken, give the input that its condition depends on "
                 "its value by the option shape: NAME=[VALUE]",
                 branch == then_branch ? "then" : "else"));
    if (!graph.ok()) return graph.take_status();
    made.subgraphs.push_back(std::move(*graph));
  }
  return node.finish(std::move(made));
}

Status import_loop(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(const pb::GraphProto *body, graph_attribute(node, "body"));
  const std::size_t carried = node.input_count() > 2 ? node.input_count() - 2 : 0;
  QR_ASSIGN_OR_RETURN(const Vector<Capture> captures, find_captures(node, {body}));
  const Vector<std::int32_t> passed = passed_values(node, captures);
  Vector<BodyInput> inputs = {{DType::I64, {}}, {DType::Bool, {}}};
  for (std::size_t i = 0; i < carried; ++i) {
    if (!node.has(2 + i)) return node.error(ErrorId::onnx_invalid, "carried value %zu is missing", i);
    inputs.push_back(type_of(node.tensor(2 + i)));
  }
  qir::Node made = node.make(Op::Loop, {}, "");
  QR_ASSIGN_OR_RETURN(qir::Graph graph, import_cycle(node, *body, std::move(inputs), 2, 1, carried, captures, passed));
  made.subgraphs.push_back(std::move(graph));
  made.set("carried", static_cast<std::int64_t>(carried));
  made.inputs = node.inputs();
  made.inputs.resize(2 + carried, qir::kAbsent);
  made.inputs.insert(made.inputs.end(), passed.begin(), passed.end());
  return node.finish(std::move(made));
}

namespace {

// Scan of opset 8 runs once per batch: inputs are the lengths of the sequences, then states [batch, ...] and scanned
// values [batch, sequence, ...]. It becomes a Scan over the batch, without states, around a Scan over the sequence.
Status import_scan_of_batches(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(const pb::GraphProto *body, graph_attribute(node, "body"));
  if (node.has(0))
    return node.error(ErrorId::onnx_attribute,
                      "is Scan of opset 8 with lengths of sequences, supported are sequences of one length");
  const std::size_t values = node.input_count() ? node.input_count() - 1 : 0;
  const std::int64_t scanned = node.get_int("num_scan_inputs", 0);
  if (scanned < 1 || static_cast<std::uint64_t>(scanned) > values)
    return node.error(ErrorId::onnx_invalid, "num_scan_inputs is %lld, the node has %zu states and scanned inputs",
                      scanned, values);
  const std::size_t states = values - static_cast<std::size_t>(scanned);
  QR_ASSIGN_OR_RETURN(const Vector<Capture> captures, find_captures(node, {body}));
  const Vector<std::int32_t> passed = passed_values(node, captures);

  // The graph around the inner Scan: one entry of the batch.
  Builder entry(node.builder.store(), node.builder.folder());
  entry.graph.name = node.name + "/batch";
  Vector<BodyInput> inputs;
  qir::Node outer = node.make(Op::Scan, {}, ""), inner = node.make(Op::Scan, {}, "sequence");
  for (std::size_t i = 1; i <= values; ++i) {
    if (!node.has(i)) return node.error(ErrorId::onnx_invalid, "input %zu is missing", i);
    BodyInput type = type_of(node.tensor(i));
    const std::size_t leading = i <= states ? 1 : 2;  // batch; batch and sequence
    if (type.shape.size() < leading)
      return node.error(ErrorId::onnx_invalid, "input %zu has %zu dimensions, expected at least %zu", i,
                        type.shape.size(), leading);
    type.shape.erase(type.shape.begin());
    outer.inputs.push_back(node.in(i));
    inner.inputs.push_back(entry.add_input(node.tensor(i).name, type.dtype, type.shape));
    if (leading == 2) type.shape.erase(type.shape.begin());
    inputs.push_back(std::move(type));
  }
  for (const std::int32_t id : passed) {
    const qir::Tensor &from = node.builder.tensor(id);
    outer.inputs.push_back(id);
    inner.inputs.push_back(entry.add_input(from.name, from.dtype, from.shape));
  }
  QR_ASSIGN_OR_RETURN(qir::Graph graph, import_cycle(node, *body, std::move(inputs), 0, 0, states, captures, passed));
  Vector<String> names;
  for (const std::int32_t id : graph.outputs) names.push_back(at(graph, id).name);
  inner.subgraphs.push_back(std::move(graph));
  inner.set("states", static_cast<std::int64_t>(states));
  inner.set("num_scan_inputs", scanned);
  if (const auto directions = node.get_ints("directions")) inner.set("scan_input_directions", *directions);
  Vector<std::int32_t> results;
  QR_RETURN_IF_ERROR(entry.emit(std::move(inner), names, &results));
  for (std::size_t i = 0; i < results.size(); ++i) QR_RETURN_IF_ERROR(entry.add_output(results[i], names[i]));
  outer.subgraphs.push_back(std::move(entry.graph));
  outer.set("states", std::int64_t{0});
  outer.set("num_scan_inputs", static_cast<std::int64_t>(values));
  return node.finish(std::move(outer));
}

}  // namespace

Status import_scan(Rewriter &node) {
  if (node.opset < 9) return import_scan_of_batches(node);
  QR_ASSIGN_OR_RETURN(const pb::GraphProto *body, graph_attribute(node, "body"));
  const std::int64_t scanned = node.get_int("num_scan_inputs", 0);
  if (scanned < 1 || scanned > static_cast<std::int64_t>(node.input_count()))
    return node.error(ErrorId::onnx_invalid, "num_scan_inputs is %lld, the node has %zu inputs", scanned,
                      node.input_count());
  const std::size_t states = node.input_count() - static_cast<std::size_t>(scanned);
  const Vector<std::int64_t> axes = node.get_ints("scan_input_axes").value_or(Vector<std::int64_t>());
  QR_ASSIGN_OR_RETURN(const Vector<Capture> captures, find_captures(node, {body}));
  const Vector<std::int32_t> passed = passed_values(node, captures);
  Vector<BodyInput> inputs;
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    if (!node.has(i)) return node.error(ErrorId::onnx_invalid, "input %zu is missing", i);
    inputs.push_back(type_of(node.tensor(i)));
    if (i < states) continue;
    qir::Shape &shape = inputs.back().shape;
    const auto rank = static_cast<std::int64_t>(shape.size());
    const std::int64_t given = i - states < axes.size() ? axes[i - states] : 0, axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank)
      return node.error(ErrorId::onnx_invalid, "scan axis %lld of input %zu, which has %lld dimensions", given, i,
                        rank);
    shape.erase(shape.begin() + axis);
  }
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::Scan, node.inputs(), {"body"}));
  QR_ASSIGN_OR_RETURN(qir::Graph graph, import_cycle(node, *body, std::move(inputs), 0, 0, states, captures, passed));
  made.subgraphs.push_back(std::move(graph));
  made.set("states", static_cast<std::int64_t>(states));
  made.inputs.insert(made.inputs.end(), passed.begin(), passed.end());
  return node.finish(std::move(made));
}

}  // namespace quarry::onnx_import
