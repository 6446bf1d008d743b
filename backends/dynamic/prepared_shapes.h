// SPDX-License-Identifier: Apache-2.0
// The option shape.prepare: shapes of a range whose plans are made ahead.
#pragma once

#include "graph/graph.h"

namespace quarry::dynamic {

// "seq=64,batch=2;seq=512": one list of numbers for each part between semicolons, as bound_shapes() takes them; a
// dimension that a part does not name has its least number. Each is one that a run may have. "1,64,512" where the graph
// has one dimension.
Result<Vector<Vector<std::int64_t>>> prepared_shapes(const qir::Graph &graph, std::string_view text);

}  // namespace quarry::dynamic
