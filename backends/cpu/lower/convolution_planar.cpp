// SPDX-License-Identifier: Apache-2.0
// Convolutions that need no other layout than the one their input has, or whose filters are of one channel each though
// they are not as many as channels.
#include <algorithm>
#include <limits>

#include "backends/cpu/lower/lowering.h"
#include "graph/infer/infer.h"
#include "kernels/cpu/shapes/matmul_shape.h"

namespace quarry::cpu {

using kernels::Kernel;
using qir::Op;

// Whether planes come in and planes leave the graph.
bool Lowering::stays_planar(std::int32_t x, std::int32_t y) {
  if (!is_f32(x) || !is_f32(y) || !uses_.is_output(y) || !uses_.users(y).empty()) return false;
  any(x);
  return std::ranges::all_of(forms_[static_cast<std::size_t>(x)], [](const View &form) { return is_row_major(form); });
}

// weights [m, k] by pixels [k, pixels] of each image, as they lie; y is not defined here.
Status Lowering::emit_planar_product(const View &w, const View &x, const View &y, std::int64_t images,
                                     const Vector<float> &bias, const kernels::Activation &act, const View *r,
                                     kernels::Residual residual) {
  kernels::MatMulF32 p;
  p.m = w.dims[0], p.k = w.dims[1], p.n = count_of(x.dims) / (images * p.k);
  constexpr std::size_t kLast = kernels::kBatchRank - 1;
  p.batch[kLast] = images, p.b_batch[kLast] = p.k * p.n, p.y_batch[kLast] = p.m * p.n;
  p.a_row = p.k, p.b_row = p.y_row = p.n;
  p.act = act;
  p.has_bias = bias.empty() ? 0 : kernels::kBiasPerRow;
  Vector<Arg> args{arg(w), arg(x)};
  View bias_view;
  if (!bias.empty()) {
    bias_view = constant_floats(bias, {p.m});
    args.push_back(arg(bias_view));
  }
  if (r) {
    p.residual = residual;
    args.push_back(arg(*r));
  }
  args.push_back(arg(y));
  return emit(Kernel::MatMulF32, &p, args);
}

// A filter of one tap over planes that stay planes.
Status Lowering::lower_pointwise(const Group &group, bool *done) {
  const qir::Node &node = graph_.nodes[static_cast<std::size_t>(group.root)];
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1];
  if (!stays_planar(xi, group.output) || !is_f32(wi)) return {};
  qir::ConvGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_conv(node, tensor(xi).shape, tensor(wi).shape, &g));
  if (g.group != 1 || g.out_channels <= kernels::kFewRows) return {};
  for (std::size_t i = 0; i < g.rank; ++i)
    if (g.kernel[i] != 1 || g.stride[i] != 1 || g.pad_begin[i] != 0 || g.out[i] != g.in[i]) return {};
  Vector<float> bias;
  if (!bias_of(group, g.out_channels, 1, input(node, 2), &bias)) return {};
  const View x = row_major(xi), w = *reshaped(row_major(wi), {g.out_channels, g.in_channels});
  const View y = new_row_major(tensor(group.output).shape, 4);
  define(group.output, y);
  View r;
  if (group.residual != qir::kAbsent) r = row_major(group.residual);
  *done = true;
  return emit_planar_product(w, x, y, g.batch, bias, group.act, group.residual == qir::kAbsent ? nullptr : &r,
                             group.residual_mode);
}

// A transposed convolution whose filters meet no other's results, over planes that stay planes: a product makes the
// pixels of all taps, which are then put side by side.
Status Lowering::lower_apart(const Group &group, const qir::ConvGeometry &g, bool *done) {
  const qir::Node &node = graph_.nodes[static_cast<std::size_t>(group.root)];
  const std::int32_t xi = node.inputs[0];
  if (g.group != 1 || g.rank > 2 || !stays_planar(xi, group.output)) return {};
  std::int64_t taps = 1;
  for (std::size_t i = 0; i < g.rank; ++i) {
    if (g.kernel[i] != g.stride[i] || g.dilation[i] != 1 || g.pad_begin[i] != 0 || g.out[i] != g.in[i] * g.stride[i])
      return {};
    taps *= g.kernel[i];
  }
  const std::int64_t m = g.out_channels * taps;
  Vector<float> bias, per_row, turned;
  if (m <= kernels::kFewRows || !bias_of(group, g.out_channels, 1, input(node, 2), &bias)) return {};
  for (const float b : bias) per_row.insert(per_row.end(), static_cast<std::size_t>(taps), b);
  turned.assign(static_cast<std::size_t>(m * g.in_channels), 0);
  if (!look_only_) {
    const float *const weights = qir::constant_floats(graph_, node.inputs[1]);
    for (std::int64_t k = 0; k < g.in_channels; ++k)
      for (std::int64_t i = 0; i < m; ++i) turned[static_cast<std::size_t>(i * g.in_channels + k)] = weights[k * m + i];
  }
  const View x = row_major(xi), w = constant_floats(turned, {m, g.in_channels});
  const std::int64_t kh = g.rank == 2 ? g.kernel[0] : 1, kw = g.kernel[g.rank - 1], h = g.rank == 2 ? g.in[0] : 1,
                     columns = g.in[g.rank - 1];
  const View apart = new_row_major({g.batch, g.out_channels, kh, kw, h, columns}, 4);
  const View y = new_row_major(tensor(group.output).shape, 4);
  define(group.output, y);
  *done = true;
  QR_RETURN_IF_ERROR(emit_planar_product(w, x, apart, g.batch, per_row, group.act, nullptr, kernels::Residual::None));
  constexpr std::int64_t kOrder[] = {0, 1, 4, 2, 5, 3};
  const View from = cpu::transposed(apart, kOrder);
  copy(from, View{y.value, y.offset, from.dims, cpu::row_major(from.dims)}, 4, group.output);
  return {};
}

// An image with each of its channels `times` times, channels-last.
View Lowering::repeated_channels(std::int32_t id, std::int64_t times) {
  View from = any(id);
  for (const View &form : forms_[static_cast<std::size_t>(id)])
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
  const View made = new_dense(from.dims, order, 4);
  copy(from, made, 4, id);
  View all = *reshaped(made, dims);
  if (!planes) return all;
  const View last = new_dense(dims, channels_last_order(dims.size()), 4);
  copy(all, last, 4, id);
  return last;
}

// Filters of one channel each over three axes: the slices of the depth one after the other, each added to the sum of
// those before it.
Status Lowering::lower_depthwise3d(const Group &group, bool *done) {
  const qir::Node &node = graph_.nodes[static_cast<std::size_t>(group.root)];
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1];
  const float *const weights = qir::constant_floats(graph_, wi);
  if (!is_f32(xi) || !is_f32(group.output) || !weights || group.residual != qir::kAbsent) return {};
  qir::ConvGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_conv(node, tensor(xi).shape, tensor(wi).shape, &g));
  if (g.rank != 3 || g.group < 2 || g.in_per_group != 1 || g.out_per_group != 1 || g.stride[0] != 1 ||
      g.kernel[0] < 1 || g.pad_begin[0] < 0 || g.group > 1 << 20)
    return {};
  // Activations of more than a bound are not made of sums that grow step by step.
  if (group.act.kind != kernels::Act::None && group.act.kind != kernels::Act::Clip) return {};
  // The slice of a filter that every output sees comes last, and with it what is done to whole sums.
  std::int64_t last = -1;
  const auto shift_of = [&](std::int64_t k) { return k * g.dilation[0] - g.pad_begin[0]; };
  for (std::int64_t k = 0; k < g.kernel[0]; ++k)
    if (shift_of(k) >= 0 && g.out[0] - 1 + shift_of(k) < g.in[0]) last = k;
  if (last < 0) return {};
  qir::ConvGeometry flat = g;
  flat.rank = 2, flat.batch = 1;
  for (std::size_t i = 0; i < 2; ++i) {
    flat.in[i] = g.in[i + 1], flat.out[i] = g.out[i + 1], flat.kernel[i] = g.kernel[i + 1];
    flat.stride[i] = g.stride[i + 1], flat.dilation[i] = g.dilation[i + 1], flat.pad_begin[i] = g.pad_begin[i + 1];
  }
  kernels::DepthwiseF32 p;
  Vector<float> bias;
  if (!conv_window(flat, &p.window) || g.batch > 1 << 12 || !bias_of(group, g.out_channels, 1, input(node, 2), &bias))
    return {};

  constexpr std::size_t kLast[] = {0, 2, 3, 4, 1};
  View x = any(xi);
  for (const View &form : forms_[static_cast<std::size_t>(xi)])
    if (form.strides == dense_strides(form.dims, kLast)) x = form;
  if (x.strides != dense_strides(x.dims, kLast)) {
    const View made = new_dense(x.dims, kLast, 4);
    copy(x, made, 4, xi);
    define(xi, made);
    x = made;
  }
  const View y = new_dense(tensor(group.output).shape, kLast, 4);
  define(group.output, y);
  const std::int64_t in_plane = g.in[1] * g.in[2] * g.group, out_plane = g.out[1] * g.out[2] * g.group,
                     taps = g.kernel[1] * g.kernel[2];
  p.c = p.x_stride = p.y_stride = p.r_stride = static_cast<std::int32_t>(g.group);
  const auto slice = [&](std::int64_t k, std::int64_t begin, std::int64_t end, bool first) -> Status {
    const bool whole = k == last;
    p.residual = first ? kernels::Residual::None : kernels::Residual::BeforeAct;
    p.act = whole ? group.act : kernels::Activation{};
    p.has_bias = whole && !bias.empty();
    p.window.n = static_cast<std::int32_t>(end - begin);
    const kernels::FilterView<float> filter{weights + k * taps, g.kernel[0] * taps, taps, g.kernel[2], 1};
    for (std::int64_t n = 0; n < g.batch; ++n) {
      View from = x, to = y;
      from.offset += (n * g.in[0] + begin + shift_of(k)) * in_plane;
      to.offset += (n * g.out[0] + begin) * out_plane;
      QR_RETURN_IF_ERROR(emit_depthwise(p, from, filter, whole ? bias : Vector<float>{}, to, first ? nullptr : &to));
    }
    return {};
  };
  *done = true;
  const auto inside = [&](std::int64_t k) {
    const std::int64_t begin = std::clamp<std::int64_t>(-shift_of(k), 0, g.out[0]);
    return std::pair{begin, std::clamp<std::int64_t>(g.in[0] - shift_of(k), begin, g.out[0])};
  };
  const bool alone = g.kernel[0] == 1;
  if (!alone) {
    kernels::Fill fill;
    fill.count = g.batch * g.out[0] * out_plane;
    QR_RETURN_IF_ERROR(emit_step(Kernel::Fill, fill, {arg(View{y.value, y.offset, {fill.count}, {1}})}));
  }
  for (std::int64_t k = 0; k < g.kernel[0]; ++k) {
    const auto [begin, end] = inside(k);
    if (k != last && begin < end) QR_RETURN_IF_ERROR(slice(k, begin, end, false));
  }
  return slice(last, 0, g.out[0], alone);
}

}  // namespace quarry::cpu
