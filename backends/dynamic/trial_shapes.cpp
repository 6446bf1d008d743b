// SPDX-License-Identifier: Apache-2.0
#include "backends/dynamic/trial_shapes.h"

#include <algorithm>

#include "backends/cpu-reference/folder.h"
#include "backends/dynamic/prepared_shapes.h"
#include "base/stop.h"
#include "graph/dimensions.h"
#include "passes/shapes/cut.h"

namespace quarry::dynamic {

namespace {

// One for each dimension: its greatest number where it has an end that plans can be asked for, else about `wanted`.
Vector<std::int64_t> numbers_near(const qir::Graph &graph, std::int64_t wanted) {
  Vector<std::int64_t> numbers;
  for (const qir::Dimension &dimension : graph.dimensions)
    numbers.push_back(std::clamp(wanted, dimension.low, dimension.high));
  return numbers;
}

// Nobody says which are sensible: a width may have to be a multiple of 32, and a sequence no longer than a table of
// positions.
Vector<Vector<std::int64_t>> usual_numbers(const qir::Graph &graph) {
  constexpr std::int64_t kMost = 1 << 16;
  Vector<Vector<std::int64_t>> out;
  if (std::ranges::all_of(graph.dimensions, [](const qir::Dimension &dimension) {
        return dimension.high <= kMost || !dimension.terms.empty();
      }))
    out.push_back(numbers_near(graph, kMost));
  for (const std::int64_t wanted : {256, 64, 32, 16, 8, 1}) out.push_back(numbers_near(graph, wanted));
  return out;
}

}  // namespace

Result<TrialShapes> TrialShapes::make(const qir::Graph &graph, std::string_view prepare) {
  TrialShapes made(graph);
  QR_ASSIGN_OR_RETURN(made.numbers_, prepared_shapes(graph, prepare));
  made.all_ = !made.numbers_.empty();
  if (!made.all_) made.numbers_ = usual_numbers(graph);
  return made;
}

Result<bool> TrialShapes::next(qir::Graph &bound, qir::Store &store) {
  while (at_ < numbers_.size()) {
    QR_RETURN_IF_ERROR(stop_status("compile"));
    const std::optional<Vector<qir::Shape>> shapes = qir::bound_shapes(graph_, numbers_[at_++]);
    if (!shapes) continue;
    reference::ReferenceFolder folder;
    bound = graph_;
    Status status = passes::bind_dimensions(bound, *shapes, folder, store);
    if (status.ok()) return true;
    QR_RETURN_IF_ERROR(stop_status("compile"));
    if (all_) return status;
  }
  return false;
}

}  // namespace quarry::dynamic
