// SPDX-License-Identifier: Apache-2.0
// The listing of a graph:
//
//   graph 'mnist' (12 tensors, 5 nodes)
//     input  %image: f32[1,1,28,28]
//     %conv_out: f32[1,8,28,28] = Conv(%image, const %w: f32[8,1,5,5]) {kernel_shape: [5,5]}  # conv1
//     output %scores
//
// Types stand where a tensor is made. Names are as in the model, escaped; long lists are cut.
#include <cinttypes>

#include "graph/graph.h"

namespace quarry::qir {
namespace {

constexpr std::size_t kShownElements = 8;

class Printer {
 public:
  explicit Printer(String &out) : out_(out) {}

  void graph(const Graph &graph, std::size_t indent) {
    line(indent, format("graph '%s' (%zu tensors, %zu nodes)", printable(graph.name), graph.tensors.size(),
                        graph.nodes.size()));
    for (const std::int32_t input : graph.inputs) line(indent + 2, "input  " + declared(graph, input));
    for (const Dimension &d : graph.dimensions) line(indent + 2, dimension(graph, d));
    for (const Node &n : graph.nodes) node(graph, n, indent + 2);
    for (const std::int32_t output : graph.outputs) line(indent + 2, "output " + named(graph, output));
  }

 private:
  void line(std::size_t indent, const String &text) {
    out_.append(indent, ' ');
    out_ += text;
    out_ += '\n';
  }

  void node(const Graph &graph, const Node &n, std::size_t indent) {
    String text;
    for (std::size_t i = 0; i < n.outputs.size(); ++i) text += (i ? ", " : "") + declared(graph, n.outputs[i]);
    const OpRow &row = op_row(n.op);
    if (n.custom) text += format(" = %s(", op_text(n));
    else text += format(" = %s%s%s(", row.domain, row.domain[0] ? "::" : "", row.name);
    for (std::size_t i = 0; i < n.inputs.size(); ++i) text += (i ? ", " : "") + named(graph, n.inputs[i]);
    text += ")";
    if (!n.attributes.empty()) {
      text += " {";
      for (std::size_t i = 0; i < n.attributes.size(); ++i) {
        const Attribute &a = n.attributes[i];
        text += format("%s%s: %s", i ? ", " : "", printable(a.name), value(a));
      }
      text += "}";
    }
    if (n.custom) text += format(" version %" PRId64, n.custom->version);
    text += "  # " + printable(n.name);
    line(indent, text);
    for (const Graph &body : n.subgraphs) this->graph(body, indent + 4);
  }

  static String dimension(const Graph &graph, const Dimension &d) {
    String text = format("dimension '%s': %s", printable(d.name), range_text(d));
    for (const Dimension::Term &term : d.terms)
      text += format(
          " + %" PRId64 " * '%s'", term.factor,
          term.dimension < graph.dimensions.size() ? printable(graph.dimensions[term.dimension].name).c_str() : "?");
    if (!d.terms.empty()) text += format(" + %" PRId64, d.added);
    for (const Dimension::Place &place : d.places) text += format(", axis %u of input %u", place.axis, place.input);
    return text;
  }

  // A printer is also what shows a graph that failed validation, so it trusts no index.
  static const Tensor *at(const Graph &graph, std::int32_t index) {
    return index >= 0 && index_of(index) < graph.tensors.size() ? &graph.tensors[index_of(index)] : nullptr;
  }
  static String named(const Graph &graph, std::int32_t index) {
    const Tensor *t = at(graph, index);
    if (!t) return index == kAbsent ? String("-") : format("%%<bad index %d>", index);
    return t->is_constant ? "const " + declared(graph, index) : "%" + printable(t->name);
  }
  static String declared(const Graph &graph, std::int32_t index) {
    const Tensor *t = at(graph, index);
    if (!t) return named(graph, index);
    String text = "%" + printable(t->name) + ": " + dtype_name(t->dtype) + shape_text(t->shape.data(), t->shape.size());
    if (t->quant && t->quant->per_tensor() && t->quant->zero_points.size() == 1)
      text += format(" quantised(%.9g, %d)", static_cast<double>(t->quant->scales[0]), t->quant->zero_points[0]);
    else if (t->quant)
      text += format(" quantised(%zu scales, axis %d%s)", t->quant->scales.size(), t->quant->axis,
                     t->quant->block_size ? format(", blocks of %" PRId64, t->quant->block_size).c_str() : "");
    return text;
  }

  template <class T, class F>
  static String list(const Vector<T> &values, F &&show) {
    String text = "[";
    for (std::size_t i = 0; i < values.size() && i < kShownElements; ++i) text += (i ? "," : "") + show(values[i]);
    if (values.size() > kShownElements) text += format(",... %zu in all", values.size());
    return text + "]";
  }
  static String quoted(std::string_view text) { return "'" + printable(text, 60) + "'"; }
  static String value(const Attribute &a) {
    switch (a.kind) {
      case Attribute::Kind::Int: return format("%" PRId64, a.i);
      case Attribute::Kind::Float: return format("%.9g", static_cast<double>(a.f));
      case Attribute::Kind::String: return quoted(a.s);
      case Attribute::Kind::Ints: return list(a.ints, [](std::int64_t each) { return format("%" PRId64, each); });
      case Attribute::Kind::Floats:
        return list(a.floats, [](float each) { return format("%.9g", static_cast<double>(each)); });
      case Attribute::Kind::Strings: return list(a.strings, [](const String &each) { return quoted(each); });
      case Attribute::Kind::Tensor:
      case Attribute::Kind::Tensors:
        return list(a.tensors, [](const Tensor &each) {
          return "const " + String(dtype_name(each.dtype)) + shape_text(each.shape.data(), each.shape.size());
        });
    }
    return {};
  }

  String &out_;
};

}  // namespace

String print_graph(const Graph &graph) {
  String out;
  Printer(out).graph(graph, 0);
  return out;
}

}  // namespace quarry::qir
