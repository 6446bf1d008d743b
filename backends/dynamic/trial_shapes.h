// SPDX-License-Identifier: Apache-2.0
// Shapes of a range by which a compiler learns what the range is like: which nodes a plan has, and what it takes.
#pragma once

#include "graph/graph.h"
#include "graph/store.h"

namespace quarry::dynamic {

class TrialShapes {
 public:
  // Those of the option shape.prepare; where it is empty, some of which one will fit most models. The graph outlives
  // it.
  static Result<TrialShapes> make(const qir::Graph &graph, std::string_view prepare);
  explicit TrialShapes(const qir::Graph &graph) : graph_(graph) {}

  // Each is wanted; else the first that has a plan is enough.
  bool all() const noexcept { return all_; }
  // Binds the graph to the next one. False: there are no more. `store` gets the constants that are made of shapes.
  Result<bool> next(qir::Graph &bound, qir::Store &store);

 private:
  const qir::Graph &graph_;
  Vector<Vector<std::int64_t>> numbers_;  // one of each dimension
  std::size_t at_ = 0;
  bool all_ = false;
};

}  // namespace quarry::dynamic
