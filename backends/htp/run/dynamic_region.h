// SPDX-License-Identifier: Apache-2.0
// A model's dynamic region (backends/dynamic): the host runs what depends on data-dependent shapes, with the device
// before it. The library compiles for seconds, so nothing of it is planned in the run.
#pragma once

#include "backends/dynamic/dynamic_region.h"
#include "backends/htp/program/blob.h"
#include "passes/shapes/cut.h"

namespace quarry::htp {

class Execution;
class LoadedContext;
class Settings;

// What becomes of a graph that is cut: the dynamic region without its part and graph, which who makes the blob knows.
Result<BlobRegion> write_region(const qir::Graph &whole, const passes::Parts &parts);

struct LoadedRegion : HeapObject {
  dynamic::Pieces pieces;
};
// Of a graph that has one. The blob outlives it.
Result<Unique<LoadedRegion>> load_region(const Blob &blob, const BlobGraph &graph);

class RegionRun final : public HeapObject, private dynamic::Planner {
 public:
  RegionRun(LoadedContext &context, const BlobGraph &graph, const LoadedRegion &region, const Settings &settings);
  ~RegionRun();
  Status run(const qr_run_request &request, const plugin::StopToken &stop);
  Status set_option(std::string_view key, std::string_view value);

 private:
  bool wants_plan(std::int64_t) const override { return false; }
  Result<Unique<dynamic::PlannedRun>> plan(qir::Graph &&) override { return Unique<dynamic::PlannedRun>(); }

  LoadedContext &context_;
  const BlobGraph &graph_;
  Unique<Execution> first_;  // null: nothing is before the dynamic region
  const BlobGraph *first_graph_ = nullptr;
  dynamic::Execution rest_;
  Vector<qr_io_buffer> first_inputs_, first_outputs_, inputs_, outputs_;
  Vector<Vector<std::uint8_t>> between_;  // per output of the first: what nobody gave room for
};

}  // namespace quarry::htp
