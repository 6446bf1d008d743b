// SPDX-License-Identifier: Apache-2.0
// Graph to graph, before lowering: what the kernels have a better form of. The result means what the graph meant, up to
// the rounding of f32.
#pragma once

#include "formats/qir/graph_edit.h"

namespace quarry::cpu {

// f16 and bf16 widened as cpu-reference does it; quantised operators without a way in integers taken apart (dequantise,
// compute, quantise); constant
// parts computed; Einsum of two tensors as MatMul; Gelu, Swish, HardSwish, LayerNormalization, RMSNormalization found
// in the pieces that exporters make of them. New constants lie in `owned`.
Status rewrite(qir::Graph &graph, Vector<Vector<std::uint8_t>> &owned);

// What rewriters add to a graph.
struct Additions {
  qir::Graph &graph;
  Vector<Vector<std::uint8_t>> &owned;  // contents of constants

  std::int32_t tensor(std::string_view name, DType dtype, const qir::Shape &shape) const;
  std::int32_t constant(std::string_view name, DType dtype, const qir::Shape &shape,
                        Vector<std::uint8_t> contents) const;
};

// Einsum of two f32 tensors, where each label is a batch, a row, a column or summed over, becomes MatMul between
// Transpose and Reshape. In rewrite_einsum.cpp.
Status einsum_to_matmul(const Additions &additions);

}  // namespace quarry::cpu
