// SPDX-License-Identifier: Apache-2.0
// Which nodes are quantised, and what each of their operands is.
#pragma once

#include <optional>

#include "graph/edit/graph_edit.h"
#include "quantize/settings/settings.h"

namespace quarry::quantize {

enum class Role : std::uint8_t {
  None,        // as it is
  Activation,  // a constant too: it gets the type of activations
  Weights,     // where it is constant; an activation otherwise
  Bias,        // where it is constant: i32 whose scale is that of data times weights; an activation otherwise
};

struct Rule {
  bool moves = false;       // results are among the elements of the moved inputs, or between them: one encoding for all
  std::size_t moved = 1;    // how many inputs, the first ones
  std::optional<Range> of;  // what the function gives whatever it reads
  std::string_view roles;   // one letter an input, see rules.inc; the last one holds for the rest
  Role role(std::size_t input) const noexcept;
};

// Nothing: the node stays in float.
std::optional<Rule> rule_of(const qir::Graph &graph, const qir::Node &node);

// The axis of output channels of weights that may have a scale for each, as QNN has it; nothing: one scale for all.
std::optional<std::size_t> weight_axis(const qir::Node &node, std::size_t rank);

// Weights with a scale for each block of the summed axis: that axis.
std::optional<std::size_t> block_axis(const qir::Node &node, std::size_t rank);

// How many elements the Softmax nodes look at together that alone read a tensor, along its last axis; 0: others read
// it.
std::size_t softmax_row(const qir::Graph &graph, const qir::Uses &uses, std::int32_t id);

// Conv, ConvTranspose, Gemm, MatMul, Einsum: sums of products of an input and weights.
bool is_product(qir::Op op) noexcept;

}  // namespace quarry::quantize
