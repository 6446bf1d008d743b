// SPDX-License-Identifier: Apache-2.0
// Weights of 4 or 8 bits with a scale for each block of what a product sums over. Of the forms that the library takes
// it computes two rightly, both as a convolution with a kernel of 1x1: beside f16, from v69, any scales; beside
// quantised data 4 bits whose scales are small multiples of one for the output channel.
#pragma once

#include "backends/htp/lower/lowering.h"

namespace quarry::htp {

// Of what the constants were made that the host dequantised.
class BlockSources {
 public:
  void add(const void *reals, const qir::Tensor &stored, const qir::Quantization &quant);
  const qir::Tensor *find(const void *reals) const noexcept;

 private:
  struct Source {
    const void *reals;
    qir::Tensor stored;
  };
  Vector<Source> sources_;
};

// A product of quantised tensors that has such weights, in the form for it.
bool multiplies_blocks(const qir::Graph &graph, const qir::Node &node);

// Writes MatMul, Gemm, Conv or MatMulNBits with such weights. False: it has none, or none that the library takes, and
// nothing was written.
bool block_product(Lowering &l, const qir::Node &node);

}  // namespace quarry::htp
