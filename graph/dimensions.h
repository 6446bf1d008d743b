// SPDX-License-Identifier: Apache-2.0
// Symbolic dimensions of a graph's inputs: what a run may give them, and the shapes that follow. Called by the backends
// that take ranges.
#pragma once

#include <span>

#include "graph/graph.h"

namespace quarry::qir {

// One for each of the graph's inputs, whose ranks and known dimensions they have: each dimension is in its range, the
// same wherever it stands, and the sum of its terms. QR-R0003 says which is not.
Status check_dimensions(const Graph &graph, std::span<const Shape> inputs);

// The inputs' shapes for such numbers, one for each dimension; those with terms follow from the others. Nothing where
// one leaves its range, or where an unknown dimension is none of the graph's.
std::optional<Vector<Shape>> bound_shapes(const Graph &graph, Vector<std::int64_t> numbers);

}  // namespace quarry::qir
