// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan. ONNX bodies use names of their surroundings; QIR's are closed, so what a body takes is found first
// and passed in. Constants are not passed: the body gets its own reference to the same bytes.
#include <algorithm>

#include "formats/onnx/rewriter.h"
#include "graph/limits.h"

namespace quarry::onnx_import {
namespace {

using qir::Op;

constexpr int kDeepestNesting = qir::kMaxSubgraphDepth;

struct Capture {
  String name;      // in the body
  std::int32_t id;  // outside: a tensor, a sequence, or kAbsent
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
  const auto add = [&](std::int32_t id) {
    if (id >= 0 && !node.builder.is_constant(id) && seen.insert(id).second) ids.push_back(id);
  };
  for (const Capture &capture : captures) {
    if (const Sequence *sequence = node.importer.sequence(capture.id)) std::ranges::for_each(sequence->elements, add);
    else add(capture.id);
  }
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
  const auto inside = [&](std::int32_t id) {
    if (id < 0 || !node.builder.is_constant(id)) return id < 0 ? id : inner[id];
    const qir::Tensor &from = node.builder.tensor(id);
    return builder.add_constant(from.name, {from.dtype, from.shape, from.data});
  };
  for (const Capture &capture : captures) {
    std::int32_t id = capture.id;
    if (const Sequence *sequence = node.importer.sequence(id)) {
      Sequence mine = *sequence;
      std::ranges::transform(mine.elements, mine.elements.begin(), inside);
      id = node.importer.add_sequence(std::move(mine));
    } else {
      id = inside(id);
    }
    scope.names.emplace(capture.name, id);  // a name of the body itself hides the one outside
  }
  const std::size_t before = node.importer.reasons.size();
  node.importer.body(body, scope);
  if (node.importer.reasons.size() != before || !node.importer.stopped.ok()) return poisoned_status();
  for (const auto &output : body.output()) {
    const std::int32_t id = scope.lookup(output.name());
    if (node.importer.sequence(id))
      return node.error(ErrorId::onnx_unsupported,
                        "its body gives the sequence '%s', and which body runs, or how often, is known only at run "
                        "time",
                        printable(output.name()));
    if (id < 0) return node.error(ErrorId::onnx_invalid, "its body does not make '%s'", printable(output.name()));
    QR_RETURN_IF_ERROR(builder.add_output(id, output.name()));
  }
  return std::move(builder.graph);
}

// A body that is known to run becomes part of the graph around it, its inputs bound to these values: what its outputs
// are.
Result<Vector<std::int32_t>> import_in_place(Rewriter &node, const pb::GraphProto &body,
                                             const Vector<std::int32_t> &inputs) {
  if (static_cast<std::size_t>(body.input_size()) != inputs.size())
    return node.error(ErrorId::onnx_invalid, "its body has %d inputs, expected %zu", body.input_size(), inputs.size());
  Scope scope;
  scope.parent = &node.scope;
  scope.builder = &node.builder;
  scope.opsets = node.scope.opsets;
  scope.arguments = node.scope.arguments;
  scope.prefix = node.scope.prefix;
  scope.depth = node.scope.depth + 1;
  if (scope.depth > kDeepestNesting)
    return node.error(ErrorId::onnx_invalid, "subgraphs are nested deeper than %d", kDeepestNesting);
  for (std::size_t i = 0; i < inputs.size(); ++i) scope.names.set(body.input(static_cast<int>(i)).name(), inputs[i]);
  const std::size_t before = node.importer.reasons.size();
  node.importer.body(body, scope);
  if (node.importer.reasons.size() != before || !node.importer.stopped.ok()) return poisoned_status();
  Vector<std::int32_t> results;
  for (const auto &output : body.output()) results.push_back(scope.lookup(output.name()));
  return results;
}

Status no_result(const Rewriter &node, const pb::GraphProto &body, int i) {
  return node.error(ErrorId::onnx_invalid, "its body does not make '%s'", printable(body.output(i).name()));
}

// The one branch that runs.
Status inline_branch(Rewriter &node, const pb::GraphProto &branch) {
  if (branch.output_size() < node.proto.output_size())
    return node.error(ErrorId::onnx_invalid, "its branch has %d outputs, the node %d", branch.output_size(),
                      node.proto.output_size());
  QR_ASSIGN_OR_RETURN(const Vector<std::int32_t> results, import_in_place(node, branch, {}));
  for (int i = 0; i < node.proto.output_size(); ++i) {
    const std::int32_t id = results[index_of(i)];
    if (id == Scope::kPoisoned && node.wants(i)) return poisoned_status();
    if (id < 0 && !node.importer.sequence(id) && node.wants(i)) return no_result(node, branch, i);
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

namespace {

// A branch that the bound shapes do not fit fails when it is taken, as in any runtime: who never takes it needs no
// other shapes. `other` says what would have come of it, and its last input is the condition. A scalar is made of no
// element, which only a run can find out.
Status fail_when_taken(Rewriter &node, bool is_then, const String &why, const qir::Graph &other, qir::Graph *made) {
  Builder builder(node.builder.store(), node.builder.folder());
  for (const std::int32_t id : other.inputs) {
    const qir::Tensor &like = at(other, id);
    builder.add_input(like.name, like.dtype, like.shape);
  }
  const String name = format("the %s branch of %s, which these shapes do not fit (%.400s)", is_then ? "then" : "else",
                             node.where(), why);
  const auto step = [&](Op op, Vector<std::int32_t> inputs, std::int64_t to = 0) -> Result<std::int32_t> {
    qir::Node next;
    next.op = op, next.name = name, next.inputs = std::move(inputs);
    if (op == Op::Cast) next.set("to", to);
    Vector<std::int32_t> outputs;
    QR_RETURN_IF_ERROR(builder.emit(std::move(next), {name}, &outputs));
    return outputs[0];
  };
  const std::int64_t one[] = {1};
  std::int32_t taken = builder.graph.inputs.back();
  if (!is_then) {
    QR_ASSIGN_OR_RETURN(taken, step(Op::Not, {taken}));
  }
  QR_ASSIGN_OR_RETURN(taken, step(Op::Cast, {taken}, static_cast<std::int64_t>(DType::I64)));
  QR_ASSIGN_OR_RETURN(const std::int32_t start, step(Op::Reshape, {taken, builder.add_ints("shape", one)}));
  QR_ASSIGN_OR_RETURN(const std::int32_t nothing,
                      step(Op::Slice, {builder.add_ints("data", one), start, builder.add_ints("end", one)}));
  QR_ASSIGN_OR_RETURN(const std::int32_t scalar, step(Op::Reshape, {nothing, builder.add_ints("scalar", {})}));
  for (const std::int32_t id : other.outputs) {
    const qir::Tensor &like = at(other, id);
    qir::Shape extents = like.shape;
    std::ranges::replace(extents, qir::kUnknownDim, std::int64_t{1});
    QR_ASSIGN_OR_RETURN(const std::int32_t typed, step(Op::Cast, {scalar}, static_cast<std::int64_t>(like.dtype)));
    QR_ASSIGN_OR_RETURN(const std::int32_t result, step(Op::Expand, {typed, builder.add_ints("extents", extents)}));
    QR_RETURN_IF_ERROR(builder.add_output(result, like.name));
  }
  *made = std::move(builder.graph);
  return {};
}

struct Branches {
  qir::Graph graphs[2];
  String misfit[2];  // why a branch does not fit the bound shapes; empty: it does
};

Status import_branches(Rewriter &node, const pb::GraphProto *const (&branches)[2], const Vector<Capture> &captures,
                       const Vector<std::int32_t> &passed, Branches *made) {
  for (int i = 0; i < 2; ++i) {
    const std::size_t before = node.importer.reasons.size();
    Result<qir::Graph> graph = import_body(node, *branches[i], {}, captures, passed);
    if (graph.ok()) {
      made->graphs[i] = std::move(*graph);
      continue;
    }
    const bool last_chance = i == 1 && !made->misfit[0].empty();
    if (!last_chance && graph.status().message().empty() && node.importer.stopped.ok() &&
        node.importer.reasons.only(before, {ErrorId::qir_shape, ErrorId::qir_rank})) {
      made->misfit[i] = node.importer.reasons.take_back(before);
      continue;
    }
    if (node.importer.reasons.size() > before)
      node.importer.reasons.add(
          ErrorId::onnx_unsupported, node.where(),
          format("its %s branch cannot be imported; if it is never taken, give the input that its condition depends on "
                 "its value by the option shape: NAME=[VALUE]",
                 i == 0 ? "then" : "else"));
    if (last_chance)
      node.importer.reasons.add(ErrorId::qir_shape, node.where(),
                                format("its then branch does not fit the shapes either: %s", made->misfit[0]));
    return graph.take_status();
  }
  return {};
}

}  // namespace

Status import_if(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  QR_ASSIGN_OR_RETURN(const pb::GraphProto *then_branch, graph_attribute(node, "then_branch"));
  QR_ASSIGN_OR_RETURN(const pb::GraphProto *else_branch, graph_attribute(node, "else_branch"));
  const qir::Tensor &condition = node.tensor(0);
  if (condition.is_constant && condition.dtype == DType::Bool && condition.data.size == 1)
    return inline_branch(node, *static_cast<const std::uint8_t *>(condition.data.data) ? *then_branch : *else_branch);

  QR_ASSIGN_OR_RETURN(const Vector<Capture> captures, find_captures(node, {then_branch, else_branch}));
  const Vector<std::int32_t> passed = passed_values(node, captures);
  Branches branches;
  QR_RETURN_IF_ERROR(import_branches(node, {then_branch, else_branch}, captures, passed, &branches));
  qir::Node made = node.make(Op::If, {node.in(0)}, "");
  made.inputs.insert(made.inputs.end(), passed.begin(), passed.end());
  for (int i = 0; i < 2; ++i) {
    if (branches.misfit[i].empty()) continue;
    // The condition is passed too, behind the rest.
    made.inputs.push_back(node.in(0));
    qir::Graph &other = branches.graphs[1 - i];
    qir::Tensor &last = other.tensors.emplace_back();
    last.name = node.name + "/condition";
    last.dtype = node.tensor(0).dtype, last.shape = node.tensor(0).shape;
    other.inputs.push_back(static_cast<std::int32_t>(other.tensors.size() - 1));
    QR_RETURN_IF_ERROR(fail_when_taken(node, i == 0, branches.misfit[i], other, &branches.graphs[i]));
  }
  for (qir::Graph &graph : branches.graphs) made.subgraphs.push_back(std::move(graph));
  return node.finish(std::move(made));
}

namespace {

// Whether a condition holds; nothing: that is known only at run time. `absent`: of one that is not there.
std::optional<bool> truth_of(const Rewriter &node, std::int32_t id, bool absent) {
  if (id == qir::kAbsent) return absent;
  if (id < 0 || !node.builder.is_constant(id)) return std::nullopt;
  const qir::Tensor &tensor = node.builder.tensor(id);
  if (tensor.dtype != DType::Bool || tensor.data.size != 1) return std::nullopt;
  return *static_cast<const std::uint8_t *>(tensor.data.data) != 0;
}

// Behind one another, along an axis of their own.
Result<std::int32_t> stacked(Rewriter &node, Vector<std::int32_t> slices, std::size_t i) {
  const std::int32_t axes = node.ints(format("scanned%zu/axis", i), {{0}});
  for (std::size_t k = 0; k < slices.size(); ++k) {
    QR_ASSIGN_OR_RETURN(slices[k], node.step(qir::Op::Unsqueeze, {slices[k], axes}, format("scanned%zu/%zu", i, k)));
  }
  qir::Node all = node.make(Op::Concat, std::move(slices), format("scanned%zu", i));
  all.set("axis", std::int64_t{0});
  return node.step(std::move(all));
}

// A Loop that carries a sequence is its body, for each time: how many tensors that holds is known then.
Status unroll_loop(Rewriter &node, const pb::GraphProto &body) {
  const auto known_times = [&] {
    return node.error(ErrorId::onnx_unsupported,
                      "carries a sequence, and how often it runs is known only at run time, expected a number that "
                      "follows from constants and shapes");
  };
  std::int64_t times = INT64_MAX;
  if (node.has(0)) {
    const auto given = node.builder.ints(node.in(0));
    if (!given || given->size() != 1) return known_times();
    times = (*given)[0];
  }
  const std::size_t carried = node.input_count() - 2, outputs = static_cast<std::size_t>(node.proto.output_size()),
                    made = static_cast<std::size_t>(body.output_size());
  if (made < 1 + carried || made < 1 + outputs)
    return node.error(ErrorId::onnx_invalid, "its body has %zu outputs, expected at least %zu", made,
                      1 + std::max(carried, outputs));
  Vector<std::int32_t> values(node.inputs().begin() + 2, node.inputs().end());
  Vector<Vector<std::int32_t>> scanned(made - 1 - carried);
  std::int32_t goes_on = node.has(1) ? node.in(1) : node.number("goes_on", DType::Bool, 1);
  for (std::int64_t i = 0; i < times; ++i) {
    const std::optional<bool> runs = truth_of(node, goes_on, true);
    if (!runs) return known_times();
    if (!*runs) break;
    node.importer.spend(1);
    if (!node.importer.stopped.ok()) return poisoned_status();
    Vector<std::int32_t> given = {node.builder.add_int(format("%s/%lld", node.name, i), i), goes_on};
    given.insert(given.end(), values.begin(), values.end());
    QR_ASSIGN_OR_RETURN(const Vector<std::int32_t> results, import_in_place(node, body, given));
    for (std::size_t k = 0; k < made; ++k)
      if (results[k] < 0 && !(k > 0 && k <= carried && node.importer.sequence(results[k])))
        return no_result(node, body, static_cast<int>(k));
    goes_on = results[0];
    values.assign(results.begin() + 1, results.begin() + 1 + static_cast<std::ptrdiff_t>(carried));
    for (std::size_t k = 0; k < scanned.size(); ++k) scanned[k].push_back(results[1 + carried + k]);
  }
  for (std::size_t i = 0; i < outputs; ++i) {
    if (!node.wants(static_cast<int>(i))) continue;
    std::int32_t id = i < carried ? values[i] : qir::kAbsent;
    if (i >= carried) {
      if (scanned[i - carried].empty())
        return node.error(ErrorId::onnx_unsupported, "carries a sequence and runs not once, expected slices of '%s'",
                          printable(node.proto.output(static_cast<int>(i))));
      QR_ASSIGN_OR_RETURN(id, stacked(node, std::move(scanned[i - carried]), i));
    }
    node.bind(static_cast<int>(i), id);
  }
  return {};
}

}  // namespace

// Its body for each tensor of a sequence; other inputs are sequences of as many, or tensors for all.
Status import_sequence_map(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(const pb::GraphProto *body, graph_attribute(node, "body"));
  const Sequence *first = node.importer.sequence(node.in(0));
  if (!first) return node.error(ErrorId::onnx_type, "input 0 is a tensor, expected a sequence");
  const std::size_t count = first->elements.size();
  Vector<Sequence> made(static_cast<std::size_t>(body->output_size()));
  for (std::size_t k = 0; k < count; ++k) {
    Vector<std::int32_t> given;
    for (const std::int32_t id : node.inputs()) {
      const Sequence *const sequence = node.importer.sequence(id);
      if (sequence && sequence->elements.size() != count)
        return node.error(ErrorId::onnx_invalid, "found sequences of %zu and %zu tensors, expected as many", count,
                          sequence->elements.size());
      given.push_back(sequence ? sequence->elements[k] : id);
    }
    node.importer.spend(1);
    if (!node.importer.stopped.ok()) return poisoned_status();
    QR_ASSIGN_OR_RETURN(const Vector<std::int32_t> results, import_in_place(node, *body, given));
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (results[i] < 0) return no_result(node, *body, static_cast<int>(i));
      made[i].dtype = node.builder.tensor(results[i]).dtype;
      made[i].elements.push_back(results[i]);
    }
  }
  for (std::size_t i = 0; i < made.size(); ++i)
    node.bind(static_cast<int>(i), node.importer.add_sequence(std::move(made[i])));
  return {};
}

Status import_loop(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(const pb::GraphProto *body, graph_attribute(node, "body"));
  const std::size_t carried = node.input_count() > 2 ? node.input_count() - 2 : 0;
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    if (!node.importer.sequence(node.in(i))) continue;
    if (i < 2) return node.error(ErrorId::onnx_type, "input %zu is a sequence, expected a tensor", i);
    return unroll_loop(node, *body);
  }
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
