// SPDX-License-Identifier: Apache-2.0
// A graph cut in two where its shapes stop being known, and the shapes of a run put in when it has them.
#pragma once

#include <span>

#include "graph/edit/graph_edit.h"
#include "graph/store.h"

namespace quarry::passes {

bool known(const qir::Shape &shape) noexcept;

// A part of a graph as a graph of its own. Nodes keep their sources.
struct Part {
  qir::Graph graph;
  Vector<std::int32_t> inputs;   // per input: its tensor in the graph that was cut
  Vector<std::int32_t> outputs;  // per output likewise
  Vector<std::int32_t> places;   // per output: which output of the graph that was cut, or kAbsent: the other part's
};
struct Parts {
  Part first, second;
};
// `in_first` says per node which part it goes to; no node of the first may read what the second makes. The first
// gives the outputs of the graph that it makes, and those that nobody makes and that are `known`; then what the second
// reads of it. Constants go where they are read.
Parts cut(const qir::Graph &graph, const Vector<bool> &in_first);

// Nodes whose operands have known shapes, and those of all that they depend on: what can be planned now. `is_late` (may
// be nullptr) names nodes that cannot, whatever their shapes.
Vector<bool> plannable(const qir::Graph &graph, bool (*is_late)(const qir::Node &) = nullptr);
// Nodes that read inputs of known shapes and constants alone. Of a graph that nothing of can be planned these are the
// ones that give its shapes, where no input has to.
Vector<bool> telling(const qir::Graph &graph);

// Products and what is as heavy: such a graph is worth a plan for every shape.
bool has_products(const qir::Graph &graph) noexcept;

// Gives the inputs the shapes of a run, and works out what follows from them: shapes, and constants that are made of
// shapes, which lie in the store.
Status bind_extents(qir::Graph &graph, std::span<const qir::Shape> inputs, qir::Folder &folder, qir::Store &store);

}  // namespace quarry::passes
