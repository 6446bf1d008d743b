// SPDX-License-Identifier: Apache-2.0
// The parameters of an operator, resolved: what auto_pad, negative axes, open slices and scales come to for given
// dimensions. Shape rules and kernels call the same functions, so each is computed in one way. One may be kUnknownDim
// (what depends on them is kUnknownDim then); a kernel, which knows all dimensions, gets all numbers. Nothing here
// allocates unless it says so; errors name the node.
#pragma once

#include <cstdint>
#include <span>

#include "graph/graph.h"

namespace quarry::qir {

using Dims = std::span<const std::int64_t>;
inline constexpr std::size_t kMaxSpatial = kMaxRank - 2;

// "Conv 'conv1': " + printf text, as an error of that node. All errors of rules and kernels about a node are made by
// this.
Status node_error_of(const Node &node, ErrorId id, const char *pattern, ...);
template <class... A>
[[gnu::always_inline]] inline Status node_error(const Node &node, ErrorId id, Pattern<A...> pattern,
                                                const A &...arguments) {
  if constexpr (are_plain<A...>) return node_error_of(node, id, pattern.text(), detail::plain(arguments)...);
  else return call_with([&](auto... plain) { return node_error_of(node, id, pattern.text(), plain...); }, arguments...);
}

// The types that the graph states for the outputs of a node: what infer_node wants to know of a custom operator.
void stated_types(const Graph &graph, const Node &node, Vector<InferType> *out);

// ---- lists of integers --------------------------------------------------------------------------

// A list no longer than two entries per dimension (pads, axes, a shape).
struct IntList {
  std::int64_t values[2 * kMaxRank] = {};
  std::uint32_t size = 0;
  std::int64_t operator[](std::size_t i) const noexcept { return values[i]; }
  operator Dims() const noexcept { return {values, size}; }
};
// Reads a list tensor (i32 or i64). False: another type, or more entries than a list holds.
bool read_ints(DType dtype, const void *data, std::int64_t count, IntList *out) noexcept;
// The entries of an input whose value is known; not ok() where it is no list that fits. Check `value.data` first.
Status read_ints(const Node &node, std::size_t input, const InferValue &value, IntList *out);

// ---- axes ---------------------------------------------------------------------------------------

// -1 is the last axis; refuses what is outside [-rank, rank).
Status resolve_axis(const Node &node, std::int64_t axis, std::size_t rank, std::size_t *out);
// Normalised, in the given order; refuses duplicates.
Status resolve_axes(const Node &node, Dims axes, std::size_t rank, IntList *out);
// For Reduce*: which axes go. `axes` empty (or input absent): all, or none with noop_with_empty_axes.
Status resolve_reduce(const Node &node, Dims axes, std::size_t rank, bool (*reduced)[kMaxRank]);

// ---- elementwise --------------------------------------------------------------------------------

// ONNX (numpy) broadcasting of two shapes. 1 against unknown is unknown; n > 1 against unknown is n.
Status resolve_broadcast(const Node &node, Dims a, Dims b, IntList *out);

// ---- windows: convolutions and pools ------------------------------------------------------------

struct Window {
  std::uint32_t rank = 0;  // of the space: 2 for images
  std::int64_t in[kMaxSpatial] = {};
  std::int64_t kernel[kMaxSpatial] = {};
  std::int64_t stride[kMaxSpatial] = {};
  std::int64_t dilation[kMaxSpatial] = {};
  std::int64_t pad_begin[kMaxSpatial] = {};
  std::int64_t pad_end[kMaxSpatial] = {};
  std::int64_t out[kMaxSpatial] = {};
};
struct ConvGeometry : Window {
  std::int64_t batch = 0, group = 1;
  std::int64_t in_channels = 0, out_channels = 0;
  std::int64_t in_per_group = 0, out_per_group = 0;
};
// Conv, ConvInteger, QLinearConv, DeformConv: x [N,C,...], w [M,C/group,...].
Status resolve_conv(const Node &node, Dims x, Dims w, ConvGeometry *out);
// x [N,C,...], w [C,M/group,...]; pads as ONNX gives them for the forward convolution, with output_shape and auto_pad
// worked in.
Status resolve_conv_transpose(const Node &node, Dims x, Dims w, ConvGeometry *out);
// AveragePool, MaxPool, LpPool, with ceil_mode (a window that would start in the end padding is dropped).
Status resolve_pool(const Node &node, Dims x, Window *out);
// MaxUnpool: `out` of the window is the unpooled dimension without output_shape.
Status resolve_unpool(const Node &node, Dims x, Window *out);
// Col2Im: `in` is the image, `out` the number of block positions per axis.
Status resolve_col2im(const Node &node, Dims x, Dims image, Dims block, Window *out);

// ---- movement -----------------------------------------------------------------------------------

// The target of Reshape with 0 and -1 worked out (allowzero from the node).
Status resolve_reshape(const Node &node, Dims data, Dims shape, IntList *out);

// Per axis of data: the first index, the step (never 0) and the number of elements.
struct SliceGeometry {
  std::uint32_t rank = 0;
  std::int64_t start[kMaxRank] = {};
  std::int64_t step[kMaxRank] = {};
  std::int64_t extent[kMaxRank] = {};
};
// `axes` and `steps` empty: the default (absent input).
Status resolve_slice(const Node &node, Dims data, Dims starts, Dims ends, Dims axes, Dims steps, SliceGeometry *out);

// Per axis: entries before, entries after (negative ones crop) and the resulting dimension.
struct PadGeometry {
  std::uint32_t rank = 0;
  std::int64_t begin[kMaxRank] = {};
  std::int64_t end[kMaxRank] = {};
  std::int64_t extent[kMaxRank] = {};
};
// `has_axes` false: the input is absent, pads cover every axis.
Status resolve_pad(const Node &node, Dims data, Dims pads, bool has_axes, Dims axes, PadGeometry *out);

// The sizes of the parts. `sizes` empty: equal parts (num_outputs or the number of outputs). Allocates the list.
Status resolve_split(const Node &node, std::int64_t extent, Dims sizes, Vector<std::int64_t> *out);

// CenterCropPad, per axis: where the copied middle starts in the input and in the output, and how long it is.
struct CropPadGeometry {
  std::uint32_t rank = 0;
  std::int64_t in_start[kMaxRank] = {};
  std::int64_t out_start[kMaxRank] = {};
  std::int64_t length[kMaxRank] = {};
  std::int64_t extent[kMaxRank] = {};  // of the output
};
Status resolve_center_crop_pad(const Node &node, Dims data, Dims shape, CropPadGeometry *out);

// ---- resize -------------------------------------------------------------------------------------

struct ResizeGeometry {
  std::uint32_t rank = 0;
  std::int64_t extent[kMaxRank] = {};  // of the output
  double scale[kMaxRank] = {};  // as coordinates use it: the given scale, or the one that sizes and policy come to
  // Entry i of roi's first half (starts) belongs to axis axes[i]; its second half (ends) begins at axes.size.
  IntList axes;
};
// One of `scales` and `sizes` is empty.
Status resolve_resize(const Node &node, Dims x, std::span<const float> scales, Dims sizes, ResizeGeometry *out);

// ---- products -----------------------------------------------------------------------------------

// Y[batch, m, n] = sum over k. Batch dimensions are aligned to the right; an operand's is 1 where it is broadcast.
// A rank-1 operand has its row (a) or column (b) put in, and the output lacks it (a_vector, b_vector).
struct MatMulGeometry {
  std::int64_t m = 0, n = 0, k = 0;
  bool a_vector = false, b_vector = false;
  std::uint32_t batch_rank = 0;
  std::int64_t batch[kMaxRank] = {}, a_batch[kMaxRank] = {}, b_batch[kMaxRank] = {};
};
Status resolve_matmul(const Node &node, Dims a, Dims b, MatMulGeometry *out);
// com.microsoft FusedMatMul with transA/B and transBatchA/B (the first batch axis of the operand is moved before the
// last axis).
Status resolve_fused_matmul(const Node &node, Dims a, Dims b, MatMulGeometry *out);

// Every index of the equation is a label; the same label twice in one input is the diagonal. Ellipsis dimensions are
// labels of their own.
struct EinsumPlan {
  static constexpr std::size_t kMaxLabels = 52 + kMaxRank;
  struct Operand {
    std::uint32_t rank = 0;
    std::uint8_t label[kMaxRank] = {};
    bool broadcast[kMaxRank] = {};  // dimension 1 against a longer label (ellipsis, or as ONNX Runtime does)
  };
  std::uint32_t label_count = 0;
  std::int64_t extent[kMaxLabels] = {};  // per label
  Vector<Operand> inputs;
  Operand output;  // labels not in it are summed over
};
// Allocates `inputs`.
Status parse_einsum(const Node &node, std::span<const Dims> inputs, EinsumPlan *out);

// ---- sequences ----------------------------------------------------------------------------------

struct RnnGeometry {  // LSTM, GRU, RNN
  std::int64_t sequence = 0, batch = 0, input = 0, hidden = 0, directions = 1;
  bool batch_first =
      false;  // layout 1: X [batch, seq, input], Y [batch, seq, directions, hidden], states [batch, directions, hidden]
  bool reverse = false;  // the only direction runs backwards
};
Status resolve_rnn(const Node &node, Dims x, Dims w, Dims r, RnnGeometry *out);

struct AttentionGeometry {
  std::int64_t batch = 0, q_heads = 0, kv_heads = 0, q_length = 0, kv_length = 0, past_length = 0, total_length = 0;
  std::int64_t head_size = 0, v_head_size = 0;
  bool packed = false;  // Q, K, V are [batch, length, heads * size] instead of [batch, heads, length, size]
};
// `past_key` empty: absent.
Status resolve_attention(const Node &node, Dims q, Dims k, Dims v, Dims past_key, AttentionGeometry *out);

// ---- subgraphs ----------------------------------------------------------------------------------

// If, Loop, Scan: gives the inputs of the node's subgraphs the types of what the node passes in and infers the bodies,
// for Loop and Scan until the carried shapes settle (those that change become unknown). infer_graph does it; who calls
// infer_node alone does it before.
// Loops within loops take rounds of rounds: `left` counts the nodes of bodies that may still be looked at, and where
// there are none left that is a failure (limits.h).
Status infer_subgraphs(Node &node, const Vector<InferValue> &inputs, std::uint64_t *left);
Status infer_subgraphs(Node &node, const Vector<InferValue> &inputs);
// As infer_graph, with the types and known values of the graph's inputs given.
Status infer_body(Graph &graph, const Vector<InferValue> &inputs, std::uint64_t *left);

// ---- counts -------------------------------------------------------------------------------------

// Elements of Range(start, limit, delta): max(ceil((limit - start) / delta), 0). False where delta is 0 or the count
// does not fit.
bool range_count(double start, double limit, double delta, std::int64_t *out) noexcept;
bool range_count(std::int64_t start, std::int64_t limit, std::int64_t delta, std::int64_t *out) noexcept;

}  // namespace quarry::qir
