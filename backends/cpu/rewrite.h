// SPDX-License-Identifier: Apache-2.0
// Graph to graph, before lowering: what the kernels have a better form of. The result means what the graph meant, up to the rounding of f32.
#pragma once

#include "formats/qir/graph_edit.h"

namespace quarry::cpu {

// f16 and bf16 widened as cpu-reference does it; quantised operators without a way in integers taken apart (dequantise, compute, quantise); constant
// parts computed; Gelu, Swish, HardSwish, LayerNormalization, RMSNormalization found in the pieces that exporters make of them. New constants lie in `owned`.
Status rewrite(qir::Graph &graph, Vector<Vector<std::uint8_t>> &owned);

}  // namespace quarry::cpu
