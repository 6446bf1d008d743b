// SPDX-License-Identifier: Apache-2.0
// A graph made into a plan: passes, lowering, places in memory, constants.
#pragma once

#include "backends/gpu/plan.h"

namespace quarry::gpu {

struct Compiled {
  Plan plan;
  Vector<Status> refused;         // per node that was given
  std::size_t kept_segments = 0;  // all of the request's, or none
  Vector<std::uint8_t> packed;    // the segment behind them
  std::uint64_t weights_bytes = 0, io_bytes = 0;
};

// Where a node is refused, the plan is of no use.
Result<Compiled> compile(qir::Graph graph, std::span<const qir::Bytes> segments, bool has_doubles);

// A step as kernels know it; `operands` keeps what the form points to. False: it does not lie in the plan's tables.
bool form_of(const Plan &plan, const Step &step, Vector<StepOperand> &operands, Form &out);

}  // namespace quarry::gpu
