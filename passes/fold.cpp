// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/checked.h"
#include "formats/qir/quantization.h"
#include "passes/passes.h"

namespace quarry::passes {

void fold_constants(qir::Graph &graph, Store &store, qir::Folder &folder, const FoldLimits &limits) {
  constexpr std::uint64_t kFreely = std::uint64_t{1} << 20, kGrowth = 4;
  Vector<bool> dead(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const qir::Node &node = graph.nodes[i];
    if (!node.subgraphs.empty() || qir::is_random(node.op) || node.inputs.empty() ||
        (limits.wanted && !limits.wanted(node.op)))
      continue;
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
      const bool moved = moves_values(graph, node) && node.inputs[0] != qir::kAbsent &&
                         at(graph, node.inputs[0]).quant == tensor.quant &&
                         (node.op != qir::Op::Concat || !tensor.quant);
      stays = stays || (tensor.quant && !moved) || std::ranges::find(graph.outputs, id) != graph.outputs.end();
    }
    if (!constant || stays || (!limits.may_grow && out > kFreely && out / kGrowth > in)) continue;
    Vector<qir::Constant> results;
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

}  // namespace quarry::passes
