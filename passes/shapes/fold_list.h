// SPDX-License-Identifier: Apache-2.0
// Lists of dimensions: what graphs compute of a few integers when the shapes of a run are put in.
#pragma once

#include "graph/graph.h"
#include "graph/store.h"

namespace quarry::passes {

// Makes a constant of the node's result as its kernel would, without the run of one for each node of hundreds. False:
// it is left to the kernel, as what is not as usual is.
bool fold_list(qir::Graph &graph, const qir::Node &node, qir::Store &store);

}  // namespace quarry::passes
