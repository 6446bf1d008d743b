// SPDX-License-Identifier: Apache-2.0
// What rules of convolutions and of matrix multiplications with constant weights share.
#pragma once

#include "backends/cpu/lower/lowering.h"
#include "graph/infer/infer.h"
#include "kernels/cpu/pack/pack.h"

namespace quarry::cpu {

// What rules take of a dimension, and of channels.
inline constexpr std::int64_t kMostExtent = 1 << 24, kMostChannels = 1 << 20;

// convolution.cpp: what a convolution's geometry says, as kernels take it; false where something exceeds what they
// take.
bool conv_window(const qir::ConvGeometry &geometry, kernels::Window *out);
// One number a channel: constants; or a tensor that is known at run time, times `scale`, and constants that are added.
struct Bias {
  Vector<float> values;
  const float *stored = nullptr;  // instead of those: `channels` of them, as a tensor has them
  std::int32_t tensor = qir::kAbsent;
  float scale = 1;
  // Groups of `each` channels, of which each comes `times` times.
  std::int64_t channels = 0, each = 1, times = 1;
  std::span<const float> constants() const noexcept {
    return stored ? std::span(stored, static_cast<std::size_t>(channels)) : std::span<const float>(values);
  }
  bool empty() const noexcept { return constants().empty() && tensor == qir::kAbsent; }
};
// The bias per channel, times `scale`, plus what an Add behind it brings. False: not one value per channel.
bool bias_of(const Lowering &l, const Group &group, std::int64_t channels, float scale, std::int32_t bias, Bias *out);
// As an operand of `bytes`: what lies behind the channels is read, and counts for nothing.
Status bias_operand(Lowering &l, const Bias &bias, std::uint64_t bytes, View *out);

// Weights that steps read packed: w[oc][ic / groups][kh][kw] by the strides of `at`. Constants lie at at.data; others
// in a value of the plan, and are packed in the run.
struct FilterSource {
  kernels::FilterView<float> at{};
  std::int64_t count = 0;  // of the constants
  View view;               // kNoValue: constants
  bool constant() const noexcept { return view.value == kNoValue; }
};
// The weights of a node, of the shape [oc][ic / groups][spatial axes, at most two].
FilterSource filter_of(Lowering &l, std::int32_t weights);
// How the weights of a matrix multiplication are stored, and by what they are multiplied.
void choose_numbers(const Lowering &l, kernels::ConvF32 *p, const float *values, std::int64_t count);
// The step of packed weights, as `p` says.
Status emit_gemm(Lowering &l, const kernels::ConvF32 &p, const View &x, const FilterSource &filter, const Bias &bias,
                 const View &y, const View *r = nullptr);
// A convolution by the quickest algorithm for it.
Status emit_conv(Lowering &l, kernels::ConvF32 p, const View &x, const FilterSource &filter, const Bias &bias,
                 const View &y, const View *r = nullptr);
Status emit_depthwise(Lowering &l, const kernels::DepthwiseF32 &p, const View &x, const FilterSource &filter,
                      const Bias &bias, const View &y, const View *r = nullptr);
// The same weights for several, a step each.
struct Images {
  const View &x, &y;
  const View *r;  // or nullptr
};
Status emit_depthwise(Lowering &l, const kernels::DepthwiseF32 &p, std::span<const Images> images,
                      const FilterSource &filter, const Bias &bias);

// convolution_transpose.cpp: of a transposed convolution of f32; false: it is none, or exceeds what kernels take.
Result<bool> conv_transpose_geometry(const Lowering &l, const Group &group, qir::ConvGeometry *out);

// convolution_planar.cpp: whether planes come in and planes leave the graph.
bool stays_planar(const Lowering &l, std::int32_t x, std::int32_t y);
// An image with each of its channels `times` times, channels-last.
View repeated_channels(Lowering &l, std::int32_t id, std::int64_t times);

}  // namespace quarry::cpu
