// SPDX-License-Identifier: Apache-2.0
// The tail of a plan (backends/tail), planned by this backend where it has products, or where it was given much.
#pragma once

#include "backends/cpu/blob.h"
#include "backends/cpu/executor.h"

namespace quarry::cpu {

class TailExecution : public HeapObject, private tail::Planner {
 public:
  // The tail outlives the execution.
  explicit TailExecution(const LoadedTail &tail) : tail_(tail), execution_(tail.pieces, *this) {}
  Status run(std::span<const qr_io_buffer> inputs, std::span<qr_io_buffer> outputs, const qr_run_request &request,
             const qr_host &host, std::uint64_t *events) {
    return execution_.run(inputs, outputs, request, host, events);
  }
  static constexpr std::size_t kPlansKept = tail::Execution::kPlansKept;
  std::size_t plans() const noexcept { return execution_.plans(); }  // for tests

 private:
  bool wants_plan(std::int64_t elements) const override;
  Result<Unique<tail::PlannedRun>> plan(qir::Graph &&graph) override;

  const LoadedTail &tail_;
  tail::Execution execution_;
};

}  // namespace quarry::cpu
