// SPDX-License-Identifier: Apache-2.0
// f64 inside a graph as f32: the device computes in f16 either way. Inputs and outputs keep their type, and are
// refused.
#pragma once

#include "graph/store.h"

namespace quarry::htp {

void take_doubles_as_floats(qir::Graph &graph, qir::Store &store);

}  // namespace quarry::htp
