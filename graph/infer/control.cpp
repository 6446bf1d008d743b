// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan. Their rules read the types that infer_subgraphs gave to the bodies.
#include <algorithm>

#include "graph/infer/rules.h"
#include "graph/limits.h"

namespace quarry::qir {

using rules::is_known;

namespace {

const Tensor &output_of(const Graph &graph, std::size_t i) { return at(graph, graph.outputs[i]); }

// Makes `shape` cover `other` too: dimensions that differ become unknown. `changed` is set when it did.
Status join(const Node &node, const char *what, std::size_t i, Dims other, Shape *shape, bool *changed = nullptr) {
  if (shape->size() != other.size())
    return node_error(node, ErrorId::qir_rank,
                      "%s %zu has shape %s in one place and %s in the other, expected one rank", what, i, text(*shape),
                      text(other));
  for (std::size_t d = 0; d < other.size(); ++d) {
    if ((*shape)[d] == other[d] || (*shape)[d] == kUnknownDim) continue;
    (*shape)[d] = kUnknownDim;
    if (changed) *changed = true;
  }
  return {};
}

Status expect_dtype(const Node &node, const char *what, std::size_t i, DType found, DType expected) {
  if (found == expected) return {};
  return node_error(node, ErrorId::qir_type, "%s %zu is %s in one place and %s in the other", what, i,
                    dtype_name(found), dtype_name(expected));
}

Status expect_signature(const Node &node, const Graph &body, std::size_t inputs, std::size_t outputs) {
  const auto sound = [&body](std::int32_t i) { return i >= 0 && index_of(i) < body.tensors.size(); };
  if (body.inputs.size() != inputs || body.outputs.size() != outputs)
    return node_error(node, ErrorId::qir_bad, "the subgraph takes %zu and gives %zu tensors, expected %zu and %zu",
                      body.inputs.size(), body.outputs.size(), inputs, outputs);
  if (!std::all_of(body.inputs.begin(), body.inputs.end(), sound) ||
      !std::all_of(body.outputs.begin(), body.outputs.end(), sound))
    return node_error(node, ErrorId::qir_bad, "an input or output of the subgraph is none of its tensors");
  return {};
}

// The parts of a Loop's or Scan's inputs and outputs.
struct Parts {
  std::size_t first = 0;  // input where the carried values begin (Loop: behind M and condition)
  std::size_t carried = 0;
  std::size_t scanned = 0;    // scan inputs; they follow the carried values
  std::size_t results = 0;    // scan outputs
  std::size_t condition = 0;  // outputs of the body before the carried values
};

Status read_parts(const Node &node, Parts *parts) {
  const bool loop = node.op == Op::Loop;
  const std::int64_t carried = node.get_int(loop ? "carried" : "states", 0),
                     scanned = loop ? 0 : node.get_int("num_scan_inputs", 0);
  parts->first = loop ? 2 : 0;
  parts->condition = loop ? 1 : 0;
  const std::int64_t room = static_cast<std::int64_t>(node.inputs.size() - parts->first);
  if (carried < 0 || scanned < 0 || carried > room || scanned > room - carried ||
      carried > static_cast<std::int64_t>(node.outputs.size()))
    return node_error(node, ErrorId::qir_attribute,
                      "%lld carried and %lld scanned values do not fit %zu inputs and %zu outputs", ll(carried),
                      ll(scanned), node.inputs.size(), node.outputs.size());
  if (!loop && scanned < 1)
    return node_error(node, ErrorId::qir_attribute, "attribute 'num_scan_inputs' is 0, expected 1 or more");
  parts->carried = static_cast<std::size_t>(carried);
  parts->scanned = static_cast<std::size_t>(scanned);
  parts->results = node.outputs.size() - parts->carried;
  return expect_signature(node, node.subgraphs[0], node.inputs.size(), parts->condition + node.outputs.size());
}

// Entry `i` of an optional list attribute of Scan, 0 without it.
Status scan_entry(const Node &node, const char *name, std::size_t i, std::size_t count, std::int64_t *out) {
  const Vector<std::int64_t> *list = node.get_ints(name);
  *out = 0;
  if (!list || list->empty()) return {};
  if (list->size() != count)
    return node_error(node, ErrorId::qir_attribute, "attribute '%s' has %zu entries, expected %zu", name, list->size(),
                      count);
  *out = (*list)[i];
  return {};
}

// The axis of scan input `i`, and its direction checked.
Status scan_input_axis(const Node &node, const Parts &parts, std::size_t i, std::size_t rank, std::size_t *axis) {
  std::int64_t given, direction;
  QR_RETURN_IF_ERROR(scan_entry(node, "scan_input_axes", i, parts.scanned, &given));
  QR_RETURN_IF_ERROR(scan_entry(node, "scan_input_directions", i, parts.scanned, &direction));
  if (direction != 0 && direction != 1)
    return node_error(node, ErrorId::qir_attribute, "a direction of a scan is %lld, expected 0 or 1", ll(direction));
  return resolve_axis(node, given, rank, axis);
}

Status infer_repeated(Node &node, const Vector<InferValue> &inputs, std::uint64_t *left) {
  Parts parts;
  QR_RETURN_IF_ERROR(read_parts(node, &parts));
  Graph &body = node.subgraphs[0];
  Vector<InferValue> passed = inputs;
  if (node.op == Op::Loop) {
    passed[0] = InferValue{true, DType::I64, {}, nullptr, {}};
    passed[1] = InferValue{true, DType::Bool, inputs[1].present ? inputs[1].shape : Shape(), nullptr, {}};
  }
  for (std::size_t i = 0; i < parts.carried; ++i) passed[parts.first + i].value = {};
  for (std::size_t i = 0; i < parts.scanned; ++i) {
    InferValue &slice = passed[parts.carried + i];
    std::size_t axis = 0;
    QR_RETURN_IF_ERROR(scan_input_axis(node, parts, i, slice.shape.size(), &axis));
    slice.shape.erase(slice.shape.begin() + static_cast<std::ptrdiff_t>(axis));
    slice.value = {};
  }
  // Every round but the last makes at least one dimension unknown.
  for (bool changed = true; changed;) {
    changed = false;
    QR_RETURN_IF_ERROR(infer_body(body, passed, left));
    for (std::size_t i = 0; i < parts.carried; ++i) {
      const Tensor &next = output_of(body, parts.condition + i);
      InferValue &carried = passed[parts.first + i];
      QR_RETURN_IF_ERROR(expect_dtype(node, "carried value", i, next.dtype, carried.dtype));
      QR_RETURN_IF_ERROR(
          join(node, "carried value", i, {next.shape.data(), next.shape.size()}, &carried.shape, &changed));
    }
  }
  return {};
}

// Whether output 0 of a Loop's body is its condition input or the constant true: then nothing but M ends the loop.
bool never_stops(const Graph &body) {
  std::int32_t tensor = body.outputs[0];
  for (std::size_t i = body.nodes.size(); i-- > 0;) {
    const Node &n = body.nodes[i];
    if (n.op == Op::Identity && n.outputs.size() == 1 && n.outputs[0] == tensor) tensor = n.inputs[0];
  }
  if (tensor == body.inputs[1]) return true;
  const Tensor &value = at(body, tensor);
  return value.is_constant && value.data.data && value.data.size >= 1 &&
         *static_cast<const char *>(value.data.data) != 0;
}

}  // namespace

Status infer_subgraphs(Node &node, const Vector<InferValue> &inputs) {
  std::uint64_t left = kMaxInferredNodes;
  return infer_subgraphs(node, inputs, &left);
}

Status infer_subgraphs(Node &node, const Vector<InferValue> &inputs, std::uint64_t *left) {
  if (node.op != Op::If)
    return node.subgraphs.size() == 1 && inputs.size() >= (node.op == Op::Loop ? 2 : 1)
               ? infer_repeated(node, inputs, left)
               : Status();
  if (node.subgraphs.size() != 2 || inputs.empty()) return {};  // infer_node says what is wrong
  const Vector<InferValue> captures(inputs.begin() + 1, inputs.end());
  const char *condition = static_cast<const char *>(inputs[0].value.data);
  for (std::size_t i = 0; i < 2; ++i) {
    QR_RETURN_IF_ERROR(expect_signature(node, node.subgraphs[i], captures.size(), node.outputs.size()));
    Status status = infer_body(node.subgraphs[i], captures, left);
    // A branch that is never taken may make no sense for these shapes: exporters guard Squeeze with such an If.
    const bool dead = condition && inputs[0].value.size > 0 && (*condition != 0) == (i == 1);
    if (!status.ok() && !dead) return status;
  }
  return {};
}

namespace rules {

Status if_(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(expect_one_element(node, "the condition", inputs[0]));
  for (const Graph &branch : node.subgraphs)
    QR_RETURN_IF_ERROR(expect_signature(node, branch, inputs.size() - 1, outputs.size()));
  const bool known = value_known(inputs, 0);
  const std::size_t first = known && *static_cast<const char *>(inputs[0].value.data) == 0 ? 1 : 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor &taken = output_of(node.subgraphs[first], i);
    outputs[i].dtype = taken.quant ? DType::F32 : taken.dtype;
    outputs[i].shape = taken.shape;
    if (known) continue;
    const Tensor &other = output_of(node.subgraphs[1], i);
    QR_RETURN_IF_ERROR(expect_dtype(node, "branch output", i, other.dtype, taken.dtype));
    QR_RETURN_IF_ERROR(join(node, "branch output", i, {other.shape.data(), other.shape.size()}, &outputs[i].shape));
  }
  return {};
}

namespace {
Status carried_outputs(const Node &node, Inputs inputs, Outputs outputs, const Parts &parts) {
  for (std::size_t i = 0; i < parts.carried; ++i) {
    const Tensor &last = output_of(node.subgraphs[0], parts.condition + i);
    const InferValue &initial = inputs[parts.first + i];
    QR_RETURN_IF_ERROR(expect_dtype(node, "carried value", i, last.dtype, initial.dtype));
    outputs[i].dtype = real_dtype(initial);
    outputs[i].shape = initial.shape;
    QR_RETURN_IF_ERROR(join(node, "carried value", i, {last.shape.data(), last.shape.size()}, &outputs[i].shape));
  }
  return {};
}
}  // namespace

Status loop(const Node &node, Inputs inputs, Outputs outputs) {
  Parts parts;
  QR_RETURN_IF_ERROR(read_parts(node, &parts));
  QR_RETURN_IF_ERROR(carried_outputs(node, inputs, outputs, parts));
  const Graph &body = node.subgraphs[0];
  std::int64_t trips = kUnknownDim;
  QR_RETURN_IF_ERROR(scalar_int(node, inputs, 0, "M", &trips));
  if (has_input(inputs, 1)) QR_RETURN_IF_ERROR(expect_one_element(node, "the condition", inputs[1]));
  if (value_known(inputs, 0)) trips = std::max<std::int64_t>(trips, 0);
  if (value_known(inputs, 1) && *static_cast<const char *>(inputs[1].value.data) == 0) trips = 0;
  else if ((has_input(inputs, 1) && !value_known(inputs, 1)) || !never_stops(body))
    trips = trips == 0 ? 0 : kUnknownDim;
  for (std::size_t i = 0; i < parts.results; ++i) {
    const Tensor &one = output_of(body, 1 + parts.carried + i);
    InferType &all = outputs[parts.carried + i];
    all.dtype = one.quant ? DType::F32 : one.dtype;
    all.shape.push_back(trips);
    all.shape.insert(all.shape.end(), one.shape.begin(), one.shape.end());
  }
  return {};
}

Status scan(const Node &node, Inputs inputs, Outputs outputs) {
  Parts parts;
  QR_RETURN_IF_ERROR(read_parts(node, &parts));
  QR_RETURN_IF_ERROR(carried_outputs(node, inputs, outputs, parts));
  std::int64_t length = kUnknownDim;
  for (std::size_t i = 0; i < parts.scanned; ++i) {
    const Shape &shape = inputs[parts.carried + i].shape;
    std::size_t axis = 0;
    QR_RETURN_IF_ERROR(scan_input_axis(node, parts, i, shape.size(), &axis));
    if (!may_equal(length, shape[axis]))
      return node_error(node, ErrorId::qir_shape, "scan input %zu has %lld slices, expected %lld as the others", i,
                        ll(shape[axis]), ll(length));
    length = known_of(length, shape[axis]);
  }
  for (std::size_t i = 0; i < parts.results; ++i) {
    const Tensor &one = output_of(node.subgraphs[0], parts.carried + i);
    std::int64_t given, direction;
    std::size_t axis = 0;
    QR_RETURN_IF_ERROR(scan_entry(node, "scan_output_axes", i, parts.results, &given));
    QR_RETURN_IF_ERROR(scan_entry(node, "scan_output_directions", i, parts.results, &direction));
    if (direction != 0 && direction != 1)
      return node_error(node, ErrorId::qir_attribute, "a direction of a scan is %lld, expected 0 or 1", ll(direction));
    QR_RETURN_IF_ERROR(resolve_axis(node, given, one.shape.size() + 1, &axis));
    InferType &all = outputs[parts.carried + i];
    all.dtype = one.quant ? DType::F32 : one.dtype;
    all.shape = one.shape;
    all.shape.insert(all.shape.begin() + static_cast<std::ptrdiff_t>(axis), length);
  }
  return {};
}

}  // namespace rules
}  // namespace quarry::qir
