// SPDX-License-Identifier: Apache-2.0
// The option state.type: what a session keeps of one run for the next (a decoder's caches) lies there in another type
// than the model has it in.
#pragma once

#include "graph/graph.h"
#include "graph/store.h"

namespace quarry::prepare {

struct StateType {
  Vector<std::string_view> pairs;  // names of inputs that grow, each followed by that of its output
  DType dtype = DType::Unknown;    // F16, BF16, F32, or U8
};

// Inputs and outputs of the pairs become of that type. Where an output is the Concat of its input and new entries (as
// exporters write caches), the new entries are rounded once, in front of it; else the whole is, in each run.
// U8: rows along the last axis are bytes b with a number s for each row, and stand for (b - 128) s. The numbers are a
// pair of their own, called as QR_STATE_SCALES says, [..., 1] of f32. Only of such a Concat along another axis: what
// is rounded in each run anew would drift.
Status set_state_type(qir::Graph &graph, qir::Store &store, const StateType &wanted);

}  // namespace quarry::prepare
