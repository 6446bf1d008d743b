// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/compile/ranged.h"

#include <algorithm>

#include "backends/cpu-reference/folder.h"
#include "backends/cpu/compile/compile.h"
#include "backends/dynamic/prepared_shapes.h"
#include "base/stop.h"
#include "graph/dimensions.h"
#include "passes/shapes/cut.h"

namespace quarry::cpu {

namespace {

// One for each dimension: its greatest number where it has an end that plans can be asked for, else about `wanted`.
Vector<std::int64_t> numbers_near(const qir::Graph &graph, std::int64_t wanted) {
  Vector<std::int64_t> numbers;
  for (const qir::Dimension &dimension : graph.dimensions)
    numbers.push_back(std::clamp(wanted, dimension.low, dimension.high));
  return numbers;
}

// The shapes to try, the first that has a plan is taken. Nobody says which are sensible: a width may have to be a
// multiple of 32, and a sequence no longer than a table of positions.
Vector<Vector<std::int64_t>> tries(const qir::Graph &graph) {
  constexpr std::int64_t kMost = 1 << 16;
  Vector<Vector<std::int64_t>> out;
  if (std::ranges::all_of(graph.dimensions, [](const qir::Dimension &dimension) {
        return dimension.high <= kMost || !dimension.terms.empty();
      }))
    out.push_back(numbers_near(graph, kMost));
  for (const std::int64_t wanted : {256, 64, 32, 16, 8, 1}) out.push_back(numbers_near(graph, wanted));
  return out;
}

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
  QR_ASSIGN_OR_RETURN(Vector<Vector<std::int64_t>> wanted, dynamic::prepared_shapes(graph, options.prepare));
  const bool is_asked = !wanted.empty();
  if (!is_asked) wanted = tries(graph);
  SharedWeights weights(segments);
  CompileOptions inner = options;
  inner.shared = &weights;
  inner.sources = std::max(graph.nodes.size(), options.sources);
  bool planned = false;
  for (const Vector<std::int64_t> &numbers : wanted) {
    QR_RETURN_IF_ERROR(stop_status("compile"));
    const std::optional<Vector<qir::Shape>> shapes = qir::bound_shapes(graph, numbers);
    if (!shapes) continue;
    qir::Store store;
    reference::ReferenceFolder folder;
    qir::Graph bound = graph;
    Status status = passes::bind_dimensions(bound, *shapes, folder, store);
    if (status.ok()) {
      Result<CompiledPlan> made = compile(std::move(bound), segments, inner);
      if (made.ok()) {
        take_figures(std::move(*made), out);
        planned = true;
        if (is_asked) continue;
        break;
      }
      status = made.take_status();
    }
    QR_RETURN_IF_ERROR(stop_status("compile"));
    if (is_asked) return status;
  }
  if (!options.dry_run) pack(weights, out);
  return planned;
}

}  // namespace quarry::cpu
