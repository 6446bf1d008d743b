// SPDX-License-Identifier: Apache-2.0
// A part of a graph as a graph of its own, and where a graph that a backend takes in part can be cut.
#pragma once

#include "graph/graph.h"

namespace quarry::qir {

// Names of tensors; views into options or a graph.
struct Part {
  Vector<std::string_view> tail;   // what is behind these: they become inputs
  Vector<std::string_view> head;   // what is in front of these: they become outputs
  Vector<std::string_view> watch;  // further outputs; "*": each tensor that a node makes
  // Weights that adapters change (prepare/low_rank.h), and of what rank at most; take_part knows nothing of them.
  Vector<std::string_view> adapters;
  std::int64_t adapter_rank = 0;
  // Inputs that a session keeps, each followed by its output, and their type (prepare/state_type.h); nor of these.
  Vector<std::string_view> state;
  DType state_type = DType::Unknown;
  bool empty() const noexcept {
    return tail.empty() && head.empty() && watch.empty() && adapters.empty() && state.empty();
  }
};

// Of the model's outputs those stay that do not need what is behind the head, or in front of the tail alone; of its
// inputs those that are still used. Head and tail of one cut together compute what the whole does: a node that both
// need is in both.
Status take_part(Graph &graph, const Part &part);

// Where to cut so that the middle (or a head, or a tail) holds none of the nodes that are marked and as many others as
// can be.
struct CutPoints {
  Vector<std::int32_t> front;  // tensors: what is in front of them is another part; empty: nothing is
  Vector<std::int32_t> back;   // tensors: what is behind them is another part; empty: nothing is
  std::size_t kept = 0;        // nodes between the two; 0: it cannot be cut
};
CutPoints find_cuts(const Graph &graph, const Vector<bool> &refused);

}  // namespace quarry::qir
