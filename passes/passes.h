// SPDX-License-Identifier: Apache-2.0
// Graph to graph, for whoever asks: libquarry-prepare and backends. A pass keeps what the graph computes on
// cpu-reference, to the bit where it says nothing else, and the result is valid where the graph was. Constants that a
// pass makes lie in the store. One that was stopped (base/stop.h) leaves a graph that is half done. compose.h is the
// pass that makes composite operators of their pieces.
#pragma once

#include "graph/edit/graph_edit.h"
#include "graph/store.h"

namespace quarry::passes {

using qir::Store;
using NodeTest = bool (*)(const qir::Graph &graph, const qir::Node &node);

// Nodes that change nothing (Reshape to the same shape, Transpose in order, Cast to the same type, ...) go; and what
// nobody uses: nodes, and tensors. Graph inputs stay. Bodies too.
void remove_no_ops(qir::Graph &graph);
void remove_unused(qir::Graph &graph);

// Conv, ConvTranspose and Gemm take over the BatchNormalization behind them: f32, constant parameters, no other user.
// Rounding differs. Bodies too.
void fold_batch_normalization(qir::Graph &graph, Store &store);

// Computes nodes whose inputs are constant. A node that gives more than four times the bytes that it reads, and more
// than 1 MB, stays unless `may_grow`.
struct FoldLimits {
  bool (*wanted)(qir::Op op) = nullptr;  // nullptr: every operator
  bool may_grow = false;
  bool outputs = false;  // outputs of the graph too, and what QuantizeLinear gives
  bool random = false;   // random numbers too, and nodes without inputs
};
void fold_constants(qir::Graph &graph, Store &store, qir::Folder &folder, const FoldLimits &limits = {});

// DequantizeLinear -> operator -> QuantizeLinear becomes the operator on tensors of quantised types (see
// graph/graph.h). Bodies too.
void put_together_quantized(qir::Graph &graph);

// The reverse, for a backend that has no integer path for a node: an operator on quantised tensors becomes
// DequantizeLinear -> operator -> QuantizeLinear. `keep` says which nodes stay as they are. Nodes whose types no
// QuantizeLinear gives (i32 and wider results) stay too. Rounding differs where an operator's result was quantised
// once and would now be read by another as f32: never, for each result still passes its QuantizeLinear.
void dequantize_nodes(qir::Graph &graph, Store &store, NodeTest keep);

// MatMulInteger or ConvInteger -> Cast to f32 -> Mul becomes DequantizeLinear -> MatMul or Conv -> Mul, with sums that
// float16 has room for. Weights must be constant. Rounding differs.
void scale_integer_products(qir::Graph &graph, Store &store);

// Einsum of two f32 tensors, where each label is a batch, a row, a column or summed over, becomes MatMul between
// Transpose and Reshape. Rounding differs. Shapes must be known.
Status einsum_to_matmul(qir::Graph &graph, Store &store);

// Operators that kernels take with fewer axes or other operands, as such. f32; rounding differs. A node that `stays`
// stays. decompose_spatial: MaxPool and AveragePool of three axes as one of two and one of one, linear Resize along one
// axis, three, or of channels-last images as of images, ConvTranspose of three axes (constant weights) by slices,
// DeformConv of images as GridSample and Conv, Conv of images by weights that are no constant as MatMul.
// decompose_matmul: Gemm of a transposed first operand with a Transpose before it, Einsum of one operand or of more
// than two as sums and Einsum of two; and to the bit MatMulInteger of weights that are no constant as MatMul of at most
// 256 products, and QuantizeLinear by a float16 scale as Div and one of f32.
void decompose_spatial(qir::Graph &graph, Store &store, NodeTest stays = nullptr);
void decompose_matmul(qir::Graph &graph, Store &store, NodeTest stays = nullptr);

// Of f32 images, constant weights: a convolution of what SpaceToDepth, or a Concat of Slices, made of an image of at
// most four channels reads the image itself, by a window as much larger; convolutions of the same tensor by the same
// window with less than 16 channels each become one, and so do depthwise ones behind such, with a Split behind it.
// Rounding differs. `dry_run`: nobody reads the weights, they become zeros. `found` (may be nullptr) gets the nodes
// whose work others do now, by Node::source.
struct Joined {
  std::int32_t source, into;
};
void simplify_convolutions(qir::Graph &graph, Store &store, bool dry_run, Vector<Joined> *found = nullptr);

// Reshape -> Transpose -> Reshape (or other operators that change the shape alone) becomes DepthToSpace or SpaceToDepth
// where it is one, and else the same with as few axes as the movement has. Shapes must be known.
void simplify_movements(qir::Graph &graph, Store &store);

// sum(x) / n becomes ReduceMean, and mean(x * x) - mean(x)^2 the mean of (x - mean(x))^2, for backends whose numbers
// have few digits. f32. Rounding differs, for the better.
void steady_variances(qir::Graph &graph, Store &store);

// LSTM, GRU and RNN of a known length, of at most `most_steps`, become MatMul and operators on elements, a group of
// them for each step: f32, both directions, every attribute but ThresholdedRelu as activation. Rounding differs.
// `keep` says which nodes stay as they are.
void unroll_recurrent(qir::Graph &graph, Store &store, std::int64_t most_steps, NodeTest keep = nullptr);

// If, Loop and Scan become the nodes of their bodies: of If both branches, and Where behind them (one alone where the
// condition is constant); of Loop and Scan the body for each time, where these are known and at most `most_times`. A
// Loop that may end early goes on, and keeps what it had; one that may and collects slices stays, and so does what has
// shapes or types that are not known. With a folder a Loop is also known whose condition follows from constants, and
// its slices have a shape then: infer shapes behind it. What If does not choose is computed too: operators must take
// any numbers.
bool is_control_flow(const qir::Node &node) noexcept;
void unfold_control_flow(qir::Graph &graph, Store &store, std::int64_t most_times, qir::Folder *folder = nullptr);

// Shifts of signed integers, which exporters write with casts to unsigned ones and the sign put back in, become
// BitShift of signed tensors, to the bit.
void join_signed_shifts(qir::Graph &graph, Store &store);

// Operators that a backend lacks as others that are usual: Attention, RotaryEmbedding, SwiGLU, QuickGelu, FusedMatMul,
// TensorScatter, Acos, Acosh, Asin, Asinh, Atanh, Cosh, Hardmax,
// Shrink, Sinh, Tan, ThresholdedRelu, GlobalLpPool, LpPool, TopK of few elements, CastLike, EyeLike, AffineGrid of
// images, Col2Im, ConvTranspose with dilations or an output further than its kernel reaches, MaxPool with dilations or
// indices, ConvInteger and MatMulInteger, QuantizeLinear and DequantizeLinear with a scale of the run or of an axis,
// the remainder of reals, arithmetic on integers of 8 bits, CenterCropPad, CumProd, ReverseSequence,
// NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss, STFT of reals with a constant window, ConstantOfShape, operators
// on bits (of integers that 32 bits hold), MaxRoiPool, RandomNormalLike and RandomUniformLike (as those of a shape).
// `wanted` says which nodes; one that has no other form here stays. Shapes must be known. Rounding differs.
// `has_infinities`: of a backend whose reals have them. What is only moved is not multiplied by zeros and ones there.
void decompose_unsupported(qir::Graph &graph, Store &store, NodeTest wanted, bool has_infinities = false);

// Attention as one of [batch, heads, length, size] that has no past and no bools: Concat puts the past in front of what
// is new, and how many columns there are says where the last query stands. For kernels that take it so. `wanted` says
// which nodes, of whose scores none is shown; their shapes must be known.
void attention_on_heads(qir::Graph &graph, Store &store, NodeTest wanted);

// Nodes that give f16 or bf16 compute in f32, where `wanted` says so: Casts before and behind. False: there is none.
// Results are rounded once.
bool compute_in_f32(qir::Graph &graph, Store &store, NodeTest wanted);

}  // namespace quarry::passes
