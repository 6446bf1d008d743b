// SPDX-License-Identifier: Apache-2.0
// Graph to plan. Nodes are taken in order; each becomes one step, several, none (a view of what is there), or part of
// an earlier group (fusion.h). A tensor may lie in several forms at once (as the convolution wants it, as ONNX states
// it); forms are made when somebody needs them.
#pragma once

#include "backends/cpu/lower/fusion.h"
#include "backends/cpu/lower/node_paths.h"
#include "backends/cpu/program/compiled_plan.h"
#include "backends/cpu/program/view.h"
#include "base/hash_index.h"
#include "graph/edit/graph_edit.h"
#include "graph/infer/infer.h"
#include "graph/ops/resize_coordinates.h"
#include "kernels/cpu/pack/pack.h"

namespace quarry::cpu {

// What a convolution's geometry says, as kernels take it; false where something exceeds what they take.
bool conv_window(const qir::ConvGeometry &geometry, kernels::Window *out);

class Lowering {
 public:
  // All must outlive it. The graph is rewritten already (rewrite.h) and has no unknown extents. `pool` takes the
  // constants of reference subgraphs, `ways` what each node became.
  Lowering(const qir::Graph &graph, Plan &plan, Constants &constants, qir::ConstantPool &pool, NodePathTable &paths,
           const CompileOptions &options);
  Status run();

 private:
  // ---- the graph
  const qir::Tensor &tensor(std::int32_t id) const { return at(graph_, id); }
  std::int32_t input(const qir::Node &node, std::size_t i) const { return node.inputs[i]; }
  bool is_f32(std::int32_t id) const {
    return id != qir::kAbsent && tensor(id).dtype == DType::F32 && !tensor(id).quant;
  }
  bool constant(std::int32_t id) const { return id != qir::kAbsent && tensor(id).is_constant; }
  std::optional<Vector<std::int64_t>> integers(std::int32_t id) const;  // of an i64 or i32 constant
  std::optional<float> scalar(std::int32_t id) const;                   // of an f32 constant of one element

  // ---- values and views
  std::uint32_t new_value(std::uint64_t bytes);
  std::uint32_t borrow_constant(qir::Bytes contents);  // lives as long as the graph
  std::uint32_t own_constant(Vector<std::uint8_t> contents, std::uint64_t align = 64);
  // What `fill(bytes)` writes; nothing is written where one only looks.
  template <class Fill>
  std::uint32_t packed_constant(std::uint64_t bytes, Fill &&fill) {
    if (look_only_) {
      const std::uint32_t value = new_value(bytes);
      plan_.values[value].storage = StorageKind::Constant;
      return value;
    }
    Vector<std::uint8_t> packed(bytes);
    fill(packed);
    return own_constant(std::move(packed));
  }
  View constant_floats(const Vector<float> &values, Dims dims);
  std::uint64_t width(std::int32_t id) const;  // bytes per element; 0 under 8 bits
  View new_dense(const Dims &dims, std::span<const std::size_t> order, std::uint64_t width);
  View new_row_major(const Dims &dims, std::uint64_t width);
  View new_like(const View &like, std::uint64_t width);  // dense, in the same order of memory
  // Forms of tensors.
  const View &any(std::int32_t id);  // the form that is there first
  View row_major(std::int32_t id);   // dense, in ONNX's order
  View dense(std::int32_t id);       // dense in any order
  View channels_last(std::int32_t id, bool dense_pixels = false);
  void define(std::int32_t id, View view);                                            // makes a form known
  void copy(const View &from, const View &to, std::uint64_t width, std::int32_t of);  // `of`: the tensor, for profiles
  View elementwise_output(const Dims &dims, std::span<const std::int32_t> operands, std::uint64_t each);
  View beside(std::int32_t id, const View &like);
  // Where a node's output of rank 3 or 4 goes, channels-last: a slice of a concatenation, or a value of its own.
  View image_output(std::int32_t id);

  kernels::WeightType weight_type(const float *values, std::int64_t count) const;
  // As what a product's weights are stored, and by what they are multiplied.
  void choose_numbers(kernels::ConvF32 *p, const float *values, std::int64_t count) const;

  // ---- steps
  struct Arg {
    const View *view = nullptr;  // or
    std::uint32_t value = 0;
    std::uint64_t width = 4;  // of the view's elements
  };
  Arg arg(const View &view, std::uint64_t width = 4) const { return {&view, 0, width}; }
  Arg arg(std::uint32_t value) const { return {nullptr, value, 1}; }
  Status check(kernels::Kernel kernel, const void *params, kernels::Needs *needs) const;
  Status emit(kernels::Kernel kernel, const void *params, std::span<const Arg> args);
  template <class P, class Args>
  Status emit_step(kernels::Kernel kernel, const P &params, const Args &args) {
    return emit(kernel, &params, std::span<const Arg>(args));
  }
  template <class P>
  Status emit_step(kernels::Kernel kernel, const P &params, std::initializer_list<Arg> args) {
    return emit(kernel, &params, std::span<const Arg>(args.begin(), args.size()));
  }

  // ---- one node or group; ok() and *done where it was lowered, ok() and not *done where another way must be found
  Status lower(std::size_t node);
  Status lower_members(const Group &group);
  // What a kernel's check refuses (an extent beyond its limits) goes again, and is not done.
  Status try_lower(Status (Lowering::*lower)(const Group &, bool *), const Group &group, bool *done);
  Status lower_group(const Group &group, bool *done);
  Status lower_conv(const Group &group, bool *done);
  Status lower_conv_transpose(const Group &group, bool *done);
  Status lower_conv3d(const Group &group, bool *done);
  Status lower_depthwise3d(const Group &group, bool *done);
  bool stays_planar(std::int32_t x, std::int32_t y);
  Status emit_planar_product(const View &w, const View &x, const View &y, std::int64_t images,
                             const Vector<float> &bias, const kernels::Activation &act, const View *r,
                             kernels::Residual residual);
  Status lower_pointwise(const Group &group, bool *done);
  Status lower_apart(const Group &group, const qir::ConvGeometry &geometry, bool *done);  // of ConvTranspose
  View repeated_channels(std::int32_t id, std::int64_t times);
  Status lower_recurrent(const qir::Node &node, bool *done);
  Result<Vector<std::uint32_t>> byte_weights(const qir::Node &node, const kernels::RecurrentF32 &layer,
                                             const qir::RnnGeometry &g, const float *w, const float *r,
                                             const Vector<float> &bias);
  Status emit_gates(const View &x, std::int64_t rows, std::int64_t depth, std::int64_t columns, const float *w,
                    const Vector<float> &bias, View *out);
  Status lower_cumulate(const qir::Node &node, bool *done);
  Status lower_rotary(const qir::Node &node, bool *done);
  Status lower_linear_attention(const qir::Node &node, bool *done);
  Status lower_top_k(const qir::Node &node, bool *done);
  Status lower_gather_elements(const qir::Node &node, bool *done);
  bool scatters(const qir::Node &node) const;
  Status lower_scatter_rows(const qir::Node &node, bool *done);  // ScatterND
  Status lower_scatter_elements(const qir::Node &node, bool *done);
  Status lower_arg_extreme(const qir::Node &node, bool *done);  // ArgMax, ArgMin
  Status lower_group_norm(const qir::Node &node, bool *done);
  Status lower_mean_variance_norm(const qir::Node &node, bool *done);
  Status lower_lp_norm(const qir::Node &node, bool *done);
  Status lower_matmul_blocks(const qir::Node &node, bool *done);
  Status lower_block(const Group &group, bool *done);  // an inverted residual block
  Status lower_gemm(const Group &group, bool *done);   // Gemm, MatMul
  Status lower_batched_matmul(const Group &group, bool *done);
  Status lower_matmul_wide(const Group &group, bool *done);    // of f64 and of integers
  Status lower_matmul_int(const qir::Node &node, bool *done);  // MatMulInteger of the run
  Status lower_attention(const Group &group, bool *done);
  Status lower_binary(const Group &group, bool *done);
  Status lower_unary(const Group &group, bool *done);
  Status lower_unary_f64(const qir::Node &node, bool *done);
  Status lower_elements(const qir::Node &node, bool *done);
  Status lower_variadic(const qir::Node &node, bool *done);
  Status lower_clip(const qir::Node &node, bool *done);
  Result<bool> emit_elements(kernels::Elements params, std::span<const View *const> operands, const View &y);
  Status emit_scaled(const View &x, const View &scale, const View &offset, const View &y);
  Status lower_layer_norm(const Group &group, bool *done);
  Status lower_batch_norm(const qir::Node &node, bool *done);
  Status lower_softmax(const qir::Node &node, bool *done);
  Status lower_reduce(const Group &group, bool *done);
  Status lower_pool(const qir::Node &node, bool *done);
  Status lower_resize(const qir::Node &node, bool *done);
  bool crop_axes(const qir::Node &node, const qir::ResizeGeometry &geometry, qir::ResizeAxis *axes) const;
  Status lower_col2im(const qir::Node &node, bool *done);
  Status lower_random(const qir::Node &node, bool *done);
  Status lower_tile(const qir::Node &node, bool *done);
  Status lower_roi_align(const qir::Node &node, bool *done);
  Status lower_grid_sample(const qir::Node &node, bool *done);
  Status lower_movement(const qir::Node &node, bool *done);  // views, Concat, Gather, Pad, Cast
  Status lower_concat(const qir::Node &node, bool *done);
  Status lower_eye_like(const qir::Node &node, bool *done);
  Status lower_einsum(const qir::Node &node, bool *done);  // of one operand: diagonals, other orders
  Status lower_gather(const qir::Node &node, bool *done);
  Status lower_cast(const qir::Node &node, bool *done);
  Status lower_int(const Group &group, bool *done);  // quantised
  Status lower_conv_int(const Group &group, bool *done);
  Status pack_sums(kernels::ConvInt &params, const kernels::FilterView<std::int32_t> &weights,
                   const Vector<std::int32_t> &bias, const Vector<float> &multiplier, Vector<std::uint8_t> *packed,
                   Vector<std::uint8_t> *packed_bias, Vector<std::uint8_t> *factors) const;
  Status lower_integer_sums(const qir::Node &node, bool *done);  // MatMulInteger, ConvInteger
  Status lower_dynamic_quantize(const qir::Node &node, bool *done);
  Status lower_quantize(const qir::Node &node, bool *done);
  Status lower_quantize_rows(const qir::Node &node, bool *done);
  bool requantizable(std::int32_t from, std::int32_t to) const;  // both per tensor, of 8 or 16 bits
  Status requantized(std::int32_t from, std::int32_t to,
                     View *out);  // the elements of one in the quantisation of the other
  bool pool_window(const qir::Node &node, kernels::Window *window, std::int32_t *pad_bottom, std::int32_t *pad_right,
                   kernels::PoolOp *op) const;
  Status lower_reference(const qir::Node &node);  // the last resort
  // Tells `paths_` and profiles of steps made since there were `before`.
  void tell(const Group &group, std::size_t before);
  std::uint32_t shapes_of(const Group &group);  // offset into names

  template <class P, class Pack>
  Status emit_packed(kernels::Kernel kernel, const P &params, const View &x, const Vector<float> &bias, const View *r,
                     const View &y, Pack &&pack);
  // A convolution by the quickest algorithm for it; `weights`: how many the filter has.
  Status emit_conv(kernels::ConvF32 params, const View &x, const kernels::FilterView<float> &filter,
                   std::int64_t weights, const Vector<float> &bias, const View &y, const View *r = nullptr);
  Status emit_depthwise(const kernels::DepthwiseF32 &params, const View &x, const kernels::FilterView<float> &filter,
                        const Vector<float> &bias, const View &y, const View *r = nullptr);
  // Appends packed weights and bias of one product to a step's operands.
  template <class P, class Pack>
  Status add_packed(kernels::Kernel kernel, const P &params, const Vector<float> &bias, Pack &&pack, Vector<Arg> *args);
  struct ConvParts;  // lower_product.cpp
  Result<bool> conv_parts(const Group &group, ConvParts *out) const;
  Status lower_depthwise_planes(const Group &group, const ConvParts &parts, bool *done);
  bool bias_of(const Group &group, std::int64_t channels, float scale, std::int32_t bias, Vector<float> *out) const;

  std::uint32_t name_of(std::string_view text);

  const qir::Graph &graph_;
  Plan &plan_;
  Constants &constants_;
  qir::Uses uses_;
  Fusion fusion_;
  struct Slot {  // a tensor that lies in a slice of a concatenation
    std::int32_t concat = qir::kAbsent;
    std::int64_t channel = 0;
  };
  Vector<Slot> slots_;
  void find_slots();
  Vector<Vector<View>> forms_;    // per tensor
  Vector<std::int32_t> defined_;  // whose they are, in the order in which they were made
  Vector<std::uint32_t> met_;     // per tensor: the last list that it was met in
  std::uint32_t asked_ = 0;
  HashIndex names_;                     // places in plan_.names
  const qir::Node *current_ = nullptr;  // whose steps are being made
  Status failed_;                       // of a copy
  mutable bool refused_ = false;        // a kernel's check said no
  qir::ConstantPool &pool_;
  NodePathTable &paths_;
  const bool winograd_, look_only_;
  const WeightStorage weights_;
  const F32Products f32_products_;
};

}  // namespace quarry::cpu
