// SPDX-License-Identifier: Apache-2.0
// Convolutions that are brought to those that have kernels: transposed ones, and those of three dimensions.
#include <algorithm>

#include "backends/cpu/lower/lowering.h"
#include "graph/infer/infer.h"
#include "kernels/cpu/pack/pack.h"

namespace quarry::cpu {

using kernels::Kernel;

namespace {

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

constexpr std::int64_t kMostExtent = 1 << 24, kMostChannels = 1 << 20, kMostTaps = 1 << 12;

// One axis of a transposed convolution. Output o = stride * q + r - pad is the sum over t of x[q - t] * w[r + t *
// stride]: for each r (a phase) an ordinary convolution over q.
struct PhaseAxis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1, pad = 0;
  std::int64_t dilation = 1;  // of x: only where stride is 1
  std::int64_t q_begin = 0, q_count = 1;

  void resolve(std::int64_t step_between_taps) {
    if (stride == 1) {
      dilation = step_between_taps;
      q_begin = 0, q_count = out;
    } else {
      // Other than that, dilated filters are filled up with zeros.
      kernel = (kernel - 1) * step_between_taps + 1;
      q_begin = pad / stride, q_count = (out - 1 + pad) / stride - q_begin + 1;
    }
  }
};

// Neighbouring phases with the same number of taps.
struct PhaseRange {
  std::int64_t begin, end, taps;
};
Vector<PhaseRange> phase_ranges(const PhaseAxis &a) {
  const std::int64_t most = (a.kernel + a.stride - 1) / a.stride, longer = a.kernel % a.stride;
  // (A shorter filter would begin inside the input where the first of q lies far in: then with a tap of zeros.)
  if (longer == 0 || most == 1 || most - 2 < a.q_begin) return {{0, a.stride, most}};
  return {{0, longer, most}, {longer, a.stride, most - 1}};
}

// What lies at even distances of a range's results: output index first + stride * i + e, i < rows, e < phases, from
// position `q` on and from phase `r` on.
struct Part {
  std::int64_t first, rows, phases, q, r;
};
Vector<Part> parts_of(const PhaseAxis &a, const PhaseRange &range) {
  Vector<Part> parts;
  if (a.stride == 1) return {{0, a.out, 1, 0, 0}};
  for (std::int64_t r = range.begin; r < range.end; ++r) {
    // The first output of this phase.
    std::int64_t q = a.q_begin, first = q * a.stride + r - a.pad;
    if (first < 0) first += a.stride, ++q;
    if (first >= a.out) continue;
    const std::int64_t rows = (a.out - first + a.stride - 1) / a.stride;
    Part *const last = parts.empty() ? nullptr : &parts.back();
    if (last && last->rows == rows && last->q == q && last->first + last->phases == first) ++last->phases;
    else parts.push_back({first, rows, 1, q, r});
  }
  return parts;
}

}  // namespace

Status Lowering::lower_conv_transpose(const Group &group, bool *done) {
  const qir::Node &node = graph_.nodes[static_cast<std::size_t>(group.root)];
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1];
  const float *const weights = qir::constant_floats(graph_, wi);
  if (!is_f32(xi) || !is_f32(group.output) || !weights) return {};
  qir::ConvGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_conv_transpose(node, tensor(xi).shape, tensor(wi).shape, &g));
  if (g.rank < 1 || g.rank > 2 || g.batch < 1 || g.batch > kMostExtent || g.in_channels > kMostChannels ||
      g.out_channels > kMostChannels)
    return {};
  QR_RETURN_IF_ERROR(lower_apart(group, g, done));
  if (*done) return {};
  PhaseAxis axis[2];  // rows, columns
  for (std::size_t i = 0; i < g.rank; ++i) {
    PhaseAxis &a = axis[2 - g.rank + i];
    if (g.stride[i] < 1 || g.stride[i] > 64 || g.kernel[i] < 1 || g.kernel[i] > kMostTaps || g.dilation[i] < 1 ||
        g.dilation[i] > kMostTaps || (g.kernel[i] - 1) * g.dilation[i] >= kMostTaps || g.out[i] < 1 ||
        g.out[i] > kMostExtent || g.in[i] < 1 || g.in[i] > kMostExtent || g.pad_begin[i] < 0)
      return {};
    a.in = g.in[i], a.out = g.out[i], a.kernel = g.kernel[i], a.stride = g.stride[i], a.pad = g.pad_begin[i];
    a.resolve(g.dilation[i]);
    if (a.pad > (a.kernel - 1) * a.dilation) return {};  // part of the input counts for nothing
  }
  const std::int64_t phases = axis[0].stride * axis[1].stride;
  if (axis[0].kernel * axis[1].kernel > kMostTaps || phases * g.out_channels > kMostChannels) return {};
  Vector<float> bias;
  if (!bias_of(group, g.out_channels, 1, input(node, 2), &bias)) return {};

  const View x = channels_last(xi), y = image_output(group.output);
  std::int64_t x_pixel = 0, y_pixel = 0;
  is_channels_last(x, &x_pixel), is_channels_last(y, &y_pixel);
  const bool direct = phases == 1;  // nothing to be put between
  // Filters of one channel each run phase by phase in the kernel for them.
  const bool depthwise = g.group == g.in_channels && g.group == g.out_channels && g.group > 1;
  const std::int64_t kernel_rows = g.rank == 2 ? g.kernel[0] : 1, kernel_columns = g.kernel[g.rank - 1];
  const std::int64_t step_rows = g.rank == 2 ? g.dilation[0] : 1, step_columns = g.dilation[g.rank - 1];

  const auto run = [&](const PhaseRange &rows, const PhaseRange &columns) -> Status {
    const std::int64_t rows_phases = rows.end - rows.begin, columns_phases = columns.end - columns.begin;
    const std::int64_t each = rows_phases * columns_phases * g.out_per_group, channels = each * g.group;
    const std::int64_t taps = rows.taps * columns.taps;
    kernels::Window window;
    window.n = narrow(g.batch);
    window.ih = narrow(axis[0].in), window.iw = narrow(axis[1].in);
    window.oh = narrow(axis[0].q_count), window.ow = narrow(axis[1].q_count);
    window.kh = narrow(rows.taps), window.kw = narrow(columns.taps);
    window.dh = narrow(axis[0].dilation), window.dw = narrow(axis[1].dilation);
    // Taps in the order of falling t; the first reads x[q_begin - (taps - 1)].
    const auto pad = [](const PhaseAxis &a, std::int64_t count) {
      return a.stride == 1 ? (count - 1) * a.dilation - a.pad : count - 1 - a.q_begin;
    };
    const std::int64_t pad_rows = pad(axis[0], rows.taps), pad_columns = pad(axis[1], columns.taps);
    window.pad_top = narrow(pad_rows), window.pad_left = narrow(pad_columns);

    // [group][phase of rows][phase of columns][channel], from each its input channels and taps.
    Vector<float> filter, per_channel;
    if (!look_only_) {
      filter.assign(static_cast<std::size_t>(channels * g.in_per_group * taps), 0);
      std::size_t at = 0;
      for (std::int64_t gr = 0; gr < g.group; ++gr)
        for (std::int64_t rh = rows.begin; rh < rows.end; ++rh)
          for (std::int64_t rw = columns.begin; rw < columns.end; ++rw)
            for (std::int64_t c = 0; c < g.out_per_group; ++c)
              for (std::int64_t i = 0; i < g.in_per_group; ++i)
                for (std::int64_t th = rows.taps; th-- > 0;)
                  for (std::int64_t tw = columns.taps; tw-- > 0; ++at) {
                    std::int64_t kh = rh + th * axis[0].stride, kw = rw + tw * axis[1].stride;
                    if (axis[0].stride > 1) {
                      if (kh % step_rows != 0) continue;
                      kh /= step_rows;
                    }
                    if (axis[1].stride > 1) {
                      if (kw % step_columns != 0) continue;
                      kw /= step_columns;
                    }
                    if (kh >= kernel_rows || kw >= kernel_columns) continue;
                    const std::int64_t in = gr * g.in_per_group + i;
                    filter[at] = weights[((in * g.out_per_group + c) * kernel_rows + kh) * kernel_columns + kw];
                  }
    }
    if (!bias.empty()) {
      for (std::int64_t gr = 0; gr < g.group; ++gr)
        for (std::int64_t p = 0; p < rows_phases * columns_phases; ++p)
          for (std::int64_t c = 0; c < g.out_per_group; ++c)
            per_channel.push_back(bias[static_cast<std::size_t>(gr * g.out_per_group + c)]);
    }
    View z = y;
    if (!direct) {
      const std::uint64_t pixels = static_cast<std::uint64_t>(g.batch * axis[0].q_count * axis[1].q_count);
      z = View{static_cast<std::int32_t>(new_value(pixels * static_cast<std::uint64_t>(channels) * sizeof(float))),
               0,
               {},
               {}};
    }
    const kernels::FilterView<float> view{filter.data(), g.in_per_group * taps, taps, columns.taps, 1};
    if (depthwise) {
      kernels::DepthwiseF32 p;
      p.window = window, p.c = narrow(channels), p.act = group.act, p.has_bias = !bias.empty();
      p.x_stride = narrow(x_pixel), p.y_stride = narrow(direct ? y_pixel : channels);
      QR_RETURN_IF_ERROR(emit_depthwise(p, x, view, per_channel, z));
    } else {
      kernels::ConvF32 p;
      p.window = window, p.ic = narrow(g.in_channels), p.oc = narrow(channels), p.groups = narrow(g.group);
      p.x_stride = narrow(x_pixel), p.y_stride = narrow(direct ? y_pixel : channels);
      p.act = group.act, p.has_bias = !bias.empty();
      QR_RETURN_IF_ERROR(emit_conv(p, x, view, static_cast<std::int64_t>(filter.size()), per_channel, z));
    }
    if (direct) return {};
    // From [n, q rows, q columns, group, phase of rows, phase of columns, channel] to where the outputs stand.
    const std::int64_t y_row = g.rank == 2 ? y.strides[2] : 0, y_column = y.strides.back();
    const std::int64_t z_pixel = channels, z_row = axis[1].q_count * channels;
    for (const Part &h : parts_of(axis[0], rows)) {
      for (const Part &w : parts_of(axis[1], columns)) {
        View from, to;
        from.value = z.value, to.value = y.value;
        from.offset = (h.q - axis[0].q_begin) * z_row + (w.q - axis[1].q_begin) * z_pixel +
                      ((h.r - rows.begin) * columns_phases + w.r - columns.begin) * g.out_per_group;
        to.offset = y.offset + h.first * y_row + w.first * y_column;
        from.dims = to.dims = {g.batch, g.group, g.out_per_group, h.rows, h.phases, w.rows, w.phases};
        from.strides = {axis[0].q_count * z_row, each, 1, z_row, columns_phases * g.out_per_group, z_pixel,
                        g.out_per_group};
        to.strides = {y.strides[0], g.out_per_group * y.strides[1], y.strides[1], axis[0].stride * y_row,
                      y_row,        axis[1].stride * y_column,      y_column};
        copy(from, to, sizeof(float), group.output);
      }
    }
    return {};
  };
  *done = true;
  for (const PhaseRange &rows : phase_ranges(axis[0])) {
    for (const PhaseRange &columns : phase_ranges(axis[1])) {
      if (!depthwise) {
        QR_RETURN_IF_ERROR(run(rows, columns));
        continue;
      }
      for (std::int64_t h = rows.begin; h < rows.end; ++h)
        for (std::int64_t w = columns.begin; w < columns.end; ++w)
          QR_RETURN_IF_ERROR(run({h, h + 1, rows.taps}, {w, w + 1, columns.taps}));
    }
  }
  return {};
}

// Slices of the depth that a filter covers lie side by side, as channels of images: a convolution of two dimensions.
Status Lowering::lower_conv3d(const Group &group, bool *done) {
  const qir::Node &node = graph_.nodes[static_cast<std::size_t>(group.root)];
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1];
  const float *const weights = qir::constant_floats(graph_, wi);
  if (!is_f32(xi) || !is_f32(group.output) || !weights) return {};
  qir::ConvGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_conv(node, tensor(xi).shape, tensor(wi).shape, &g));
  if (g.rank != 3 || g.kernel[0] < 1 || g.pad_begin[0] < 0 || g.pad_end[0] < 0) return {};
  const std::int64_t depth = g.kernel[0], wide = g.in_channels * depth, images = g.batch * g.out[0];
  if (wide > kMostChannels || g.out_channels > kMostChannels || images > kMostExtent) return {};
  qir::ConvGeometry flat = g;
  flat.rank = 2, flat.batch = images;
  for (std::size_t i = 0; i < 2; ++i) {
    flat.in[i] = g.in[i + 1], flat.out[i] = g.out[i + 1], flat.kernel[i] = g.kernel[i + 1];
    flat.stride[i] = g.stride[i + 1], flat.dilation[i] = g.dilation[i + 1], flat.pad_begin[i] = g.pad_begin[i + 1];
  }
  kernels::ConvF32 p;
  Vector<float> bias;
  if (!conv_window(flat, &p.window) || !bias_of(group, g.out_channels, 1, input(node, 2), &bias)) return {};

  constexpr std::size_t kLast[] = {0, 2, 3, 4, 1};
  const std::int64_t plane = g.in[1] * g.in[2];
  View x = any(xi);
  if (depth == 1 && g.stride[0] == 1 && g.pad_begin[0] == 0 && g.out[0] == g.in[0]) {
    const Dims last = dense_strides(x.dims, kLast);
    if (x.strides != last) {
      const View made = new_dense(x.dims, kLast, 4);
      copy(x, made, 4, xi);
      define(xi, made);
      x = made;
    }
  } else {
    // [n, out, h, w, group, slice, channel]
    const std::int64_t each = g.in_per_group * depth;
    const std::uint32_t value = new_value(static_cast<std::uint64_t>(images * plane * wide) * sizeof(float));
    const bool padded =
        g.pad_begin[0] > 0 || (g.out[0] - 1) * g.stride[0] + (depth - 1) * g.dilation[0] - g.pad_begin[0] >= g.in[0];
    const View all{static_cast<std::int32_t>(value), 0, {images * plane * wide}, {1}};
    if (padded) {
      kernels::Fill fill;
      fill.count = images * plane * wide;
      QR_RETURN_IF_ERROR(emit_step(Kernel::Fill, fill, {arg(all)}));
    }
    for (std::int64_t k = 0; k < depth; ++k) {
      // Output slices whose tap k lies inside.
      const std::int64_t shift = k * g.dilation[0] - g.pad_begin[0];
      std::int64_t begin = 0, end = g.out[0];
      while (begin < end && begin * g.stride[0] + shift < 0) ++begin;
      while (end > begin && (end - 1) * g.stride[0] + shift >= g.in[0]) --end;
      if (begin == end) continue;
      View from = any(xi), to = all;
      from.offset += (begin * g.stride[0] + shift) * from.strides[2];
      to.offset = begin * plane * wide + k * g.in_per_group;
      const Dims s = from.strides;
      from.dims = to.dims = {g.batch, g.group, g.in_per_group, end - begin, g.in[1], g.in[2]};
      from.strides = {s[0], g.in_per_group * s[1], s[1], g.stride[0] * s[2], s[3], s[4]};
      to.strides = {g.out[0] * plane * wide, each, 1, plane * wide, g.in[2] * wide, wide};
      copy(from, to, 4, xi);
    }
    x = all;
  }
  const View y = new_dense(tensor(group.output).shape, kLast, 4);
  define(group.output, y);
  View r;
  if (group.residual != qir::kAbsent) {
    r = beside(group.residual, y);
    p.r_stride = narrow(g.out_channels), p.residual = group.residual_mode;
  }
  p.ic = p.x_stride = narrow(wide), p.oc = p.y_stride = narrow(g.out_channels), p.groups = narrow(g.group);
  p.act = group.act, p.has_bias = !bias.empty();
  // w[oc][ic][slice][h][w] -> [oc][slice][ic][h][w]
  const std::int64_t taps = g.kernel[1] * g.kernel[2];
  Vector<float> filter;
  if (!look_only_) {
    filter.reserve(static_cast<std::size_t>(count_of(tensor(wi).shape)));
    for (std::int64_t c = 0; c < g.out_channels; ++c)
      for (std::int64_t k = 0; k < depth; ++k)
        for (std::int64_t i = 0; i < g.in_per_group; ++i) {
          const float *const from = weights + ((c * g.in_per_group + i) * depth + k) * taps;
          filter.insert(filter.end(), from, from + taps);
        }
  }
  *done = true;
  return emit_conv(p, x, {filter.data(), g.in_per_group * depth * taps, taps, g.kernel[2], 1},
                   static_cast<std::int64_t>(filter.size()), bias, y, group.residual == qir::kAbsent ? nullptr : &r);
}

}  // namespace quarry::cpu
