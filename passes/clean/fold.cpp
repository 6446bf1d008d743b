// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/stop.h"
#include "graph/limits.h"
#include "graph/ops/quantization.h"
#include "passes/passes.h"

namespace quarry::passes {

void fold_constants(qir::Graph &graph, Store &store, qir::Folder &folder, const FoldLimits &limits) {
  constexpr std::uint64_t kFreely = std::uint64_t{1} << 20, kGrowth = 4;
  Vector<bool> dead(graph.nodes.size(), false), is_output(graph.tensors.size());
  for (const std::int32_t id : graph.outputs) is_output[index_of(id)] = true;
  // A chain of nodes that each give four times what they read must end somewhere.
  std::uint64_t left = qir::Folder::kAllowed;
  for (const qir::Tensor &tensor : graph.tensors)
    if (tensor.is_constant) left += std::min(tensor.data.size, qir::kMaxTensorBytes) * qir::Folder::kTimes;
  for (std::size_t i = 0; i < graph.nodes.size() && !stop_asked(); ++i) {
    const qir::Node &node = graph.nodes[i];
    if (!node.subgraphs.empty() || (!limits.random && (qir::is_random(node.op) || node.inputs.empty())) ||
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
      const bool is_stored = moved || (limits.outputs && node.op == qir::Op::QuantizeLinear);
      stays = stays || (tensor.quant && !is_stored) || (is_output[index_of(id)] && !limits.outputs);
    }
    if (!constant || stays || out > left || (!limits.may_grow && out > kFreely && out / kGrowth > in)) continue;
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
    left -= out;
    dead[i] = true;
  }
  compact(graph, dead);
}

}  // namespace quarry::passes
