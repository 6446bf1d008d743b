// SPDX-License-Identifier: Apache-2.0
// f16 and bf16 in the middle of a graph: kept as f32 from where they come in to where they leave it.
#pragma once

#include "graph/graph.h"

namespace quarry::reference {

// Rewrites a graph so that operators which compute or move f16 and bf16 do so on f32, with a Cast where a half is read
// (an input, a constant, the result of another kind of operator) and one where a half must stand (an output, another
// kind of operator). So a chain is rounded once, at its end, not after each node: that is what ONNX Runtime's CPU
// provider does, and an oracle should not add roundings that another backend may not have. A Cast that the model itself
// has still rounds. Nodes with subgraphs stay as they are.
Status widen_float16(qir::Graph &graph);

}  // namespace quarry::reference
