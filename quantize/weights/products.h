// SPDX-License-Identifier: Apache-2.0
// Conv, Gemm and MatMul as what they are to their weights: groups of outputs, each a sum of products of the same
// inputs.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "graph/edit/graph_edit.h"

namespace quarry::quantize {

struct Product {
  std::size_t groups = 1, outputs = 1, terms = 1;  // outputs of a group, terms of a sum
  std::size_t output_stride = 1, term_stride = 1;  // in the weights, within a group
  std::size_t group_stride = 0;

  std::size_t weight(std::size_t group, std::size_t output, std::size_t term) const noexcept {
    return group * group_stride + output * output_stride + term * term_stride;
  }
};

// Nothing: the node is none whose weights (input 1, constant f32) can be seen so.
std::optional<Product> product_of(const qir::Graph &graph, const qir::Node &node);

// Gives rows of inputs of sums, `most` at the most for each group, evenly taken from all positions. `values`: of input
// 0, with the shape that the graph states.
void gather_rows(const qir::Graph &graph, const qir::Node &node, const Product &product, std::span<const float> values,
                 std::size_t most, const std::function<void(std::size_t group, std::span<const float> row)> &give);

}  // namespace quarry::quantize
