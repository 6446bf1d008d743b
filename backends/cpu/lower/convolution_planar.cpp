// SPDX-License-Identifier: Apache-2.0
// Convolutions over planes that stay planes.
#include "backends/cpu/lower/convolution.h"
#include "backends/cpu/lower/rules.h"
#include "kernels/cpu/shapes/matmul_shape.h"

namespace quarry::cpu {

using kernels::Kernel;

bool stays_planar(const Lowering &l, std::int32_t x, std::int32_t y) {
  return l.is_f32(x) && l.is_f32(y) && l.uses().is_output(y) && l.uses().users(y).empty() && l.is_planar(x);
}

namespace {

// weights [m, k] by pixels [k, pixels] of each image, as they lie; y is not defined here.
Status emit_planar_matmul(Lowering &l, const View &w, const View &x, const View &y, std::int64_t images,
                          const Bias &bias, const kernels::Activation &act, const View *r, kernels::Residual residual) {
  kernels::MatMulF32 p;
  p.m = w.dims[0], p.k = w.dims[1], p.n = count_of(x.dims) / (images * p.k);
  constexpr std::size_t kLast = kernels::kBatchRank - 1;
  p.batch[kLast] = images, p.b_batch[kLast] = p.k * p.n, p.y_batch[kLast] = p.m * p.n;
  p.a_row = w.strides[0], p.a_col = w.strides[1], p.b_row = p.y_row = p.n;
  p.act = act;
  p.has_bias = bias.empty() ? 0 : kernels::kBiasPerRow;
  Vector<Arg> args{arg(w), arg(x)};
  View bias_view;
  if (!bias.empty()) {
    QR_RETURN_IF_ERROR(bias_operand(l, bias, static_cast<std::uint64_t>(p.m) * 4, &bias_view));
    args.push_back(arg(bias_view));
  }
  if (r) {
    p.residual = residual;
    args.push_back(arg(*r));
  }
  args.push_back(arg(y));
  return l.emit(Kernel::MatMulF32, &p, args);
}

}  // namespace

// A filter of one tap over planes that stay planes.
Result<Lowered> lower_pointwise(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1];
  if (!stays_planar(l, xi, group.output) || !l.is_f32(wi)) return Lowered::NotMine;
  qir::ConvGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_conv(node, l.tensor(xi).shape, l.tensor(wi).shape, &g));
  if (g.group != 1 || g.out_channels <= kernels::kFewRows) return Lowered::NotMine;
  for (std::size_t i = 0; i < g.rank; ++i)
    if (g.kernel[i] != 1 || g.stride[i] != 1 || g.pad_begin[i] != 0 || g.out[i] != g.in[i]) return Lowered::NotMine;
  Bias bias;
  if (!bias_of(l, group, g.out_channels, 1, l.input(node, 2), &bias)) return Lowered::NotMine;
  const View x = l.row_major(xi), w = *reshaped(l.row_major(wi), {g.out_channels, g.in_channels});
  const View y = l.new_row_major(l.tensor(group.output).shape, 4);
  l.define(group.output, y);
  View r;
  if (group.residual != qir::kAbsent) r = l.row_major(group.residual);
  return done(emit_planar_matmul(l, w, x, y, g.batch, bias, group.act, group.residual == qir::kAbsent ? nullptr : &r,
                                 group.residual_mode));
}

namespace {

// [k][m] as [m][k]: constants are turned beforehand.
View weights_by_row(Lowering &l, std::int32_t id, std::int64_t m, std::int64_t k) {
  const float *const weights = qir::constant_floats(l.graph(), id);
  if (!weights) {
    View view = l.row_major(id);
    view.dims = {m, k}, view.strides = {1, m};
    return view;
  }
  const std::uint64_t bytes = static_cast<std::uint64_t>(m * k) * sizeof(float);
  const std::uint32_t value =
      l.packed_weights(l.weights_key(" turned", {weights, bytes}, {m, k}), bytes, [&](void *to) {
        for (std::int64_t i = 0; i < k; ++i)
          for (std::int64_t j = 0; j < m; ++j) static_cast<float *>(to)[j * k + i] = weights[i * m + j];
      });
  return View{static_cast<std::int32_t>(value), 0, {m, k}, {k, 1}};
}

}  // namespace

// A transposed convolution whose filters meet no other's results, over planes that stay planes: a matrix multiplication
// makes the pixels of all taps, which are then put side by side.
Result<Lowered> lower_conv_transpose_apart(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  const std::int32_t xi = node.inputs[0];
  qir::ConvGeometry g;
  QR_ASSIGN_OR_RETURN(const bool fits, conv_transpose_geometry(l, group, &g));
  if (!fits || g.group != 1 || !stays_planar(l, xi, group.output)) return Lowered::NotMine;
  std::int64_t taps = 1;
  for (std::size_t i = 0; i < g.rank; ++i) {
    if (g.kernel[i] != g.stride[i] || g.dilation[i] != 1 || g.pad_begin[i] != 0 || g.out[i] != g.in[i] * g.stride[i])
      return Lowered::NotMine;
    taps *= g.kernel[i];
  }
  const std::int64_t m = g.out_channels * taps;
  Bias bias;
  if (m <= kernels::kFewRows || !bias_of(l, group, g.out_channels, 1, l.input(node, 2), &bias)) return Lowered::NotMine;
  bias.times = taps;
  const View x = l.row_major(xi), w = weights_by_row(l, node.inputs[1], m, g.in_channels);
  const std::int64_t kh = g.rank == 2 ? g.kernel[0] : 1, kw = g.kernel[g.rank - 1], h = g.rank == 2 ? g.in[0] : 1,
                     columns = g.in[g.rank - 1];
  const View apart = l.new_row_major({g.batch, g.out_channels, kh, kw, h, columns}, 4);
  const View y = l.new_row_major(l.tensor(group.output).shape, 4);
  l.define(group.output, y);
  QR_RETURN_IF_ERROR(emit_planar_matmul(l, w, x, apart, g.batch, bias, group.act, nullptr, kernels::Residual::None));
  constexpr std::int64_t kOrder[] = {0, 1, 4, 2, 5, 3};
  const View from = cpu::transposed(apart, kOrder);
  l.copy(from, View{y.value, y.offset, from.dims, cpu::row_major(from.dims)}, 4, group.output);
  return Lowered::Done;
}

View repeated_channels(Lowering &l, std::int32_t id, std::int64_t times) {
  View from = l.any(id);
  for (const View &form : l.forms(id))
    if (is_row_major(form)) from = form;
  const bool planes = is_row_major(from);
  Dims dims = from.dims;
  dims[1] *= times;
  from.dims.insert(from.dims.begin() + 2, times);
  from.strides.insert(from.strides.begin() + 2, 0);
  // Planes are repeated as such, and then made channels-last as any.
  Vector<std::size_t> order{0};
  if (planes) order.insert(order.end(), {1, 2});
  for (std::size_t d = 3; d < from.rank(); ++d) order.push_back(d);
  if (!planes) order.insert(order.end(), {1, 2});
  const View made = l.new_dense(from.dims, order, 4);
  l.copy(from, made, 4, id);
  View all = *reshaped(made, dims);
  if (!planes) return all;
  const View last = l.new_dense(dims, channels_last_order(dims.size()), 4);
  l.copy(all, last, 4, id);
  return last;
}

}  // namespace quarry::cpu
