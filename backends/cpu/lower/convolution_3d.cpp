// SPDX-License-Identifier: Apache-2.0
// Convolutions of three axes, as those of two.
#include <algorithm>

#include "backends/cpu/lower/convolution.h"
#include "backends/cpu/lower/rules.h"

namespace quarry::cpu {

using kernels::Kernel;

namespace {

constexpr std::size_t kLast[] = {0, 2, 3, 4, 1};  // channels last

// Without the depth.
qir::ConvGeometry flattened(const qir::ConvGeometry &g, std::int64_t images) {
  qir::ConvGeometry flat = g;
  flat.rank = 2, flat.batch = images;
  for (std::size_t i = 0; i < 2; ++i) {
    flat.in[i] = g.in[i + 1], flat.out[i] = g.out[i + 1], flat.kernel[i] = g.kernel[i + 1];
    flat.stride[i] = g.stride[i + 1], flat.dilation[i] = g.dilation[i + 1], flat.pad_begin[i] = g.pad_begin[i + 1];
  }
  return flat;
}

// [n, out, h, w, group, slice, channel]: of each output slice the slices that its filter covers, as channels.
Status slices_as_channels(Lowering &l, const qir::ConvGeometry &g, std::int32_t xi, View *out) {
  const std::int64_t depth = g.kernel[0], wide = g.in_channels * depth, images = g.batch * g.out[0],
                     plane = g.in[1] * g.in[2];
  const std::int64_t each = g.in_per_group * depth;
  const std::uint32_t value = l.new_value(static_cast<std::uint64_t>(images * plane * wide) * sizeof(float));
  const bool padded =
      g.pad_begin[0] > 0 || (g.out[0] - 1) * g.stride[0] + (depth - 1) * g.dilation[0] - g.pad_begin[0] >= g.in[0];
  const View all{static_cast<std::int32_t>(value), 0, {images * plane * wide}, {1}};
  if (padded) {
    kernels::Fill fill;
    fill.count = images * plane * wide;
    QR_RETURN_IF_ERROR(l.emit_step(Kernel::Fill, fill, {arg(all)}));
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    // Output slices whose tap k lies inside.
    const std::int64_t shift = k * g.dilation[0] - g.pad_begin[0];
    std::int64_t begin = 0, end = g.out[0];
    while (begin < end && begin * g.stride[0] + shift < 0) ++begin;
    while (end > begin && (end - 1) * g.stride[0] + shift >= g.in[0]) --end;
    if (begin == end) continue;
    View from = l.any(xi), to = all;
    from.offset += (begin * g.stride[0] + shift) * from.strides[2];
    to.offset = begin * plane * wide + k * g.in_per_group;
    const Dims s = from.strides;
    from.dims = to.dims = {g.batch, g.group, g.in_per_group, end - begin, g.in[1], g.in[2]};
    from.strides = {s[0], g.in_per_group * s[1], s[1], g.stride[0] * s[2], s[3], s[4]};
    to.strides = {g.out[0] * plane * wide, each, 1, plane * wide, g.in[2] * wide, wide};
    l.copy(from, to, 4, xi);
  }
  *out = all;
  return {};
}

// The tensor as it lies densely with its channels last, copied where it does not.
View dense_channels_last(Lowering &l, std::int32_t id) {
  View x = l.any(id);
  for (const View &form : l.forms(id))
    if (form.strides == dense_strides(form.dims, kLast)) x = form;
  if (x.strides == dense_strides(x.dims, kLast)) return x;
  const View made = l.new_dense(x.dims, kLast, 4);
  l.copy(x, made, 4, id);
  l.define(id, made);
  return made;
}

// w[oc][ic][slice][h][w] -> [oc][slice][ic][h][w]
Vector<float> constants_by_slice(const qir::ConvGeometry &g, const float *weights) {
  const std::int64_t depth = g.kernel[0], taps = g.kernel[1] * g.kernel[2];
  Vector<float> filter;
  filter.reserve(static_cast<std::size_t>(g.out_channels * depth * g.in_per_group * taps));
  for (std::int64_t c = 0; c < g.out_channels; ++c)
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t i = 0; i < g.in_per_group; ++i) {
        const float *const from = weights + ((c * g.in_per_group + i) * depth + k) * taps;
        filter.insert(filter.end(), from, from + taps);
      }
  return filter;
}

// w[oc][ic][slice][h][w] as [oc][slice][ic][h][w]: constants in `values`.
FilterSource filters_by_slice(Lowering &l, const qir::ConvGeometry &g, std::int32_t weights, Vector<float> *values) {
  const std::int64_t depth = g.kernel[0], taps = g.kernel[1] * g.kernel[2];
  FilterSource filter{{nullptr, g.in_per_group * depth * taps, taps, g.kernel[2], 1}, 0, {}};
  if (const float *const given = qir::constant_floats(l.graph(), weights)) {
    if (!l.options().dry_run) *values = constants_by_slice(g, given);
    filter.at.data = values->data(), filter.count = static_cast<std::int64_t>(values->size());
    return filter;
  }
  View from = l.row_major(weights);
  from.dims = {g.out_channels, depth, g.in_per_group, taps};
  from.strides = {g.in_per_group * depth * taps, taps, depth * taps, 1};
  filter.view = l.new_row_major(from.dims, 4);
  l.copy(from, filter.view, 4, weights);
  return filter;
}

// Slice k of filters of one channel each.
FilterSource slice_of_filter(Lowering &l, const qir::ConvGeometry &g, std::int32_t id, std::int64_t k) {
  const std::int64_t taps = g.kernel[1] * g.kernel[2];
  FilterSource filter{{nullptr, g.kernel[0] * taps, taps, g.kernel[2], 1}, 0, {}};
  if (const float *const weights = qir::constant_floats(l.graph(), id)) {
    filter.at.data = weights + k * taps, filter.count = count_of(l.tensor(id).shape) - k * taps;
  } else {
    filter.view = l.row_major(id);
    filter.view.offset += k * taps;
  }
  return filter;
}

}  // namespace

// Slices of the depth that a filter covers lie side by side, as channels of images: a convolution of two dimensions.
Result<Lowered> lower_conv3d(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1];
  if (!l.is_f32(xi) || !l.is_f32(group.output) || !l.is_f32(wi)) return Lowered::NotMine;
  qir::ConvGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_conv(node, l.tensor(xi).shape, l.tensor(wi).shape, &g));
  if (g.rank != 3 || g.kernel[0] < 1 || g.pad_begin[0] < 0 || g.pad_end[0] < 0) return Lowered::NotMine;
  const std::int64_t depth = g.kernel[0], wide = g.in_channels * depth, images = g.batch * g.out[0];
  if (wide > kMostChannels || g.out_channels > kMostChannels || images > kMostExtent) return Lowered::NotMine;
  kernels::ConvF32 p;
  Bias bias;
  if (!conv_window(flattened(g, images), &p.window) || !bias_of(l, group, g.out_channels, 1, l.input(node, 2), &bias))
    return Lowered::NotMine;

  View x = l.any(xi);
  if (depth == 1 && g.stride[0] == 1 && g.pad_begin[0] == 0 && g.out[0] == g.in[0]) {
    const Dims last = dense_strides(x.dims, kLast);
    if (x.strides != last) {
      const View made = l.new_dense(x.dims, kLast, 4);
      l.copy(x, made, 4, xi);
      l.define(xi, made);
      x = made;
    }
  } else {
    QR_RETURN_IF_ERROR(slices_as_channels(l, g, xi, &x));
  }
  const View y = l.new_dense(l.tensor(group.output).shape, kLast, 4);
  l.define(group.output, y);
  View r;
  if (group.residual != qir::kAbsent) {
    r = l.beside(group.residual, y);
    p.r_stride = narrow(g.out_channels), p.residual = group.residual_mode;
  }
  p.ic = p.x_stride = narrow(wide), p.oc = p.y_stride = narrow(g.out_channels), p.groups = narrow(g.group);
  p.act = group.act, p.has_bias = !bias.empty();
  Vector<float> values;
  const FilterSource filter = filters_by_slice(l, g, wi, &values);
  return done(emit_conv(l, p, x, filter, bias, y, group.residual == qir::kAbsent ? nullptr : &r));
}

// Filters of one channel each over three axes: the slices of the depth one after the other, each added to the sum of
// those before it.
Result<Lowered> lower_depthwise3d(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1];
  if (!l.is_f32(xi) || !l.is_f32(group.output) || !l.is_f32(wi) || group.residual != qir::kAbsent)
    return Lowered::NotMine;
  qir::ConvGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_conv(node, l.tensor(xi).shape, l.tensor(wi).shape, &g));
  if (g.rank != 3 || g.group < 2 || g.in_per_group != 1 || g.out_per_group != 1 || g.stride[0] != 1 ||
      g.kernel[0] < 1 || g.pad_begin[0] < 0 || g.group > 1 << 20)
    return Lowered::NotMine;
  // Activations of more than a bound are not made of sums that grow step by step.
  if (group.act.kind != kernels::Act::None && group.act.kind != kernels::Act::Clip) return Lowered::NotMine;
  // The slice of a filter that every output sees comes last, and with it what is done to whole sums.
  std::int64_t last = -1;
  const auto shift_of = [&](std::int64_t k) { return k * g.dilation[0] - g.pad_begin[0]; };
  for (std::int64_t k = 0; k < g.kernel[0]; ++k)
    if (shift_of(k) >= 0 && g.out[0] - 1 + shift_of(k) < g.in[0]) last = k;
  if (last < 0) return Lowered::NotMine;
  kernels::DepthwiseF32 p;
  Bias bias;
  if (!conv_window(flattened(g, 1), &p.window) || g.batch > 1 << 12 ||
      !bias_of(l, group, g.out_channels, 1, l.input(node, 2), &bias))
    return Lowered::NotMine;

  const View x = dense_channels_last(l, xi);
  const View y = l.new_dense(l.tensor(group.output).shape, kLast, 4);
  l.define(group.output, y);
  const std::int64_t in_plane = g.in[1] * g.in[2] * g.group, out_plane = g.out[1] * g.out[2] * g.group;
  p.c = p.x_stride = p.y_stride = p.r_stride = static_cast<std::int32_t>(g.group);
  const auto slice = [&](std::int64_t k, std::int64_t begin, std::int64_t end, bool first) -> Status {
    const bool whole = k == last;
    p.residual = first ? kernels::Residual::None : kernels::Residual::BeforeAct;
    p.act = whole ? group.act : kernels::Activation{};
    p.has_bias = whole && !bias.empty();
    p.window.n = static_cast<std::int32_t>(end - begin);
    Vector<View> from(index_of(g.batch), x), to(index_of(g.batch), y);
    Vector<Images> images;
    for (std::int64_t n = 0; n < g.batch; ++n) {
      View &of_x = from[index_of(n)], &of_y = to[index_of(n)];
      of_x.offset += (n * g.in[0] + begin + shift_of(k)) * in_plane;
      of_y.offset += (n * g.out[0] + begin) * out_plane;
      images.push_back({of_x, of_y, first ? nullptr : &of_y});
    }
    return emit_depthwise(l, p, images, slice_of_filter(l, g, wi, k), whole ? bias : Bias{});
  };
  const bool alone = g.kernel[0] == 1;
  if (!alone) {
    kernels::Fill fill;
    fill.count = g.batch * g.out[0] * out_plane;
    QR_RETURN_IF_ERROR(l.emit_step(Kernel::Fill, fill, {arg(View{y.value, y.offset, {fill.count}, {1}})}));
  }
  for (std::int64_t k = 0; k < g.kernel[0]; ++k) {
    const std::int64_t begin = std::clamp<std::int64_t>(-shift_of(k), 0, g.out[0]),
                       end = std::clamp<std::int64_t>(g.in[0] - shift_of(k), begin, g.out[0]);
    if (k != last && begin < end) QR_RETURN_IF_ERROR(slice(k, begin, end, false));
  }
  return slice(last, 0, g.out[0], alone);
}

}  // namespace quarry::cpu
