// SPDX-License-Identifier: Apache-2.0
// Constants as integers: weights, biases, and constants among activations.
#pragma once

#include "quantize/plan/plan.h"
#include "quantize/report/report.h"

namespace quarry::quantize {

// Weights of `node`: per channel, by blocks or whole, as settings, overrides and the operator's axis say. `type`: where
// no override says another; Unknown: i8 or u8.
void quantize_weights(const qir::Graph &graph, const Settings &settings, const Overrides &overrides,
                      const qir::Node &node, DType type, Constant &constant);
// A bias in units of x_scale * scale of the weights, i32. Weights whose unit is so small that the bias leaves i32 get a
// larger scale and are rounded anew (`weights` may be nullptr: they are no constant). False: there is no such unit.
bool quantize_bias(const qir::Graph &graph, const qir::Node &node, float x_scale, const qir::Quantization &w,
                   Constant &bias, Constant *weights);
// With one scale for all of it.
// `clip`: the range with the least squared error.
void quantize_whole(const qir::Graph &graph, const Overrides &overrides, const Grid &grid, Constant &constant,
                    bool clip = false);
void quantize_as(const qir::Graph &graph, const Encoding &encoding, Constant &constant);

// What a report says of weights: their histogram, and what is lost.
void describe_weights(const Constant &constant, const qir::Tensor &tensor, TensorEntry *entry);

// Stored integers as the packed bytes of a constant.
Vector<std::uint8_t> packed(DType dtype, const Vector<std::int32_t> &stored);

}  // namespace quarry::quantize
