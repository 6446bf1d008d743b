// SPDX-License-Identifier: Apache-2.0
#include "prepare/fold.h"

#include <algorithm>

#include "backends/cpu-reference/interpreter.h"
#include "formats/qir/graph_edit.h"
#include "prepare/passes.h"
#include "prepare/quantize.h"

namespace quarry::prepare {

bool ReferenceFolder::fold(const qir::Graph &graph, const qir::Node &node, onnx_import::Store &store,
                           Vector<onnx_import::Constant> *outputs) {
  if (!reference::find_kernel(node.op)) return false;
  Vector<reference::ConstView> inputs(node.inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] == qir::kAbsent) continue;
    const qir::Tensor &from = at(graph, node.inputs[i]);
    // Values that only move may move as they are stored.
    inputs[i] = {true, from.dtype, from.shape, moves_values(node.op) ? nullptr : &from.quant, from.data.data};
  }
  Vector<reference::OwnedTensor> results;
  // A node that cannot run is left for the run to complain about: it may never be reached.
  if (!reference::run_node(node, inputs, results).ok()) return false;
  for (const reference::OwnedTensor &result : results)
    outputs->push_back({result.dtype, result.shape, store.copy(result.data.data(), result.data.size())});
  return true;
}

void fold_constants(qir::Graph &graph, Store &store) {
  constexpr std::uint64_t kFreely = std::uint64_t{1} << 20, kGrowth = 4;
  ReferenceFolder folder;
  Vector<bool> dead(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const qir::Node &node = graph.nodes[i];
    if (!node.subgraphs.empty() || onnx_import::is_random(node.op) || node.inputs.empty()) continue;
    std::uint64_t in = 0, out = 0;
    bool constant = true, stays = false;
    for (const std::int32_t id : node.inputs) {
      if (id == qir::kAbsent) continue;
      constant = constant && at(graph, id).is_constant;
      in += at(graph, id).data.size;
    }
    for (const std::int32_t id : node.outputs) {
      if (id == qir::kAbsent) continue;
      const qir::Tensor &tensor = at(graph, id);
      std::uint64_t bytes = dtype_bits(tensor.dtype) / 8;
      for (const std::int64_t dim : tensor.shape) bytes *= dim > 0 ? static_cast<std::uint64_t>(dim) : 1;
      out += bytes;
      const bool moved = moves_values(node.op) && node.inputs[0] != qir::kAbsent &&
                         at(graph, node.inputs[0]).quant == tensor.quant &&
                         (node.op != qir::Op::Concat || !tensor.quant);
      stays = stays || (tensor.quant && !moved) || std::ranges::find(graph.outputs, id) != graph.outputs.end();
    }
    if (!constant || stays || (out > kFreely && out / kGrowth > in)) continue;
    Vector<onnx_import::Constant> results;
    if (!folder.fold(graph, node, store, &results)) continue;
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k] == qir::kAbsent) continue;
      qir::Tensor &tensor = at(graph, node.outputs[k]);
      tensor.dtype = results[k].dtype;
      tensor.shape = results[k].shape;
      tensor.is_constant = true;
      tensor.data = results[k].data;
    }
    dead[i] = true;
  }
  compact(graph, dead);
}

}  // namespace quarry::prepare
