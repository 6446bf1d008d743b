// SPDX-License-Identifier: Apache-2.0
// Writing a graph that is known to be valid.
#pragma once

#include "graph/graph.h"

namespace quarry::qir {

// write_graph (graph.h) for who has just had validate_graph say yes: it is not asked again.
Result<Vector<std::uint8_t>> write_valid_graph(const Graph &graph, ConstantPool &pool, std::uint32_t pool_segment = 0,
                                               std::span<const Bytes> kept = {});

}  // namespace quarry::qir
