// SPDX-License-Identifier: Apache-2.0
// What quantise and dequantise nodes say, for the passes.
#pragma once

#include <cstring>
#include <optional>
#include <utility>

#include "formats/qir/graph.h"

namespace quarry::prepare {

// The operator gives values of its data inputs, unchanged: it works on stored integers as on the real values.
bool moves_values(qir::Op op);
bool is_moved_input(qir::Op op, std::size_t input);
std::size_t moved_inputs(const qir::Node &node);

// The parameters of QuantizeLinear or DequantizeLinear where they are constant and fit a type; nothing otherwise.
std::optional<qir::Quantization> read_quantization(const qir::Graph &graph, const qir::Node &node);

// Smallest and largest value of an integer type of at most 32 bits.
std::pair<std::int64_t, std::int64_t> integer_range(DType dtype);

}  // namespace quarry::prepare
