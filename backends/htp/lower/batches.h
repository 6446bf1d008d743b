// SPDX-License-Identifier: Apache-2.0
// A graph whose runs may have several batches: the device computes one behind the other, as so many runs. So no node
// may look at two rows of the batch.
#pragma once

#include "graph/store.h"

namespace quarry::htp {

// Rows of one batch, and the most of a run. No rows: the graph has one shape.
struct Batches {
  std::int64_t rows = 0, most = 0;
};
// Binds the symbolic dimension that a run gives a number to, if the graph has one, to its least. It is refused where
// it is not the first of every input and output, or where a node mixes what belongs to different rows.
Result<Batches> take_batches(qir::Graph &graph, qir::Store &store);

}  // namespace quarry::htp
