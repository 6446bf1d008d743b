// SPDX-License-Identifier: Apache-2.0
// The tail of a plan: the part of a graph behind the first extents that are known only at run time.
//
// It is cut once more. Nodes that tell extents (NonMaxSuppression, NonZero, a Reshape by computed numbers, ...) are run
// by cpu-reference. What they hang up is then a graph whose extents are known, and runs in one of two ways: where it
// has products, or where it was given much, it is compiled like any other graph, once for each combination of extents,
// of which the last few are kept; else cpu-reference runs it, since a handful of boxes is not worth a plan. A plan may
// have a tail itself.
#pragma once

#include "backends/common/plugin_support.h"
#include "backends/cpu-reference/interpreter.h"
#include "backends/cpu/blob.h"
#include "backends/cpu/executor.h"

namespace quarry::cpu {

class TailExecution : public HeapObject {
 public:
  // The tail outlives the execution.
  explicit TailExecution(const LoadedTail &tail);
  ~TailExecution();
  // Inputs and outputs are the tail's; threads, signal and profile those of the request. Results for which the caller
  // gave no room are valid until the next run.
  Status run(std::span<const qr_io_buffer> inputs, std::span<qr_io_buffer> outputs, const qr_run_request &request,
             const qr_host &host, std::uint64_t *events);

  static constexpr std::size_t kPlansKept = 4;
  std::size_t plans() const noexcept { return plans_.size(); }  // for tests

 private:
  struct Planned;
  Status run_part(reference::Execution &execution, const Vector<qr_io_buffer> &inputs, Vector<qr_io_buffer> &outputs,
                  const qr_run_request &request, const qr_host &host, std::uint64_t *events);
  bool worth_a_plan() const;
  Result<Planned *> plan_for();

  const LoadedTail &tail_;
  reference::Execution telling_, rest_;
  Vector<reference::IoBuffer> reads_, writes_;  // of the part that runs
  Vector<qr_io_buffer> telling_inputs_, telling_outputs_, rest_inputs_, rest_outputs_;
  Vector<Unique<Planned>> plans_;  // the one used last is the last
};

}  // namespace quarry::cpu
