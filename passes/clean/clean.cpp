// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/stop.h"
#include "graph/edit/graph_edit.h"
#include "passes/passes.h"

namespace quarry::passes {
namespace {

using qir::Op;

bool same_type(const qir::Tensor &a, const qir::Tensor &b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.quant == b.quant &&
         std::ranges::none_of(a.shape, [](std::int64_t d) { return d < 0; });
}

bool in_order(const Vector<std::int64_t> *perm) { return perm && std::ranges::is_sorted(*perm); }

// The node gives its first input unchanged.
bool is_no_op(const qir::Graph &graph, const qir::Node &node) {
  if (node.inputs.empty() || node.inputs[0] == qir::kAbsent || node.outputs.size() != 1) return false;
  const qir::Tensor &in = at(graph, node.inputs[0]), &out = at(graph, node.outputs[0]);
  switch (node.op) {
    case Op::Identity: return in.dtype == out.dtype && in.quant == out.quant;
    case Op::Slice: return same_type(in, out) && node.inputs[4] == qir::kAbsent;
    case Op::Transpose: return same_type(in, out) && in_order(node.get_ints("perm"));
    default: break;
  }
  const qir::OpRow &row = qir::op_row(node.op);
  const bool one_of_many = row.max_inputs < 0 && node.inputs.size() > 1;
  return row.has(qir::OpTraits::Keeps) && !one_of_many && same_type(in, out);
}

}  // namespace

void remove_no_ops(qir::Graph &graph) {
  Vector<bool> dead(graph.nodes.size(), false);
  Vector<bool> is_output(graph.tensors.size()), from_node(graph.tensors.size());
  qir::Replacements replaced(graph);
  for (const std::int32_t id : graph.outputs) is_output[index_of(id)] = true;
  for (const qir::Node &node : graph.nodes)
    for (const std::int32_t id : node.outputs)
      if (id != qir::kAbsent) from_node[index_of(id)] = true;
  for (std::size_t i = 0; i < graph.nodes.size() && !stop_asked(); ++i) {
    for (qir::Graph &body : graph.nodes[i].subgraphs) remove_no_ops(body);
    for (std::int32_t &id : graph.nodes[i].inputs) id = replaced.now(id);
    if (!is_no_op(graph, graph.nodes[i])) continue;
    const std::int32_t in = graph.nodes[i].inputs[0], out = graph.nodes[i].outputs[0];
    // An output keeps its name: its tensor takes the place of the one that was copied.
    if (!is_output[index_of(out)]) replaced.replace(out, in);
    else if (from_node[index_of(in)] && !is_output[index_of(in)]) replaced.replace(in, out);
    else continue;
    dead[i] = true;
  }
  replaced.apply(graph);
  compact(graph, dead);
}

void remove_unused(qir::Graph &graph) {
  Vector<bool> wanted(graph.tensors.size()), dead(graph.nodes.size(), true);
  for (const std::int32_t id : graph.outputs) wanted[index_of(id)] = true;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    if (stop_asked()) return;
    qir::Node &node = graph.nodes[i];
    for (const std::int32_t id : node.outputs)
      if (id != qir::kAbsent && wanted[index_of(id)]) dead[i] = false;
    if (dead[i]) continue;
    for (const std::int32_t id : node.inputs)
      if (id != qir::kAbsent) wanted[index_of(id)] = true;
    for (qir::Graph &body : node.subgraphs) remove_unused(body);
  }
  compact(graph, dead);
}

}  // namespace quarry::passes
