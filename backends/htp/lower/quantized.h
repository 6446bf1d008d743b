// SPDX-License-Identifier: Apache-2.0
// Which operators stay on quantised tensors. Others are decomposed before lowering: dequantised, computed in f16, and
// quantised again, which on a result of 8 bits is right within a step.
#pragma once

#include "backends/htp/lower/block_weights.h"
#include "graph/store.h"

namespace quarry::htp {

bool computes_quantized(const qir::Graph &graph, const qir::Node &node);

// The library has no scales along an axis but of weights: what a QuantizeLinear makes of those, and DequantizeLinear
// alone read, are plain integers, which these two are then expanded for.
void forget_axis_quantization(qir::Graph &graph);

// What the library wants of quantised graphs: it moves integers as they are, so a node that moves values between two
// quantisations is followed by an Identity that converts them; and comparisons and ArgMax read the stored integers,
// which in f16 would be equal where they are not.
void adapt_quantized(qir::Graph &graph);

// Computes DequantizeLinear of constants; what had scales for blocks is remembered.
class ConstantDequantizer final : public qir::Folder {
 public:
  explicit ConstantDequantizer(BlockSources &blocks) : blocks_(blocks) {}
  bool fold(const qir::Graph &graph, const qir::Node &node, qir::Store &store, Vector<qir::Constant> *outputs) override;

 private:
  BlockSources &blocks_;
};

}  // namespace quarry::htp
