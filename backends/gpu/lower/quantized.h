// SPDX-License-Identifier: Apache-2.0
// Operators on tensors of quantised types (graph/graph.h): which of them work on the stored integers here, and
// how integers become reals and back inside a step. What is not taken so is dequantised before
// (passes::dequantize_nodes).
#pragma once

#include "backends/gpu/lower/lowering.h"

namespace quarry::gpu {

// The node's rule reads and writes stored integers.
bool computes_quantized(const qir::Graph &graph, const qir::Node &node);

// It computes in reals, and its kernel turns stored integers into them as it reads them, and back as it writes.
bool scales_stored(const qir::Graph &graph, const qir::Node &node);

// Conv, ConvTranspose, MatMul, Gemm on integers: multiplied and summed in integers.
bool is_integer_contraction(const Lowering &l, const qir::Node &node);
Status lower_integer_contraction(Lowering &l, const qir::Node &node);

// The real number that a stored integer (register r) means, and back; as cpu-reference rounds it.
std::uint32_t real_of(Lowering &l, FusedExpression &elements, const qir::Tensor &tensor, std::uint32_t r);
std::uint32_t stored_of(Code &code, const qir::Tensor &tensor, std::uint32_t r);
// Of a real number that counts in steps of the scale already.
std::uint32_t stored_steps(Code &code, const qir::Tensor &tensor, std::uint32_t r);

}  // namespace quarry::gpu
