// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/compile/ranged.h"

#include <algorithm>

#include "backends/cpu/compile/compile.h"
#include "backends/dynamic/trial_shapes.h"
#include "base/stop.h"

namespace quarry::cpu {

namespace {

// What is taken of it are names and figures; its weights are the pool's.
void take_figures(CompiledPlan &&made, CompiledPlan &out) {
  out.plan.names = std::move(made.plan.names), out.plan.paths = std::move(made.plan.paths);
  out.range_arena_bytes = std::max(out.range_arena_bytes, made.plan.arena_bytes);
  out.range_scratch_bytes = std::max(out.range_scratch_bytes, made.plan.scratch_bytes + made.plan.shared_bytes);
  out.refusals_with_trace += made.refusals_with_trace;
}

void pack(const SharedWeights &weights, CompiledPlan &out) {
  const Vector<SharedWeights::Entry> entries = weights.entries();
  std::uint64_t size = 0;
  for (const SharedWeights::Entry &entry : entries) {
    out.range_weights.push_back({entry.key, size, entry.block->bytes().size});
    size += (entry.block->bytes().size + kAlign - 1) / kAlign * kAlign;
  }
  out.packed.resize(size);
  for (std::size_t i = 0; i < entries.size() && !stop_asked(); ++i)
    if (const qir::Bytes bytes = entries[i].block->bytes(); bytes.size > 0)
      std::memcpy(out.packed.data() + out.range_weights[i].offset, bytes.data, bytes.size);
}

}  // namespace

Result<bool> plan_ahead(const qir::Graph &graph, std::span<const qir::Bytes> segments, const CompileOptions &options,
                        CompiledPlan &out) {
  QR_ASSIGN_OR_RETURN(dynamic::TrialShapes trials, dynamic::TrialShapes::make(graph, options.prepare));
  SharedWeights weights(segments);
  CompileOptions inner = options;
  inner.shared = &weights;
  inner.sources = std::max(graph.nodes.size(), options.sources);
  bool planned = false;
  while (trials.all() || !planned) {
    qir::Graph bound;
    qir::Store store;
    QR_ASSIGN_OR_RETURN(const bool more, trials.next(bound, store));
    if (!more) break;
    Result<CompiledPlan> made = compile(std::move(bound), segments, inner);
    QR_RETURN_IF_ERROR(stop_status("compile"));
    if (made.ok()) {
      take_figures(std::move(*made), out);
      planned = true;
    } else if (trials.all()) {
      return made.take_status();
    }
  }
  if (!options.dry_run) pack(weights, out);
  return planned;
}

}  // namespace quarry::cpu
