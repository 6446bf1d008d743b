// SPDX-License-Identifier: Apache-2.0
// Packed weights: what the product kernels read, laid out for the vectors of one instruction set. Packing happens when
// a model is compiled, or in the run (PackF32) where the weights are known only then; the sizes are what the check
// functions demand of the operand.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/alloc.h"
#include "kernels/cpu/isa.h"

namespace quarry::kernels {

// Weights of a convolution: w[oc][ic / groups][kh][kw] with any strides, so that a GEMM's matrix of either order can be
// packed without a copy.
template <class T>
struct FilterView {
  const T *data;
  std::int64_t oc_stride, ic_stride, kh_stride, kw_stride;
};

// `destination` has as many bytes as check_ConvF32 says of operand "w", 64-byte aligned; all of them are written.
// Weights that params.weights does not hold are rounded to it.
void pack_conv_f32(const ConvF32 &params, const Isa &isa, FilterView<float> weights, void *destination);
void pack_depthwise_f32(const DepthwiseF32 &params, const Isa &isa, FilterView<float> weights, void *destination);
// The same by parts, which may be packed at the same time: a tap of a panel's chunk, or of a vector of output channels.
// Of ConvF32: Direct or Groups, weights of f32.
std::int64_t conv_pack_parts(const ConvF32 &params, std::uint32_t lanes, std::uint32_t panel);
void pack_conv_parts(const ConvF32 &params, std::uint32_t lanes, std::uint32_t panel, FilterView<float> weights,
                     float *destination, std::int64_t begin, std::int64_t end);
std::int64_t depthwise_pack_parts(const DepthwiseF32 &params, std::uint32_t lanes);
void pack_depthwise_parts(const DepthwiseF32 &params, std::uint32_t lanes, FilterView<float> weights,
                          float *destination, std::int64_t begin, std::int64_t end);
// What packed weights depend on beside the weights and the instruction set, as numbers: where they are the same, so are
// the bytes, whatever else the parameters say.
Vector<std::int64_t> pack_form(const ConvF32 &params, const Isa &isa);
Vector<std::int64_t> pack_form(const DepthwiseF32 &params);
Vector<std::int64_t> pack_form(const RecurrentF32 &params, const Isa &isa);
// Winograd4x4, Winograd2x2 or Direct, whichever serves best: time, and what weights take of memory. The error of the
// first is larger: an output is off by up to about 1e-5 times the largest |w| * |x| sum of the outputs around it
// (Direct: 1e-6), see the kernel tests.
ConvAlgorithm winograd_choice(const ConvF32 &params, const Isa &isa);
// Whether Split is possible, and whether it may be used with these weights (split_shape.h).
bool split_possible(const ConvF32 &params, const Isa &isa);
bool split_holds(const float *values, std::int64_t count);
// Whether y may lie where the residual lies: each of its elements is read before it is written.
bool adds_in_place(const ConvF32 &params, const Isa &isa);
// The first of f16 and bf16 that holds all of `count` values exactly; F32 where neither does.
WeightType shortest_exact(const float *values, std::int64_t count);
// Vectors per channel (bias, multiplier) are padded with zeros to whole panels where a check function says so.
void pack_channels(const float *values, std::int64_t count, void *destination, std::uint64_t bytes);

// `r`: [gate][hidden][hidden], as ONNX has it. Parts: a line of the caches of each row of a block of lanes of the
// state.
void pack_recurrent_f32(const RecurrentF32 &params, const Isa &isa, const float *r, void *destination);
std::int64_t recurrent_pack_parts(const RecurrentF32 &params, std::uint32_t lanes);
void pack_recurrent_parts(const RecurrentF32 &params, std::uint32_t lanes, const float *r, float *destination,
                          std::int64_t begin, std::int64_t end);
// `w`: [gate][hidden][input], `bias`: [gate][hidden], the sum of both, or nullptr. False, and nothing of use packed,
// where a row of weights is not bytes, less a zero point, times a factor.
[[nodiscard]] bool pack_recurrent_bytes(const RecurrentBytes &params, const Isa &isa, const float *w, const float *r,
                                        const float *bias, void *destination);

// Integer weights: i32 values w - zero_w; `bias` (may be nullptr) is in units of scale_x * scale_w, and the input's
// zero point is worked into it here.
// False, and nothing of use packed, where a weight does not fit w_bits (16, depthwise or with 8-bit activations, does
// not hold -32768), or they do not let themselves be paired with gain (IntForm).
[[nodiscard]] bool pack_conv_int(const ConvInt &params, const Isa &isa, FilterView<std::int32_t> weights,
                                 const std::int32_t *bias, void *packed_weights, void *packed_bias);

// Whether `params` may have a form of byte pairs on this instruction set; BytePairs2, then BytePairs1 are quickest
// there if the weights pack so.
bool may_pair_bytes(const ConvInt &params, const Isa &isa);

}  // namespace quarry::kernels
