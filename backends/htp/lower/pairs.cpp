// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/pairs.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "graph/edit/graph_edit.h"
#include "graph/infer/infer.h"
#include "passes/edit.h"

namespace quarry::htp {

using qir::Op;

namespace {

class Pairs {
 public:
  Pairs(qir::Graph &graph, qir::Store &store) : graph_(graph), store_(store), moved_(graph.tensors.size()) {}

  HostIntegers run() {
    const auto is_wide = [](const qir::Tensor &t) { return t.dtype == DType::I64 || t.dtype == DType::U64; };
    const qir::Uses uses(graph_);
    bool any = false;
    for (std::size_t i = 0; i < moved_.size(); ++i) {
      const qir::Tensor &tensor = graph_.tensors[i];
      const auto id = static_cast<std::int32_t>(i);
      // One more axis must fit; an axis of nothing is refused by name elsewhere, and an input that nobody reads is
      // none.
      moved_[i] = is_wide(tensor) && tensor.shape.size() < qir::kMaxRank &&
                  std::ranges::all_of(tensor.shape, [](std::int64_t extent) { return extent > 0; }) &&
                  (!uses.is_input(id) || uses.is_output(id) || !uses.users(id).empty());
      any = any || moved_[i];
    }
    HostIntegers out;
    if (!any) return out;
    while (forget_what_is_read()) continue;
    if (!is_worth_it()) return out;
    const auto note = [&](const Vector<std::int32_t> &ids, Vector<DType> &types) {
      for (const std::int32_t id : ids) types.push_back(is_moved(id) ? qir::at(graph_, id).dtype : DType::Unknown);
    };
    note(graph_.inputs, out.inputs), note(graph_.outputs, out.outputs);
    for (std::size_t i = 0; i < moved_.size(); ++i) {
      qir::Tensor &tensor = graph_.tensors[i];
      if (!moved_[i] || tensor.is_constant) continue;
      tensor.dtype = DType::I32;
      tensor.shape.push_back(2);
    }
    passes::Rewriting rewriting(graph_, store_);
    for (qir::Node &node : rewriting.old) {
      if (moves(node)) adapt(rewriting, node);
      rewriting.keep(std::move(node));
    }
    return out;
  }

 private:
  // Not a constant: of those each reader gets one of its own.
  bool is_moved(std::int32_t id) const {
    return id != qir::kAbsent && moved_[index_of(id)] && !qir::at(graph_, id).is_constant;
  }
  static bool is_data(const qir::Node &node, std::size_t input) {
    switch (node.op) {
      case Op::Concat: return true;
      case Op::ScatterND: return input != 1;
      case Op::Where: return input != 0;
      default: return input == 0;
    }
  }
  bool is_constant_or_absent(std::int32_t id) const { return id == qir::kAbsent || qir::at(graph_, id).is_constant; }

  // Whether the node has a form for pairs, by its operator and parameters.
  bool has_form(const qir::Node &node) const {
    switch (node.op) {
      case Op::Concat:
      case Op::Expand:
      case Op::Flatten:
      case Op::Gather:
      case Op::GatherND:
      case Op::Identity:
      case Op::Reshape:
      case Op::ReverseSequence:
      case Op::Split:
      case Op::Squeeze:
      case Op::Transpose:
      case Op::Unsqueeze:
      case Op::Where: return true;
      case Op::ScatterND: return node.get_string("reduction", "none") == "none";
      case Op::Slice: return is_constant_or_absent(node.inputs[3]);
      case Op::Tile: return qir::at(graph_, node.inputs[1]).is_constant;
      case Op::Pad: {
        if (!is_constant_or_absent(node.inputs[3])) return false;
        if (node.get_string("mode", "constant") != "constant" || node.inputs[2] == qir::kAbsent) return true;
        const qir::Bytes &with = qir::at(graph_, node.inputs[2]).data;
        const auto *const bytes = static_cast<const std::uint8_t *>(with.data);
        return bytes && std::all_of(bytes, bytes + with.size, [](std::uint8_t byte) { return byte == 0; });
      }
      default: return false;
    }
  }
  bool moves(const qir::Node &node) const {
    if (!has_form(node)) return false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (is_data(node, i) && !moved_[index_of(node.inputs[i])]) return false;
    return std::ranges::all_of(node.outputs, [&](std::int32_t id) { return id == qir::kAbsent || is_moved(id); });
  }
  // Of one node that reads a tensor for its numbers, or makes them: the tensor has 32 bits then, and so has all that is
  // moved from and to it. Whether it found any.
  bool forget_what_is_read() {
    bool found = false;
    const auto forget = [&](std::int32_t id) {
      if (!is_moved(id)) return;
      moved_[index_of(id)] = false;
      found = true;
    };
    const auto visit = [&](const qir::Node &node) {
      const bool as_pairs = moves(node);
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (!as_pairs || !is_data(node, i)) forget(node.inputs[i]);
      if (!as_pairs) std::ranges::for_each(node.outputs, forget);
    };
    // In both directions, so that a long row of nodes takes few sweeps.
    std::ranges::for_each(graph_.nodes, visit);
    std::for_each(graph_.nodes.rbegin(), graph_.nodes.rend(), visit);
    return found;
  }

  bool is_worth_it() const {
    if (std::ranges::any_of(graph_.inputs, [&](std::int32_t id) { return is_moved(id); })) return true;
    const auto is_past_32_bits = [&](std::int32_t id) {
      const qir::Tensor &tensor = qir::at(graph_, id);
      const std::int64_t low = tensor.dtype == DType::I64 ? std::numeric_limits<std::int32_t>::min() : 0,
                         high = tensor.dtype == DType::I64 ? std::numeric_limits<std::int32_t>::max()
                                                           : std::numeric_limits<std::uint32_t>::max();
      for (std::uint64_t at = 0; tensor.is_constant && at + 8 <= tensor.data.size; at += 8) {
        std::int64_t value;
        std::memcpy(&value, static_cast<const std::uint8_t *>(tensor.data.data) + at, sizeof value);
        if (value < low || value > high) return true;
      }
      return false;
    };
    return std::ranges::any_of(graph_.nodes, [&](const qir::Node &node) {
      if (!moves(node)) return false;
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (is_data(node, i) && is_past_32_bits(node.inputs[i])) return true;
      return false;
    });
  }

  // Of the model's, without the axis of the pairs.
  std::int64_t rank_of(std::int32_t id) const {
    return static_cast<std::int64_t>(qir::at(graph_, id).shape.size()) - (is_moved(id) ? 1 : 0);
  }
  static std::int64_t from_front(std::int64_t axis, std::int64_t rank) { return axis < 0 ? axis + rank : axis; }

  Vector<std::int64_t> integers_of(std::int32_t id) const {
    const qir::Tensor &tensor = qir::at(graph_, id);
    qir::IntList list;
    (void)qir::read_ints(tensor.dtype, tensor.data.data, tensor.shape.empty() ? 1 : tensor.shape[0], &list);
    return Vector<std::int64_t>(list.values, list.values + list.size);
  }

  // The axes that an input lists, counted from the front. Absent: the first ones, or as many as there are.
  void give_axes(passes::Rewriting &rewriting, qir::Node &node, std::size_t input) {
    const std::int64_t rank = rank_of(node.inputs[0]);
    Vector<std::int64_t> axes;
    if (node.inputs[input] == qir::kAbsent) {
      if (node.op == Op::Slice) return;
      axes.resize(static_cast<std::size_t>(rank));
      std::iota(axes.begin(), axes.end(), 0);
    } else {
      axes = integers_of(node.inputs[input]);
      for (std::int64_t &axis : axes) axis = from_front(axis, rank);
    }
    const std::int32_t made = rewriting.integers(node.name + "/axes", axes);
    // The type of starts and ends, which the axes share.
    if (node.op == Op::Slice && qir::at(graph_, node.inputs[1]).dtype == DType::I32) narrow(made);
    node.inputs.set(input, made);
  }

  void give_condition(passes::Rewriting &rewriting, qir::Node &node) {
    qir::Shape shape = qir::at(graph_, node.inputs[0]).shape;
    shape.push_back(1);
    const std::int32_t wanted = rewriting.integers(node.name + "/shape", shape);
    const std::int32_t condition = rewriting.tensor(node.name + "/condition", DType::Bool, shape);
    rewriting.emit(Op::Reshape, node, {node.inputs[0], wanted}, condition);
    node.inputs.set(0, condition);
  }

  void give_order(qir::Node &node) const {
    const std::int64_t rank = rank_of(node.inputs[0]);
    Vector<std::int64_t> order;
    if (const Vector<std::int64_t> *const given = node.get_ints("perm")) order = *given;
    else
      for (std::int64_t axis = rank; axis > 0; --axis) order.push_back(axis - 1);
    order.push_back(rank);
    node.set("perm", std::move(order));
  }

  void adapt(passes::Rewriting &rewriting, qir::Node &node) {
    switch (node.op) {
      case Op::Concat:
      case Op::Gather:
      case Op::Split: node.set("axis", from_front(node.get_int("axis", 0), rank_of(node.inputs[0]))); break;
      case Op::Slice: give_axes(rewriting, node, 3); break;
      case Op::Pad:
        give_axes(rewriting, node, 3);
        node.inputs.set(2, qir::kAbsent);  // zero, as nothing is
        break;
      case Op::Transpose: give_order(node); break;
      case Op::Where: give_condition(rewriting, node); break;
      case Op::Tile: {
        Vector<std::int64_t> times = integers_of(node.inputs[1]);
        times.push_back(1);
        node.inputs.set(1, rewriting.integers(node.name + "/repeats", times));
        break;
      }
      case Op::Flatten:
      case Op::Reshape:
      case Op::Squeeze:
      case Op::Unsqueeze:
        node.op = Op::Reshape;
        node.attributes.clear();
        [[fallthrough]];
      case Op::Expand:
        node.inputs.resize(1);
        node.inputs.push_back(rewriting.integers(node.name + "/shape", qir::at(graph_, node.outputs[0]).shape));
        break;
      default: break;
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (is_data(node, i) && qir::at(graph_, node.inputs[i]).is_constant) give_constant(rewriting, node, i);
  }

  void give_constant(passes::Rewriting &rewriting, qir::Node &node, std::size_t input) {
    qir::Tensor made = qir::at(graph_, node.inputs[input]);
    made.name = rewriting.names.fresh(made.name);
    made.dtype = DType::I32;
    made.shape.push_back(2);
    node.inputs.set(input, static_cast<std::int32_t>(graph_.tensors.size()));
    graph_.tensors.push_back(std::move(made));
  }

  void narrow(std::int32_t id) {
    qir::Tensor &tensor = qir::at(graph_, id);
    const std::uint64_t count = tensor.data.size / 8;
    auto *const values = static_cast<std::int32_t *>(store_.allocate(count * 4));
    for (std::uint64_t i = 0; i < count; ++i)
      values[i] = static_cast<std::int32_t>(static_cast<const std::int64_t *>(tensor.data.data)[i]);
    tensor.dtype = DType::I32, tensor.data = {values, count * 4};
  }

  qir::Graph &graph_;
  qir::Store &store_;
  Vector<bool> moved_;  // per tensor that was given: it may be pairs
};

}  // namespace

HostIntegers take_moved_integers_as_pairs(qir::Graph &graph, qir::Store &store) { return Pairs(graph, store).run(); }

}  // namespace quarry::htp
