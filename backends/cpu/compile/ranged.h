// SPDX-License-Identifier: Apache-2.0
// What is made of a range when it is compiled: weights that its plans share, and what they are like.
#pragma once

#include "backends/cpu/program/compiled_plan.h"

namespace quarry::cpu {

// Plans shapes of the range (the option shape.prepare, else one), so that their weights are packed: they become
// `out.packed`. The plans themselves are made again in the runs. The last says by what nodes run and what memory a plan
// takes. False: no shape was found that has a plan.
Result<bool> plan_ahead(const qir::Graph &graph, std::span<const qir::Bytes> segments, const CompileOptions &options,
                        CompiledPlan &out);

}  // namespace quarry::cpu
