// SPDX-License-Identifier: Apache-2.0
// A plan with what stands in a blob beside it.
#pragma once

#include "backends/gpu/program/plan.h"

namespace quarry::gpu {

struct Compiled {
  Plan plan;
  Vector<Status> refused;         // per node that was given
  std::size_t kept_segments = 0;  // all of the request's, or none
  Vector<std::uint8_t> packed;    // the segment behind them
  DynamicRegion region;
  Vector<std::uint8_t> region_constants;  // the segment behind that, where there is a region
  std::uint64_t weights_bytes = 0, io_bytes = 0;
  std::uint64_t range_arena_bytes = 0;  // of a plan of a range: about, for nobody knows the shapes
};

// A node was refused.
bool is_refused(const Compiled &compiled);

// A step as kernels know it; `operands` keeps what the form points to. False: it does not lie in the plan's tables.
bool form_of(const Plan &plan, const Step &step, Vector<StepOperand> &operands, Form &out);

}  // namespace quarry::gpu
