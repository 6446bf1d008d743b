// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu-reference/folder.h"

#include "backends/cpu-reference/interpreter.h"
#include "graph/ops/quantization.h"

namespace quarry::reference {

bool ReferenceFolder::fold(const qir::Graph &graph, const qir::Node &node, qir::Store &store,
                           Vector<qir::Constant> *outputs) {
  if (!find_kernel(node.op)) return false;
  Vector<ConstView> inputs(node.inputs.size());
  const bool moves = qir::moves_values(graph, node);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] == qir::kAbsent) continue;
    const qir::Tensor &from = at(graph, node.inputs[i]);
    // Values that only move may move as they are stored.
    inputs[i] = {true, from.dtype, from.shape, moves ? nullptr : &from.quant, from.data.data};
  }
  Vector<OwnedTensor> results;
  // A node that cannot run is left for the run to complain about: it may never be reached.
  if (!run_node(node, inputs, results).ok()) return false;
  for (const OwnedTensor &result : results)
    outputs->push_back({result.dtype, result.shape, store.copy(result.data.data(), result.data.size())});
  return true;
}

}  // namespace quarry::reference
