// SPDX-License-Identifier: Apache-2.0
// What quantisation means, in one place: what an integer type holds, how one value is stored, what Q/DQ nodes say, and
// what operators may do with stored integers. Importers, passes and backends ask here and keep no lists of their own.
// (Arrays are converted by kernels/reference/convert.h, the reference of the conversion, and by the kernels
// that tests hold to it.)
#pragma once

#include <optional>

#include "graph/edit/graph_edit.h"
#include "graph/store.h"

namespace quarry::qir {

// ---- stored integers ----------------------------------------------------------------------------

// What a tensor may have a quantisation of: an integer of at most 32 bits.
bool may_have_quantization(DType dtype) noexcept;

// Smallest and largest value of such a type.
struct IntegerRange {
  std::int64_t low = 0, high = 0;
};
IntegerRange integer_range(DType dtype) noexcept;

// Element `index` of packed data of such a type. The first of several in a byte has the lowest bits.
std::int64_t stored_integer(DType dtype, const void *packed, std::uint64_t index) noexcept;
// The first elements of a constant of a signed type, or an unsigned one of at most 16 bits.
Vector<std::int32_t> stored_integers(const Tensor &constant, std::uint64_t count);

// One value in its stored form, as ONNX's QuantizeLinear has it: round half to even of the f32 quotient, saturated; NaN
// becomes the zero point.
std::int64_t quantized_value(float real, float scale, std::int32_t zero_point, DType dtype) noexcept;

// ---- Q/DQ nodes ---------------------------------------------------------------------------------

// The parameters of a QuantizeLinear or DequantizeLinear between f32 and an integer, where they are constant and fit a
// tensor's type; nothing otherwise.
std::optional<Quantization> read_quantization(const Graph &graph, const Node &node);

// The reverse: gives the node scale and zero point (inputs 1 and 2, new constants in the store) and attributes that say
// what the type of `quantized` does.
void give_quantization(Graph &graph, Store &store, Names &names, Node &node, const Tensor &quantized);

// QuantizeLinear(DequantizeLinear(x)) is x to the bit, for all that x may hold: `from` is the type before, `to` the one
// behind.
bool quantize_undoes_dequantize(const Tensor &from, const Tensor &to) noexcept;

// Both tensors have one quantisation per tensor, and it is the same: integers mean the same on both sides.
bool same_quantization(const Tensor &a, const Tensor &b) noexcept;

// ---- operators ----------------------------------------------------------------------------------

// Results are among the elements of the data inputs, whatever these mean: it works on stored integers as on the real
// values. All attributes that decide so are looked at (a Dropout that trains does not only move; nor does a Pad that
// writes a constant).
bool moves_values(const Graph &graph, const Node &node);
// The same for real values alone: it may also write the real number 0, whose stored form is the zero point (Pad).
// Quantisation may move across it, but integers without a quantisation do not mean the same before and behind it.
bool moves_real_values(const Graph &graph, const Node &node);
// Inputs whose elements are moved, the first ones: all of a Concat, one otherwise.
bool is_moved_input(Op op, std::size_t input) noexcept;
std::size_t moved_inputs(const Node &node) noexcept;

// Each element of the result is a function of the same element of the first input; further inputs and attributes are
// its parameters (Relu, Clip, Gelu, Exp, ...). On 8 bits it is a table of 256 entries.
bool is_elementwise_function(Op op) noexcept;

// The operator has a meaning on quantised tensors that backends may count on: its first input and output are data, and
// all its data inputs and outputs are real numbers. (dequantise, operator, quantise may become one node.)
bool computes_on_quantized(const Graph &graph, const Node &node);
// An input that stays real all the same, as shapes are made of its numbers: of Resize, scales and what is cut out.
bool decides_shapes(Op op, std::size_t input) noexcept;

// ---- the bias of quantised products --------------------------------------------------------------

// Conv, ConvTranspose, Gemm: input 2 is a bias.
bool takes_bias(Op op) noexcept;
// The axis of the weights that output channels (of one group) lie along; nothing where the operator is no product or
// the weights have no such axis.
std::optional<std::size_t> channel_axis(const Node &node, std::size_t weights_rank) noexcept;

// The input is a bias of i32 without a quantisation of its own, of a product that has quantised operands.
bool is_counted_bias(const Graph &graph, const Node &node, std::size_t input) noexcept;
// Such a bias counts in units of scale(x) * scale(w): of the tensor, or of the output channel. `unit(channel)` is that,
// in f32. Nothing where it has no meaning: x is not quantised per tensor, w by blocks
// or along another axis, or w has a scale per channel and the bias has not one element per channel.
class BiasUnit {
 public:
  static std::optional<BiasUnit> of(const Node &node, const Tensor &x, const Tensor &w, const Tensor &bias);
  float unit(std::size_t channel) const noexcept { return x_scale_ * (*w_scales_)[channel % w_scales_->size()]; }
  bool per_channel() const noexcept { return w_scales_->size() > 1; }

 private:
  BiasUnit(float x_scale, const Vector<float> &w_scales) : x_scale_(x_scale), w_scales_(&w_scales) {}
  float x_scale_;
  const Vector<float> *w_scales_;
};
// The bias is such a one, or one whose own quantisation says the same to the rounding of f32: integer sums of
// products may be added to it.
bool bias_counts_products(const Node &node, const Tensor &x, const Tensor &w, const Tensor &bias);

}  // namespace quarry::qir
