// SPDX-License-Identifier: Apache-2.0
// A whole model: a plan on the device and, where shapes are data-dependent, the dynamic region behind it
// (backends/dynamic). The host runs operators whose results have such shapes. What depends on them is planned for the
// device once for each combination of dimensions, if it has matrix multiplications or inputs of unknown dimensions;
// else the host runs it too: a driver's compiler takes longer than a handful of boxes.
#pragma once

#include "backends/dynamic/dynamic_region.h"
#include "backends/gpu/run/execution.h"

namespace quarry::gpu {

struct LoadedRegion : HeapObject {
  dynamic::Pieces pieces;
  bool planned = false, is_range = false;
  Vector<qir::Bytes> constants;  // the segments that they lie in
  std::size_t sources = 0;       // nodes of the graph that was compiled
  mutable ConstantPool pool;     // of a range's plans
};
// Of a blob that has one.
Result<Unique<LoadedRegion>> load_region(const Blob &blob, std::span<const qir::Bytes> segments, std::size_t sources);

// One caller's runs of a model.
class ModelExecution final : public HeapObject, private dynamic::Planner {
 public:
  // `region`: the dynamic region; null where there is none. Both outlive the execution.
  static Result<Unique<ModelExecution>> make(const LoadedContext &context, const LoadedRegion *region,
                                             const RunOptions &options, const qr_host &host);
  ModelExecution(const LoadedContext &context, const LoadedRegion *region, const RunOptions &options,
                 const qr_host &host)
      : context_(context), region_(region), options_(options), host_(host) {}
  Status run(const qr_run_request &request);
  // Of a range: makes the plans of such shapes (the option shape.prepare).
  Status prepare(std::string_view shapes) { return is_range() ? rest_->prepare(shapes) : Status(); }
  void report_plans(qr_plugin_plans *out) const noexcept;
  Status reopen();  // behind a device that was lost and is open again

  // Runs end in the order in which they were submitted. Without a region they go to the device as they come; with one,
  // who waits does them.
  Result<std::uint64_t> submit(const qr_run_request &request);
  Status wait(std::uint64_t ticket);
  const qr_run_request &request_of(std::uint64_t ticket) noexcept;
  // In place of waiting, also while the device is opened again: gives the run up. True where nothing of it was begun.
  bool drop(std::uint64_t ticket);

 private:
  bool is_range() const noexcept { return region_ && region_->is_range; }
  bool wants_plan(std::int64_t) const override { return region_->planned; }
  Result<Unique<dynamic::PlannedRun>> plan(qir::Graph &&graph) override;
  Status run_with_region(const qr_run_request &request);

  const LoadedContext &context_;
  const LoadedRegion *region_;
  RunOptions options_;
  const qr_host &host_;
  Unique<Execution> plan_;  // null: nothing could be planned before the run
  Unique<dynamic::Execution> rest_;
  Vector<qr_io_buffer> plan_inputs_, plan_outputs_, region_inputs_, region_outputs_;
  Vector<Vector<std::uint8_t>>
      between_;  // per output of the plan: what the region alone reads, or what nobody gave room for
  Vector<const qr_run_request *> waiting_;  // by ticket
  std::atomic<std::uint64_t> submitted_ = 0;
};

}  // namespace quarry::gpu
