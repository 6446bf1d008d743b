// SPDX-License-Identifier: Apache-2.0
// Weights of 8 bits whose distances from their zero point need a ninth. The library computes on distances of 8 bits: in
// an output channel where one needs more it divides all by two, up to 11 steps of a result in MobileNetV2. What is
// beyond goes into rows of their own, for a copy of the input channels that need them; the sums are the same integers.
#pragma once

#include "backends/htp/lower/lowering.h"

namespace quarry::htp {

// Whether quantised constant weights [O, ...] have such distances.
bool passes_byte(const qir::Tensor &weights);

struct ProductOperands {
  std::int32_t x, weights;  // drafted: [N, H, W, I] and [h, w, I, O]
};
// The operands of the Conv2d that gives what the one with `given` should.
ProductOperands within_bytes(Lowering &l, const qir::Node &node, ProductOperands given);

}  // namespace quarry::htp
