// SPDX-License-Identifier: Apache-2.0
// The option adapter.targets: weights W that adapters change while a session lives. y = x W becomes
// y = x W + (x A) B, where A and B are inputs of the graph (their names: prepare_api.h), which a session fills.
#pragma once

#include "graph/graph.h"
#include "graph/store.h"

namespace quarry::prepare {

struct LowRank {
  Vector<std::string_view> patterns;  // of names of weights, or of their ends behind a dot; '*' stands for any text
  std::int64_t rank = 0;
};

// MatMul, Gemm, MatMulNBits and Conv by one point of reals, whose weights follow from constants. A weight goes by the
// name of its initializer where that ends in ".weight", else by that of its node, as modules of Python: without the
// operator at its end, with dots. A pattern that meets none is an error, as is a weight that cannot be changed so.
Status add_low_rank(qir::Graph &graph, qir::Store &store, const LowRank &wanted);

}  // namespace quarry::prepare
