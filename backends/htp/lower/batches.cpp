// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/batches.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu-reference/folder.h"
#include "base/stop.h"
#include "graph/dimensions.h"
#include "graph/edit/graph_edit.h"
#include "graph/infer/infer.h"
#include "passes/shapes/cut.h"

namespace quarry::htp {

using qir::Op;
using qir::OpFamily;

namespace {

// The same graph bound to one batch and to two. What has twice as many in its first axis for two batches has the rows
// of the first batch first, and those of the second behind them: each node is looked at for keeping that so.
class RowsApart {
 public:
  RowsApart(const qir::Graph &one, const qir::Graph &two) : one_(one), two_(two) {}

  // Why not; empty: each row of the results depends on the same row of the inputs alone.
  String refusal() const {
    if (one_.nodes.size() != two_.nodes.size() || one_.tensors.size() != two_.tensors.size())
      return "the graph is another one for two batches";
    for (std::size_t i = 0; i < one_.nodes.size(); ++i) {
      const qir::Node &node = one_.nodes[i];
      if (node.op != two_.nodes[i].op || node.inputs != two_.nodes[i].inputs || node.outputs != two_.nodes[i].outputs)
        return "the graph is another one for two batches";
      if (!stands_apart(node))
        return format("node %s (%s) may mix the rows of a batch", printable(node.name), qir::op_text(node));
    }
    for (const std::int32_t id : one_.inputs)
      if (!has_rows(id)) return format("input %s has the batch in other axes too", printable(qir::at(one_, id).name));
    for (const std::int32_t id : one_.outputs)
      if (!has_rows(id) || qir::at(one_, id).is_constant)
        return format("output %s has not the batch as its first axis", printable(qir::at(one_, id).name));
    return {};
  }

 private:
  enum class Kind : std::uint8_t { Fixed, Rows, Other };
  Kind kind(std::int32_t id) const {
    const qir::Tensor &a = qir::at(one_, id), &b = qir::at(two_, id);
    if (a.is_constant != b.is_constant) return Kind::Other;
    const bool has_rows = !a.shape.empty() && a.shape.size() == b.shape.size() && a.shape[0] > 0 &&
                          b.shape[0] == 2 * a.shape[0] &&
                          std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
    if (a.is_constant) {
      if (b.data.size != (has_rows ? 2 : 1) * a.data.size || a.data.size == 0) return Kind::Other;
      const auto *const more = static_cast<const std::uint8_t *>(b.data.data);
      for (std::uint64_t at = 0; at < b.data.size; at += a.data.size)
        if (std::memcmp(more + at, a.data.data, a.data.size) != 0) return Kind::Other;
    }
    return has_rows ? Kind::Rows : a.shape == b.shape ? Kind::Fixed : Kind::Other;
  }
  bool has_rows(std::int32_t id) const { return kind(id) == Kind::Rows; }
  bool is_fixed(std::int32_t id) const { return id == qir::kAbsent || kind(id) == Kind::Fixed; }
  std::size_t rank(std::int32_t id) const { return qir::at(one_, id).shape.size(); }

  // Where a shape or the number of something stands, which may be another one for two batches: the result's shape says
  // what it came to.
  static bool is_shape(const qir::Node &node, std::size_t input) {
    return input == 1 ? node.op == Op::Reshape || node.op == Op::Expand : input == 3 && node.op == Op::Resize;
  }
  bool is_axis_behind(const qir::Node &node, std::int64_t fallback, std::int32_t of) const {
    const auto axes = static_cast<std::int64_t>(rank(of));
    const std::int64_t axis = node.get_int("axis", fallback);
    return axis != 0 && axis != -axes;
  }
  // The axes that an input lists, which is constant: none is the first of so many.
  bool are_behind(std::int32_t list, std::size_t axes) const {
    const qir::Tensor &tensor = qir::at(one_, list);
    qir::IntList found;
    if (!tensor.is_constant || tensor.shape.size() != 1 || tensor.shape[0] == 0 ||
        !qir::read_ints(tensor.dtype, tensor.data.data, tensor.shape[0], &found))
      return false;
    for (std::size_t i = 0; i < found.size; ++i)
      if (found[i] == 0 || found[i] == -static_cast<std::int64_t>(axes)) return false;
    return true;
  }
  // Each operand meets the result axis by axis from the last; the first is the batch's of those with rows alone.
  bool is_broadcast(const qir::Node &node, std::size_t first = 0, std::size_t count = SIZE_MAX) const {
    const std::size_t axes = rank(node.outputs[0]);
    for (std::size_t i = first; i < std::min(count, node.inputs.size()); ++i) {
      const std::int32_t id = node.inputs[i];
      if (id == qir::kAbsent) continue;
      if (has_rows(id) ? rank(id) != axes : rank(id) == axes && qir::at(one_, id).shape[0] != 1) return false;
    }
    return true;
  }
  bool others_are_fixed(const qir::Node &node, std::size_t rows) const {
    for (std::size_t i = rows; i < node.inputs.size(); ++i)
      if (!is_fixed(node.inputs[i]) && !is_shape(node, i)) return false;
    return true;
  }

  bool stands_apart(const qir::Node &node) const {
    if (!node.subgraphs.empty() || node.custom || qir::is_random(node.op)) return false;
    bool reads_rows = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == qir::kAbsent || is_shape(node, i)) continue;
      const Kind found = kind(node.inputs[i]);
      if (found == Kind::Other) return false;
      reads_rows = reads_rows || found == Kind::Rows;
    }
    for (const std::int32_t id : node.outputs)
      if (id != qir::kAbsent && kind(id) != (reads_rows || node.op == Op::Expand ? Kind::Rows : Kind::Fixed))
        return !reads_rows && node.op == Op::Expand && kind(id) == Kind::Fixed;
    if (!reads_rows)  // an Expand repeats what is the same for all rows
      return node.op != Op::Expand || rank(node.inputs[0]) < rank(node.outputs[0]) ||
             qir::at(one_, node.inputs[0]).shape[0] == 1;
    return reads_one_row(node);
  }
  // Of a node that reads rows and gives rows.
  bool reads_one_row(const qir::Node &node) const {
    const std::int32_t x = node.inputs[0];
    switch (node.op) {
      // In the order in which they lie.
      case Op::Cast:
      case Op::Flatten:
      case Op::Identity:
      case Op::Reshape:
      case Op::Squeeze:
      case Op::Unsqueeze: return true;
      case Op::Expand: return rank(x) == rank(node.outputs[0]);
      case Op::Transpose: {
        const Vector<std::int64_t> *const order = node.get_ints("perm");
        return order && !order->empty() && (*order)[0] == 0;
      }
      case Op::Concat:
        return is_axis_behind(node, 0, x) &&
               std::ranges::all_of(node.inputs, [&](std::int32_t id) { return has_rows(id); });
      case Op::Split: return is_axis_behind(node, 0, x) && others_are_fixed(node, 1);
      case Op::Slice:
        return node.inputs[3] != qir::kAbsent && are_behind(node.inputs[3], rank(x)) && others_are_fixed(node, 1);
      case Op::Pad: return pads_rows(node);
      case Op::DepthToSpace:
      case Op::SpaceToDepth: return true;
      case Op::Gather:
        return is_fixed(x) ? node.get_int("axis", 0) == 0 : is_axis_behind(node, 0, x) && is_fixed(node.inputs[1]);
      case Op::GatherElements: return is_axis_behind(node, 0, x) && has_rows(x) && has_rows(node.inputs[1]);
      case Op::OneHot: return is_axis_behind(node, -1, node.outputs[0]) && others_are_fixed(node, 1);
      case Op::TopK: return is_axis_behind(node, -1, x) && others_are_fixed(node, 1);
      case Op::ArgMax:
      case Op::ArgMin: return is_axis_behind(node, 0, x);
      case Op::CumSum: {
        const qir::Tensor &axis = qir::at(one_, node.inputs[1]);
        qir::IntList list;
        return axis.is_constant && qir::read_ints(axis.dtype, axis.data.data, 1, &list) && list[0] != 0 &&
               list[0] != -static_cast<std::int64_t>(rank(x));
      }
      default: return computes_of_one_row(node);
    }
  }
  // Of a node that does more than move and choose.
  bool computes_of_one_row(const qir::Node &node) const {
    const std::int32_t x = node.inputs[0];
    switch (node.op) {
      case Op::Hardmax:
      case Op::LogSoftmax:
      case Op::Softmax:
      case Op::LayerNormalization:
      case Op::LpNormalization:
      case Op::RMSNormalization: return has_rows(x) && is_axis_behind(node, -1, x) && is_broadcast(node, 1);
      case Op::BatchNormalization:
        return has_rows(x) && node.get_int("training_mode", 0) == 0 && rank(x) > 1 && others_are_fixed(node, 1);
      case Op::GroupNormalization:
      case Op::InstanceNormalization:
      case Op::LRN: return has_rows(x) && others_are_fixed(node, 1);
      case Op::Gemm:
        return has_rows(x) && node.get_int("transA", 0) == 0 && is_fixed(node.inputs[1]) &&
               (node.inputs[2] == qir::kAbsent || is_broadcast(node, 2));
      case Op::MatMul: return multiplies_rows(node);
      case Op::MatMulNBits: return has_rows(x) && others_are_fixed(node, 1);
      case Op::Resize:
        return has_rows(x) && qir::at(one_, x).shape[0] == qir::at(one_, node.outputs[0]).shape[0] &&
               others_are_fixed(node, 1);
      case Op::QuantizeLinear:
      case Op::DequantizeLinear:
        return has_rows(x) && others_are_fixed(node, 1) && (rank(node.inputs[1]) == 0 || is_axis_behind(node, 1, x));
      default: break;
    }
    switch (qir::op_row(node.op).family) {
      case OpFamily::Elementwise: return is_broadcast(node);
      case OpFamily::Convolution:
      case OpFamily::Pooling:  // (indices of maxima count through the rows)
        return has_rows(x) && others_are_fixed(node, 1) && rank(x) > 2 && node.outputs.size() == 1;
      case OpFamily::Reduction:
        return has_rows(x) && node.inputs[1] != qir::kAbsent && are_behind(node.inputs[1], rank(x));
      default: return false;
    }
  }
  bool pads_rows(const qir::Node &node) const {
    if (!others_are_fixed(node, 1)) return false;
    const std::size_t axes = rank(node.inputs[0]);
    if (node.inputs[3] != qir::kAbsent) return are_behind(node.inputs[3], axes);
    const qir::Tensor &pads = qir::at(one_, node.inputs[1]);
    qir::IntList list;
    return pads.is_constant && qir::read_ints(pads.dtype, pads.data.data, static_cast<std::int64_t>(2 * axes), &list) &&
           list[0] == 0 && list[axes] == 0;
  }
  bool multiplies_rows(const qir::Node &node) const {
    const std::int32_t a = node.inputs[0], b = node.inputs[1];
    const std::size_t axes = rank(node.outputs[0]);
    // Rows of matrices: of the left one; or matrices for each row, which both have or one alone.
    if (has_rows(a) && rank(a) == 2) return is_fixed(b) && rank(b) <= 2;
    return axes > 2 && is_broadcast(node);
  }

  const qir::Graph &one_, &two_;
};

// The dimensions that are not bound, as the option has them bound.
String bound_text(const qir::Graph &graph) {
  String text;
  for (const qir::Dimension &dimension : graph.dimensions)
    if (dimension.low != dimension.high && dimension.terms.empty() && !dimension.places.empty())
      text += format("%s%s=%lld", text.empty() ? "" : ",", printable(dimension.name),
                     std::max<std::int64_t>(dimension.low, 1));
  return text;
}

Status not_taken(const qir::Graph &graph, const qir::Dimension &dimension, const String &why) {
  return Status::error(ErrorId::onnx_unbound_shape,
                       format("dimension %s: found %s, expected one number: the htp backend has a program for each "
                              "shape, and takes several batches in a run where each row stands alone, but %s",
                              printable(dimension.name), qir::range_text(dimension), why),
                       format("bind it: shape=%s; several shapes with semicolons between", bound_text(graph)));
}

}  // namespace

Result<Batches> take_batches(qir::Graph &graph, qir::Store &store) {
  Batches out;
  if (graph.dimensions.empty()) return out;
  Vector<std::int64_t> numbers;
  const qir::Dimension *batch = nullptr;
  for (const qir::Dimension &dimension : graph.dimensions) {
    numbers.push_back(std::max<std::int64_t>(dimension.low, 1));
    if (dimension.low == dimension.high || !dimension.terms.empty() || dimension.places.empty()) continue;
    if (batch) return not_taken(graph, dimension, format("%s is another one", printable(batch->name)));
    batch = &dimension;
  }
  if (!batch) return out;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const auto at = std::ranges::count_if(batch->places, [&](const qir::Dimension::Place &p) { return p.input == i; });
    const bool first = std::ranges::find(batch->places, qir::Dimension::Place{static_cast<std::uint32_t>(i), 0}) !=
                       batch->places.end();
    if (at != 1 || !first)
      return not_taken(graph, *batch,
                       format("it is not the first axis of input %s, and that alone",
                              printable(qir::at(graph, graph.inputs[i]).name)));
  }
  const auto d = static_cast<std::size_t>(batch - graph.dimensions.data());
  const qir::Dimension given = *batch;
  reference::ReferenceFolder folder;
  qir::Graph one = graph, two = graph;
  out.rows = numbers[d], out.most = given.high;
  for (qir::Graph *const bound : {&one, &two}) {
    // Twice the least may be more than the most.
    bound->dimensions[d].high = qir::kMaxExtent;
    const std::optional<Vector<qir::Shape>> shapes = qir::bound_shapes(*bound, numbers);
    if (!shapes) return not_taken(graph, given, "its least number has no shapes of all inputs");
    Status bind = passes::bind_dimensions(*bound, *shapes, folder, store);
    if (!bind.ok() && (bound == &one || stop_asked())) return bind;
    if (!bind.ok()) return not_taken(graph, given, format("two batches do not fit: %s", String(bind.message())));
    numbers[d] *= 2;
  }
  if (const String why = RowsApart(one, two).refusal(); !why.empty()) return not_taken(graph, given, why);
  graph = std::move(one);
  return out;
}

}  // namespace quarry::htp
