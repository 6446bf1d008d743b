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
// The bias per channel, times `scale`, plus what an Add behind it brings; empty: there is none. False: not one value
// per channel.
bool bias_of(const Lowering &l, const Group &group, std::int64_t channels, float scale, std::int32_t bias,
             Vector<float> *out);
// How the weights of a matrix multiplication are stored, and by what they are multiplied.
void choose_numbers(const Lowering &l, kernels::ConvF32 *p, const float *values, std::int64_t count);
// The step of constant weights, as `p` says.
Status emit_gemm(Lowering &l, const kernels::ConvF32 &p, const View &x, const kernels::FilterView<float> &filter,
                 const Vector<float> &bias, const View &y, const View *r = nullptr);
// A convolution by the quickest algorithm for it; `weights`: how many the filter has.
Status emit_conv(Lowering &l, kernels::ConvF32 p, const View &x, const kernels::FilterView<float> &filter,
                 std::int64_t weights, const Vector<float> &bias, const View &y, const View *r = nullptr);
Status emit_depthwise(Lowering &l, const kernels::DepthwiseF32 &p, const View &x,
                      const kernels::FilterView<float> &filter, const Vector<float> &bias, const View &y,
                      const View *r = nullptr);

// convolution_transpose.cpp: of a transposed convolution of f32 with constant weights; false: it is none, or exceeds
// what kernels take.
Result<bool> conv_transpose_geometry(const Lowering &l, const Group &group, qir::ConvGeometry *out);

// convolution_planar.cpp: whether planes come in and planes leave the graph.
bool stays_planar(const Lowering &l, std::int32_t x, std::int32_t y);
// An image with each of its channels `times` times, channels-last.
View repeated_channels(Lowering &l, std::int32_t id, std::int64_t times);

}  // namespace quarry::cpu
