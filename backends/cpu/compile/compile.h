// SPDX-License-Identifier: Apache-2.0
// A graph made into a plan: passes, lowering, placing, and constants to segments.
#pragma once

#include "backends/cpu/program/compiled_plan.h"

namespace quarry::cpu {

// `segments` are those that the graph's constants point into; where they are kept they keep their numbers. Then come
// `packed` and `subgraph_constants`.
Result<CompiledPlan> compile(qir::Graph graph, std::span<const qir::Bytes> segments, const CompileOptions &options);

}  // namespace quarry::cpu
