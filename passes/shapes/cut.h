// SPDX-License-Identifier: Apache-2.0
// A graph cut in two where its shapes stop being known, and the shapes of a run put in when it has them. Called by the
// backends when they compile, and by backends/dynamic and backends/htp for the dynamic region.
#pragma once

#include <span>

#include "graph/edit/graph_edit.h"
#include "graph/store.h"

namespace quarry::passes {

bool known(const qir::Shape &shape) noexcept;

// A part of a graph as a graph of its own. Nodes keep their sources.
struct Part {
  qir::Graph graph;
  Vector<std::int32_t> inputs;     // per input: its tensor in the graph that was cut
  Vector<std::int32_t> outputs;    // per output likewise
  Vector<std::int32_t> positions;  // per output: which output of the graph that was cut, or kAbsent: the other part's
};
struct Parts {
  Part first, second;
};
// `in_first` says per node which part it goes to; no node of the first may read what the second makes. The first
// gives the outputs of the graph that it makes, and those that no node makes (inputs and constants) whose shapes are
// known; then what the second reads of it. Constants go where they are read.
Parts cut(const qir::Graph &graph, const Vector<bool> &in_first);

// Nodes whose operands have known shapes, and those of all that they depend on: what can be planned now. `is_late` (may
// be nullptr) names nodes that cannot, whatever their shapes.
Vector<bool> plannable(const qir::Graph &graph, bool (*is_late)(const qir::Node &) = nullptr);
// Nodes that read inputs of known shapes and constants alone. Where nothing of a graph can be planned, the shapes of
// the rest follow from what these give.
Vector<bool> telling(const qir::Graph &graph);

// Convolutions, matrix multiplications and what is as heavy: such a graph is worth a plan for every shape.
bool has_contractions(const qir::Graph &graph) noexcept;

// Gives the inputs the shapes of a run, and works out what follows from them: shapes, and constants that are made of
// shapes, which lie in the store.
Status bind_dimensions(qir::Graph &graph, std::span<const qir::Shape> inputs, qir::Folder &folder, qir::Store &store);

}  // namespace quarry::passes
