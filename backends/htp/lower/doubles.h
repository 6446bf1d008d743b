// SPDX-License-Identifier: Apache-2.0
// f64 inside a graph as f32: the device computes in f16 either way. Inputs and outputs keep their type: the host
// converts them.
#pragma once

#include "backends/htp/program/io_binding.h"
#include "backends/htp/soc/soc.h"
#include "graph/store.h"

namespace quarry::htp {

// f64, and bf16 on a SoC that has none, become f32. What inputs and outputs of the graph were, the host converts.
HostReals take_reals_as_floats(qir::Graph &graph, qir::Store &store, const Soc &soc);

}  // namespace quarry::htp
