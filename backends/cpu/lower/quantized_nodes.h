// SPDX-License-Identifier: Apache-2.0
// Which quantised nodes run in integers.
#pragma once

#include "graph/ops/quantization.h"

namespace quarry::cpu {

bool integer_dtype(DType dtype) noexcept;                       // u8, i8, u16, i16
bool quantized_activation(const qir::Tensor &tensor) noexcept;  // of these, per tensor, not constant
// A function of one 8-bit input; everything else is constant.
bool byte_function(const qir::Graph &graph, const qir::Node &node);
// A rule of quantised tensors (operators.inc) takes the node, or it only moves elements of one quantisation.
bool runs_in_integers(const qir::Graph &graph, const qir::Node &node);
// A MatMulInteger that Lowering::lower_matmul_int takes.
bool integer_matrices(const qir::Graph &graph, const qir::Node &node);

}  // namespace quarry::cpu
