// SPDX-License-Identifier: Apache-2.0
// A graph made into a plan: passes, lowering, places in memory, constants.
#pragma once

#include "backends/gpu/plan.h"
#include "backends/gpu/target.h"

namespace quarry::gpu {

struct Compiled {
  Plan plan;
  Vector<Status> refused;         // per node that was given
  std::size_t kept_segments = 0;  // all of the request's, or none
  Vector<std::uint8_t> packed;    // the segment behind them
  Tail tail;
  Vector<std::uint8_t> tail_constants;  // the segment behind that, where there is a tail
  std::uint64_t weights_bytes = 0, io_bytes = 0;
};

// A node was refused.
bool is_refused(const Compiled &compiled);

// Whether the host may run what tells extents, and small parts of what hangs on them (option gpu.tail).
enum class HostTail : std::uint8_t { Refused, Allowed };

// Where a node is refused, the plan is of no use. `sources`: the graph is a part of one of so many nodes, and its nodes
// know theirs; 0: it is whole.
Result<Compiled> compile(qir::Graph graph, std::span<const qir::Bytes> segments, const Target &target,
                         HostTail host_tail = HostTail::Refused, std::size_t sources = 0);

// A step as kernels know it; `operands` keeps what the form points to. False: it does not lie in the plan's tables.
bool form_of(const Plan &plan, const Step &step, Vector<StepOperand> &operands, Form &out);

}  // namespace quarry::gpu
