// SPDX-License-Identifier: Apache-2.0
// The rules of a graph. Whoever made it - the importer, a pass, a file, another process - it runs only after this said
// yes, so a kernel may rely on all of it: every index is in range, every tensor is there before it is used, and has the
// type and the shape that its operator gives for its inputs.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <span>

#include "base/checked.h"
#include "base/hash_index.h"
#include "base/stop.h"
#include "graph/graph.h"
#include "graph/infer/infer.h"
#include "graph/limits.h"
#include "graph/ops/quantization.h"

namespace quarry::qir {
namespace {

String dims_text(const Shape &shape) { return shape_text(shape.data(), shape.size()); }

// What a failure is about: written where there is one. (By a function of each kind: libquarry checks tensors alone, and
// does without the names of operators.)
class Subject {
 public:
  explicit Subject(const Tensor &tensor) noexcept
      : write_(
            [](const void *what) { return format("tensor '%s'", printable(static_cast<const Tensor *>(what)->name)); }),
        what_(&tensor) {}
  explicit Subject(const Node &node) noexcept
      : write_([](const void *what) {
          const Node &named = *static_cast<const Node *>(what);
          return format("%s '%s'", qir::op_text(named), printable(named.name));
        }),
        what_(&node) {}
  Subject(const Graph &graph, std::uint32_t depth) noexcept
      : write_(depth ? text_of_graph<true> : text_of_graph<false>), what_(&graph) {}
  const char *c_str() const {
    if (text_.empty()) text_ = write_(what_);
    return text_.c_str();
  }

 private:
  template <bool kInside>
  static String text_of_graph(const void *what) {
    return format("%s '%s'", kInside ? "subgraph" : "graph", printable(static_cast<const Graph *>(what)->name));
  }
  String (*write_)(const void *what);
  const void *what_;
  mutable String text_;
};

Status limit_error(const Subject &subject, const char *what, std::uint64_t found, std::uint64_t limit) {
  return Status::errorf(ErrorId::qir_limit, "%s: found %" PRIu64 " %s, expected at most %" PRIu64, subject, found, what,
                        limit);
}

String quant_text(const std::optional<Quantization> &quant) {
  if (!quant) return "none";
  if (!quant->per_tensor()) return format("%zu scales along axis %d", quant->scales.size(), quant->axis);
  return format("scale %g zero point %d", static_cast<double>(quant->scales[0]), quant->zero_points[0]);
}

// Dimensions that are known on both sides must agree; what is not known before the run is checked by whoever runs it.
bool shapes_agree(const Shape &a, const Shape &b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && a[i] != kUnknownDim && b[i] != kUnknownDim) return false;
  return true;
}

Status validate_quantization(const Tensor &t, const Quantization &quant, const Subject &subject) {
  if (!may_have_quantization(t.dtype))
    return Status::errorf(ErrorId::qir_type, "%s: found a quantised %s, expected an integer of at most 32 bits",
                          subject, dtype_name(t.dtype));
  if (quant.scales.size() > kMaxQuantEntries)
    return limit_error(subject, "scales", quant.scales.size(), kMaxQuantEntries);
  if (quant.zero_points.size() != quant.scales.size())
    return Status::errorf(ErrorId::qir_bad, "%s: found %zu zero points for %zu scales", subject,
                          quant.zero_points.size(), quant.scales.size());

  std::uint64_t expected = 1;
  if (quant.block_size < 0)
    return Status::errorf(ErrorId::qir_bad, "%s: found block size %" PRId64 ", expected at least 0", subject,
                          quant.block_size);
  if (!quant.per_tensor()) {
    const auto axis = index_of(quant.axis);
    if (quant.axis < 0 || axis >= t.shape.size())
      return Status::errorf(ErrorId::qir_bad, "%s: found quantisation axis %d, expected one under its rank %zu",
                            subject, quant.axis, t.shape.size());
    if (quant.block_size == 0) {
      expected = static_cast<std::uint64_t>(t.shape[axis]);
    } else {
      Shape blocks = t.shape;
      if (blocks[axis] > 0) blocks[axis] = (blocks[axis] - 1) / quant.block_size + 1;
      expected = static_cast<std::uint64_t>(element_count(blocks.data(), blocks.size()).value_or(-1));
    }
  }
  if (quant.scales.size() != expected)
    return Status::errorf(ErrorId::qir_bad, "%s: found %zu scales for %s along axis %d in blocks of %" PRId64, subject,
                          quant.scales.size(), dims_text(t.shape), quant.axis, quant.block_size);

  const IntegerRange range = integer_range(t.dtype);
  for (std::size_t i = 0; i < quant.scales.size(); ++i) {
    if (!(quant.scales[i] > 0) || std::isinf(quant.scales[i]))
      return Status::errorf(ErrorId::qir_bad, "%s: found scale %g, expected a finite one above 0", subject,
                            static_cast<double>(quant.scales[i]));
    if (quant.zero_points[i] < range.low || quant.zero_points[i] > range.high)
      return Status::errorf(ErrorId::qir_bad, "%s: found zero point %d, expected one of %s", subject,
                            quant.zero_points[i], dtype_name(t.dtype));
  }
  return {};
}

Status bad_dimension(const Dimension &dimension, const char *what) {
  return Status::errorf(ErrorId::qir_bad, "dimension '%s': found %s", printable(dimension.name), what);
}

Status validate_dimensions(const Graph &graph, const Subject &subject, std::uint32_t depth) {
  if (graph.dimensions.size() > (depth ? 0 : kMaxDimensions))
    return limit_error(subject, "symbolic dimensions", graph.dimensions.size(), depth ? 0 : kMaxDimensions);
  for (std::size_t d = 0; d < graph.dimensions.size(); ++d) {
    const Dimension &dimension = graph.dimensions[d];
    QR_RETURN_IF_ERROR(stop_status("validation"));
    if (dimension.name.size() > kMaxNameBytes)
      return limit_error(subject, "bytes of name", dimension.name.size(), kMaxNameBytes);
    if (dimension.low < 0 || dimension.low > dimension.high || dimension.high > kMaxExtent)
      return bad_dimension(dimension, "a range that is none, expected 0 <= low <= high <= 2^40");
    for (const Dimension::Place &place : dimension.places) {
      if (place.input >= graph.inputs.size() || place.axis >= at(graph, graph.inputs[place.input]).shape.size() ||
          at(graph, graph.inputs[place.input]).shape[place.axis] != kUnknownDim)
        return bad_dimension(dimension, "a place that is none, expected an unknown dimension of an input");
    }
    if (dimension.terms.size() > kMaxDimensions)
      return limit_error(subject, "terms of a dimension", dimension.terms.size(), kMaxDimensions);
    for (const Dimension::Term &term : dimension.terms)
      if (term.dimension >= d) return bad_dimension(dimension, "a term of a dimension that does not stand before it");
  }
  return {};
}

class Validator {
 public:
  Status graph(const Graph &graph, std::uint32_t depth) {
    const Subject subject(graph, depth);
    if (depth > kMaxSubgraphDepth) return limit_error(subject, "levels of subgraphs", depth, kMaxSubgraphDepth);
    if (depth && ++subgraphs_ > kMaxSubgraphs)
      return limit_error(subject, "subgraphs in all", subgraphs_, kMaxSubgraphs);
    if (graph.name.size() > kMaxNameBytes)
      return limit_error(subject, "bytes of name", graph.name.size(), kMaxNameBytes);
    if (graph.tensors.size() > kMaxTensors) return limit_error(subject, "tensors", graph.tensors.size(), kMaxTensors);
    if (graph.nodes.size() > kMaxNodes) return limit_error(subject, "nodes", graph.nodes.size(), kMaxNodes);
    if (graph.inputs.size() > kMaxNodeArity) return limit_error(subject, "inputs", graph.inputs.size(), kMaxNodeArity);
    if (graph.outputs.size() > kMaxNodeArity)
      return limit_error(subject, "outputs", graph.outputs.size(), kMaxNodeArity);

    HashIndex names;
    names.reserve(graph.tensors.size());
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
      const Tensor &t = graph.tensors[i];
      QR_RETURN_IF_ERROR(stop_status("validation"));
      if (t.name.empty()) return Status::errorf(ErrorId::qir_bad, "%s: found a tensor without a name", subject);
      QR_RETURN_IF_ERROR(validate_tensor(t));
      const std::size_t hash = StringHash{}(t.name);
      if (names.find(hash, [&](std::uint32_t k) { return graph.tensors[k].name == t.name; }) != HashIndex::kNone)
        return Status::errorf(ErrorId::qir_bad, "%s: found two tensors named '%s', expected unique names", subject,
                              printable(t.name));
      names.put(hash, i);
    }

    Vector<bool> defined(graph.tensors.size());
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) defined[i] = graph.tensors[i].is_constant;
    for (const std::int32_t input : graph.inputs) {
      QR_RETURN_IF_ERROR(index(graph, subject, "an input", input));
      if (defined[index_of(input)])
        return Status::errorf(ErrorId::qir_bad, "%s: tensor '%s' is an input twice, or an input and a constant",
                              subject, printable(at(graph, input).name));
      defined[index_of(input)] = true;
    }
    QR_RETURN_IF_ERROR(validate_dimensions(graph, subject, depth));
    for (const Node &n : graph.nodes) {
      QR_RETURN_IF_ERROR(stop_status("validation"));
      QR_RETURN_IF_ERROR(node(graph, n, defined, depth));
    }
    for (const std::int32_t output : graph.outputs) {
      QR_RETURN_IF_ERROR(index(graph, subject, "an output", output));
      if (!defined[index_of(output)])
        return Status::errorf(ErrorId::qir_bad, "%s: output '%s' is made by no node", subject,
                              printable(at(graph, output).name));
    }
    return {};
  }

 private:
  static Status index(const Graph &graph, const Subject &subject, const char *role, std::int32_t index) {
    if (index >= 0 && index_of(index) < graph.tensors.size()) return {};
    return Status::errorf(ErrorId::qir_bad, "%s: found tensor index %d for %s, expected one under %zu", subject, index,
                          role, graph.tensors.size());
  }

  Status node(const Graph &graph, const Node &n, Vector<bool> &defined, std::uint32_t depth) {
    if (index_of(n.op) >= op_count())
      return Status::errorf(ErrorId::qir_bad, "node '%s': found operator number %u, expected one under %zu",
                            printable(n.name), static_cast<unsigned>(n.op), op_count());
    if (n.name.empty())
      return Status::errorf(ErrorId::qir_bad, "graph '%s': found a %s node without a name", printable(graph.name),
                            op_name(n.op));
    const Subject subject(n);
    QR_RETURN_IF_ERROR(custom(n, subject));
    if (n.name.size() > kMaxNameBytes) return limit_error(subject, "bytes of name", n.name.size(), kMaxNameBytes);
    if (n.inputs.size() > kMaxNodeArity) return limit_error(subject, "inputs", n.inputs.size(), kMaxNodeArity);
    if (n.outputs.size() > kMaxNodeArity) return limit_error(subject, "outputs", n.outputs.size(), kMaxNodeArity);
    QR_RETURN_IF_ERROR(attributes(n, subject));

    for (const std::int32_t input : n.inputs) {
      if (input == kAbsent) continue;
      QR_RETURN_IF_ERROR(index(graph, subject, "an input", input));
      if (!defined[index_of(input)])
        return Status::errorf(ErrorId::qir_bad, "%s: uses tensor '%s' before it is made", subject,
                              printable(at(graph, input).name));
    }
    for (const std::int32_t output : n.outputs) {
      if (output == kAbsent) continue;
      QR_RETURN_IF_ERROR(index(graph, subject, "an output", output));
      if (defined[index_of(output)])
        return Status::errorf(ErrorId::qir_bad, "%s: makes tensor '%s', which is an input, a constant or made already",
                              subject, printable(at(graph, output).name));
      defined[index_of(output)] = true;
    }
    // The bodies first: the rules of If, Loop and Scan look at them.
    QR_RETURN_IF_ERROR(bodies(graph, n, subject, depth));
    return types(graph, n, subject);
  }

  // What names a custom operator is there for those and only for those.
  static Status custom(const Node &n, const Subject &subject) {
    if (n.op != Op::Custom && !n.custom) return {};
    if (n.op != Op::Custom || !n.custom)
      return Status::errorf(ErrorId::qir_bad, "%s: found %s, expected a custom operator and its name together", subject,
                            n.custom ? "the name of a custom operator" : "a custom operator without its name");
    const CustomOp &op = *n.custom;
    if (op.domain.size() > kMaxNameBytes)
      return limit_error(subject, "bytes of domain", op.domain.size(), kMaxNameBytes);
    if (op.type.size() > kMaxNameBytes) return limit_error(subject, "bytes of operator", op.type.size(), kMaxNameBytes);
    if (op.domain.empty() || op.domain == "ai.onnx" || op.type.empty())
      return Status::errorf(ErrorId::qir_bad,
                            "%s: found a custom operator '%s' of domain '%s', expected a name and a domain that "
                            "is not ONNX's",
                            subject, printable(op.type), printable(op.domain));
    if (op.version < 1)
      return Status::errorf(ErrorId::qir_bad, "%s: found version %" PRId64 " of its domain, expected 1 or more",
                            subject, op.version);
    return {};
  }

  static Status attribute_tensors(const Node &n, const Attribute &a, const Subject &subject) {
    const bool is_tensor = a.kind == Attribute::Kind::Tensor, is_list = a.kind == Attribute::Kind::Tensors;
    if (is_tensor != (a.tensors.size() == 1) && !is_list)
      return Status::errorf(ErrorId::qir_attribute, "%s: found %zu tensors in attribute '%s', expected %d", subject,
                            a.tensors.size(), printable(a.name), is_tensor ? 1 : 0);
    if ((is_tensor || is_list) && n.op != Op::Custom)
      return Status::errorf(ErrorId::qir_attribute,
                            "%s: found tensors in attribute '%s', expected them of a custom operator alone", subject,
                            printable(a.name));
    for (const Tensor &t : a.tensors) {
      QR_RETURN_IF_ERROR(validate_tensor(t));
      if (!t.is_constant)
        return Status::errorf(ErrorId::qir_attribute,
                              "%s: found a tensor without data in attribute '%s', expected constants", subject,
                              printable(a.name));
    }
    return {};
  }

  static Status attributes(const Node &n, const Subject &subject) {
    if (n.attributes.size() > kMaxAttributes)
      return limit_error(subject, "attributes", n.attributes.size(), kMaxAttributes);
    for (std::size_t i = 0; i < n.attributes.size(); ++i) {
      const Attribute &a = n.attributes[i];
      if (a.name.empty() || a.name.size() > kMaxNameBytes)
        return Status::errorf(ErrorId::qir_attribute, "%s: found an attribute name of %zu bytes, expected 1 to %u",
                              subject, a.name.size(), kMaxNameBytes);
      for (std::size_t k = 0; k < i; ++k)
        if (n.attributes[k].name == a.name)
          return Status::errorf(ErrorId::qir_attribute, "%s: found attribute '%s' twice", subject, printable(a.name));
      const std::size_t elements = a.s.size() + a.ints.size() + a.floats.size() + a.strings.size() + a.tensors.size();
      if (elements > kMaxAttributeElements)
        return limit_error(subject, "elements in one attribute", elements, kMaxAttributeElements);
      QR_RETURN_IF_ERROR(attribute_tensors(n, a, subject));
    }
    return {};
  }

  // The types and shapes that the operator's rule gives must be those that the graph states.
  Status types(const Graph &graph, const Node &n, const Subject &subject) {
    Vector<InferValue> &inputs = inputs_;
    Vector<InferType> &outputs = outputs_;
    bool quantised = false;
    inputs.resize(n.inputs.size());
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      InferValue &input = inputs[i];
      if (n.inputs[i] == kAbsent) {
        input = {};
        continue;
      }
      const Tensor &t = at(graph, n.inputs[i]);
      input.present = true, input.dtype = t.dtype, input.shape = t.shape, input.quant = &t.quant;
      input.value = t.is_constant ? t.data : Bytes{};
      quantised |= t.quant.has_value();
    }
    if (n.op == Op::Custom) stated_types(graph, n, &outputs);
    QR_RETURN_IF_ERROR(infer_node(n, inputs, outputs));
    for (std::size_t i = 0; i < n.outputs.size() && i < outputs.size(); ++i) {
      if (n.outputs[i] == kAbsent) continue;
      const Tensor &t = at(graph, n.outputs[i]);
      // A quantised tensor has its own type, and what is computed from quantised tensors is a real number of any width.
      const bool free_type = t.quant || (quantised && is_float(t.dtype) && is_float(outputs[i].dtype));
      if (!free_type && t.dtype != outputs[i].dtype)
        return Status::errorf(ErrorId::qir_type, "%s: found output '%s' of type %s, expected %s", subject,
                              printable(t.name), dtype_name(t.dtype), dtype_name(outputs[i].dtype));
      if (!shapes_agree(t.shape, outputs[i].shape))
        return Status::errorf(ErrorId::qir_shape, "%s: found output '%s' of shape %s, expected %s", subject,
                              printable(t.name), dims_text(t.shape), dims_text(outputs[i].shape));
    }
    return {};
  }

  // ---- subgraphs: graph.h says what each operator passes to its bodies --------------------------

  Status bodies(const Graph &graph, const Node &n, const Subject &subject, std::uint32_t depth) {
    if (const std::size_t expected = subgraph_count(n.op); n.subgraphs.size() != expected)
      return Status::errorf(ErrorId::qir_bad, "%s: found %zu subgraphs, expected %zu", subject, n.subgraphs.size(),
                            expected);
    for (const Graph &body : n.subgraphs) QR_RETURN_IF_ERROR(this->graph(body, depth + 1));
    switch (n.op) {
      case Op::If:
        for (const Graph &body : n.subgraphs) QR_RETURN_IF_ERROR(if_branch(graph, n, body, subject));
        return {};
      case Op::Loop: return loop_body(graph, n, n.subgraphs[0], subject);
      case Op::Scan: return scan_body(graph, n, n.subgraphs[0], subject);
      default: return {};
    }
  }

  static Status arity(const Subject &subject, const Graph &body, std::size_t inputs, std::size_t outputs) {
    if (body.inputs.size() == inputs && body.outputs.size() == outputs) return {};
    return Status::errorf(ErrorId::qir_bad, "%s: subgraph '%s' has %zu inputs and %zu outputs, expected %zu and %zu",
                          subject, printable(body.name), body.inputs.size(), body.outputs.size(), inputs, outputs);
  }

  // A value that passes between a node and its body, or from one iteration to the next. `sliced`: the body has it
  // without one axis.
  static Status passes(const Subject &subject, const Tensor &outside, const Tensor &inside, bool sliced = false) {
    const bool shape_fits =
        sliced ? outside.shape.size() == inside.shape.size() + 1 : shapes_agree(outside.shape, inside.shape);
    if (outside.dtype == inside.dtype && outside.quant == inside.quant && shape_fits) return {};
    return Status::errorf(
        ErrorId::qir_type,
        "%s: tensor '%s' (%s%s, quantisation: %s) does not fit '%s' of the subgraph (%s%s, quantisation: %s)", subject,
        printable(outside.name), dtype_name(outside.dtype), dims_text(outside.shape), quant_text(outside.quant),
        printable(inside.name), dtype_name(inside.dtype), dims_text(inside.shape), quant_text(inside.quant));
  }
  static Status captures(const Graph &graph, const Node &n, const Graph &body, std::size_t node_from,
                         std::size_t body_from, const Subject &subject) {
    for (std::size_t i = node_from; i < n.inputs.size(); ++i) {
      if (n.inputs[i] == kAbsent)
        return Status::errorf(ErrorId::qir_bad, "%s: input %zu is absent, expected a value for the subgraph", subject,
                              i);
      QR_RETURN_IF_ERROR(passes(subject, at(graph, n.inputs[i]), at(body, body.inputs[body_from + i - node_from])));
    }
    return {};
  }

  static Status if_branch(const Graph &graph, const Node &n, const Graph &body, const Subject &subject) {
    if (n.inputs.empty() || n.inputs[0] == kAbsent)
      return Status::errorf(ErrorId::qir_bad, "%s: has no condition", subject);
    QR_RETURN_IF_ERROR(arity(subject, body, n.inputs.size() - 1, n.outputs.size()));
    QR_RETURN_IF_ERROR(captures(graph, n, body, 1, 0, subject));
    for (std::size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i] == kAbsent) continue;
      // The branches may give different shapes: the node's output is then of unknown shape, even of the rank that the
      // rule gives.
      const Tensor &outside = at(graph, n.outputs[i]), &inside = at(body, body.outputs[i]);
      QR_RETURN_IF_ERROR(passes(subject, outside, inside));
    }
    return {};
  }

  static Status scalar(const Subject &subject, const Tensor &t, DType dtype) {
    const std::optional<std::int64_t> count = element_count(t.shape.data(), t.shape.size());
    if (t.dtype == dtype && !t.quant && t.shape.size() <= 1 && count.value_or(1) == 1) return {};
    return Status::errorf(ErrorId::qir_type, "%s: found '%s' of the subgraph as %s%s, expected one %s", subject,
                          printable(t.name), dtype_name(t.dtype), dims_text(t.shape), dtype_name(dtype));
  }

  // A count that an attribute gives, at most `limit`.
  static Status count(const Node &n, const char *attribute, std::size_t limit, const Subject &subject,
                      std::size_t *out) {
    const std::int64_t value = n.get_int(attribute, 0);
    if (value < 0 || static_cast<std::uint64_t>(value) > limit)
      return Status::errorf(ErrorId::qir_attribute, "%s: found %s = %" PRId64 ", expected 0 to %zu", subject, attribute,
                            value, limit);
    *out = static_cast<std::size_t>(value);
    return {};
  }

  static Status loop_body(const Graph &graph, const Node &n, const Graph &body, const Subject &subject) {
    if (n.inputs.size() < 2)
      return Status::errorf(ErrorId::qir_bad, "%s: found %zu inputs, expected at least 2", subject, n.inputs.size());
    std::size_t carried = 0;
    QR_RETURN_IF_ERROR(count(n, "carried", std::min(n.inputs.size() - 2, n.outputs.size()), subject, &carried));
    QR_RETURN_IF_ERROR(arity(subject, body, n.inputs.size(), 1 + n.outputs.size()));
    QR_RETURN_IF_ERROR(scalar(subject, at(body, body.inputs[0]), DType::I64));
    QR_RETURN_IF_ERROR(scalar(subject, at(body, body.inputs[1]), DType::Bool));
    QR_RETURN_IF_ERROR(scalar(subject, at(body, body.outputs[0]), DType::Bool));
    QR_RETURN_IF_ERROR(captures(graph, n, body, 2, 2, subject));
    for (std::size_t i = 0; i < n.outputs.size(); ++i) {
      const Tensor &made = at(body, body.outputs[1 + i]);
      if (i < carried) QR_RETURN_IF_ERROR(passes(subject, made, at(body, body.inputs[2 + i])));
      if (n.outputs[i] != kAbsent) QR_RETURN_IF_ERROR(passes(subject, at(graph, n.outputs[i]), made, i >= carried));
    }
    return {};
  }

  static Status scan_body(const Graph &graph, const Node &n, const Graph &body, const Subject &subject) {
    std::size_t states = 0, scanned = 0;
    QR_RETURN_IF_ERROR(count(n, "states", std::min(n.inputs.size(), n.outputs.size()), subject, &states));
    QR_RETURN_IF_ERROR(count(n, "num_scan_inputs", n.inputs.size() - states, subject, &scanned));
    QR_RETURN_IF_ERROR(arity(subject, body, n.inputs.size(), n.outputs.size()));
    for (std::size_t i = 0; i < states + scanned; ++i) {
      if (n.inputs[i] == kAbsent)
        return Status::errorf(ErrorId::qir_bad, "%s: input %zu is absent, expected a value for the subgraph", subject,
                              i);
      QR_RETURN_IF_ERROR(passes(subject, at(graph, n.inputs[i]), at(body, body.inputs[i]), i >= states));
    }
    QR_RETURN_IF_ERROR(captures(graph, n, body, states + scanned, states + scanned, subject));
    for (std::size_t i = 0; i < n.outputs.size(); ++i) {
      const Tensor &made = at(body, body.outputs[i]);
      if (i < states) QR_RETURN_IF_ERROR(passes(subject, made, at(body, body.inputs[i])));
      if (n.outputs[i] != kAbsent) QR_RETURN_IF_ERROR(passes(subject, at(graph, n.outputs[i]), made, i >= states));
    }
    return {};
  }

  std::uint32_t subgraphs_ = 0;

  // What types() looks at, kept for their room.
  Vector<InferValue> inputs_;
  Vector<InferType> outputs_;
};

}  // namespace

Status validate_tensor(const Tensor &t) {
  const Subject subject(t);
  if (t.name.size() > kMaxNameBytes) return limit_error(subject, "bytes of name", t.name.size(), kMaxNameBytes);
  if (!dtype_row(t.dtype))
    return Status::errorf(ErrorId::qir_type, "%s: found type number %d, expected one of ONNX's that Quarry knows",
                          subject, static_cast<int>(t.dtype));
  if (t.shape.size() > kMaxRank)
    return Status::errorf(ErrorId::qir_rank, "%s: found %zu dimensions, expected at most %zu", subject, t.shape.size(),
                          kMaxRank);
  std::int64_t smallest[kMaxRank] = {};
  std::ranges::copy(t.shape, smallest);
  bool known = true;
  for (std::int64_t &extent : std::span(smallest, t.shape.size())) {
    if (extent < kUnknownDim)
      return Status::errorf(ErrorId::qir_shape, "%s: found size %" PRId64 ", expected at least 0, or -1 for unknown",
                            subject, extent);
    if (extent != kUnknownDim) continue;
    known = false;
    extent = 1;
  }
  const std::optional<std::int64_t> count = element_count(smallest, t.shape.size());
  const std::optional<std::uint64_t> size = count ? packed_size(t.dtype, *count) : std::nullopt;
  if (!size || *size > kMaxTensorBytes)
    return Status::errorf(ErrorId::qir_limit, "%s: found %s elements of %s, expected at most %" PRIu64 " bytes",
                          subject, dims_text(t.shape), dtype_name(t.dtype), kMaxTensorBytes);
  if (t.is_constant) {
    if (!known)
      return Status::errorf(ErrorId::qir_shape, "%s: found a constant of unknown shape %s", subject,
                            dims_text(t.shape));
    if (t.data.size != *size || (!t.data.data && t.data.size))
      return Status::errorf(ErrorId::qir_bad, "%s: found %" PRIu64 " bytes of data, expected %" PRIu64 " for %s%s",
                            subject, t.data.size, *size, dtype_name(t.dtype), dims_text(t.shape));
  }
  return t.quant ? validate_quantization(t, *t.quant, subject) : Status();
}

Status validate_graph(const Graph &graph) { return Validator().graph(graph, 0); }

}  // namespace quarry::qir
