// SPDX-License-Identifier: Apache-2.0
// The dynamic region of a plan (backends/dynamic), planned by this backend where it has products, or where it was given
// much.
#pragma once

#include "backends/cpu/program/blob.h"
#include "backends/cpu/run/executor.h"
#include "backends/cpu/run/lengths.h"

namespace quarry::cpu {

// A pair of the plan's inputs and outputs by the numbers that it has in the graph of a range which is planned. Nothing
// where the output is not the input with something behind it.
std::optional<Appended> appended_in(const LoadedPlan &plan, const Appended &pair);

class DynamicExecution final : public HeapObject, private dynamic::Planner {
 public:
  // The dynamic region outlives the execution.
  DynamicExecution(const LoadedRegion &region, std::size_t plans_kept, std::span<const Appended> appended = {})
      : region_(region), appended_(appended.begin(), appended.end()), execution_(region.pieces, *this, plans_kept) {}
  Status prepare(std::string_view shapes) { return execution_.prepare(shapes); }
  Status run(std::span<const qr_io_buffer> inputs, std::span<qr_io_buffer> outputs, const qr_run_request &request,
             const qr_host &host, std::uint64_t *events) {
    return execution_.run(inputs, outputs, request, host, events);
  }
  static constexpr std::size_t kPlansKept = dynamic::Execution::kPlansKept;
  std::size_t plans_kept() const noexcept { return execution_.plans_kept(); }
  const dynamic::PlanFigures &figures() const noexcept { return execution_.figures(); }
  std::size_t plans() const noexcept { return execution_.plans(); }  // for tests, as the next one
  void drop_plans() noexcept { execution_.drop_plans(); }

 private:
  bool wants_plan(std::int64_t elements) const override;
  Result<Unique<dynamic::PlannedRun>> plan(qir::Graph &&graph) override;
  bool joins(const dynamic::Lengths &lengths) const override;
  Unique<dynamic::PlannedRun> join(std::span<Sample> samples) override;
  Status shapes_of(const qir::Graph &graph, Vector<AppendedShape> &out) const;

  const LoadedRegion &region_;
  const Vector<Appended> appended_;
  dynamic::Execution execution_;
};

}  // namespace quarry::cpu
