// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions, as ordinary ones whose results are interleaved.
#include <algorithm>

#include "backends/cpu/lower/convolution.h"
#include "backends/cpu/lower/rules.h"

namespace quarry::cpu {

namespace {

constexpr std::int64_t kMostTaps = 1 << 12;
constexpr std::int64_t kMostGathered = 256;  // taps of weights that are known at run time: a copy each, at most

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

// A transposed convolution as ordinary ones, one for each range of phases.
struct Phases {
  Lowering &l;
  const Group &group;
  qir::ConvGeometry g;
  PhaseAxis axis[2];  // rows, columns
  std::int32_t weights = qir::kAbsent;
  Bias bias;
  View x, y;

  std::int64_t count() const { return axis[0].stride * axis[1].stride; }
  bool direct() const { return count() == 1; }  // nothing to be put between
  // Filters of one channel each run phase by phase in the kernel for them.
  bool depthwise() const { return g.group == g.in_channels && g.group == g.out_channels && g.group > 1; }
  bool match();
  Status emit(const PhaseRange &rows, const PhaseRange &columns);
  Status emit_each(const PhaseRange &rows, const PhaseRange &columns);  // each phase by itself

 private:
  // The distance between taps of the filter, of an axis that is not dilated as such.
  std::int64_t step(std::size_t i) const {
    return axis[i].stride > 1 && i + g.rank >= 2 ? g.dilation[i + g.rank - 2] : 1;
  }
  Vector<float> constants(const PhaseRange &rows, const PhaseRange &columns) const;
  Status gather(const PhaseRange &rows, const PhaseRange &columns, View *out);
  kernels::Window window(const PhaseRange &rows, const PhaseRange &columns) const;
  void interleave(const View &z, const PhaseRange &rows, const PhaseRange &columns);
};

bool Phases::match() {
  for (std::size_t i = 0; i < g.rank; ++i) {
    PhaseAxis &a = axis[2 - g.rank + i];
    if (g.stride[i] < 1 || g.stride[i] > 64 || g.kernel[i] < 1 || g.kernel[i] > kMostTaps || g.dilation[i] < 1 ||
        g.dilation[i] > kMostTaps || (g.kernel[i] - 1) * g.dilation[i] >= kMostTaps || g.out[i] < 1 ||
        g.out[i] > kMostExtent || g.in[i] < 1 || g.in[i] > kMostExtent || g.pad_begin[i] < 0)
      return false;
    a.in = g.in[i], a.out = g.out[i], a.kernel = g.kernel[i], a.stride = g.stride[i], a.pad = g.pad_begin[i];
    a.resolve(g.dilation[i]);
    if (a.pad > (a.kernel - 1) * a.dilation) return false;  // part of the input counts for nothing
  }
  if (!l.constant(weights) && axis[0].kernel * axis[1].kernel > kMostGathered) return false;
  return axis[0].kernel * axis[1].kernel <= kMostTaps && count() * g.out_channels <= kMostChannels &&
         bias_of(l, group, g.out_channels, 1, l.input(l.node(group), 2), &bias);
}

// [group][phase of rows][phase of columns][channel], of each its input channels and taps, the last tap first.
Vector<float> Phases::constants(const PhaseRange &rows, const PhaseRange &columns) const {
  const float *const given = qir::constant_floats(l.graph(), weights);
  const std::int64_t kernel_rows = g.rank == 2 ? g.kernel[0] : 1, kernel_columns = g.kernel[g.rank - 1];
  Vector<float> made;
  // The tap t of a phase of a channel pair; 0 where the filter has none.
  const auto add = [&](std::int64_t in, std::int64_t c, std::int64_t kh, std::int64_t kw) {
    const bool hole = kh % step(0) != 0 || kw % step(1) != 0;
    kh /= step(0), kw /= step(1);
    made.push_back(hole || kh >= kernel_rows || kw >= kernel_columns
                       ? 0
                       : given[((in * g.out_per_group + c) * kernel_rows + kh) * kernel_columns + kw]);
  };
  for (std::int64_t gr = 0; gr < g.group; ++gr)
    for (std::int64_t rh = rows.begin; rh < rows.end; ++rh)
      for (std::int64_t rw = columns.begin; rw < columns.end; ++rw)
        for (std::int64_t c = 0; c < g.out_per_group; ++c)
          for (std::int64_t i = 0; i < g.in_per_group; ++i)
            for (std::int64_t th = rows.taps; th-- > 0;)
              for (std::int64_t tw = columns.taps; tw-- > 0;)
                add(gr * g.in_per_group + i, c, rh + th * axis[0].stride, rw + tw * axis[1].stride);
  return made;
}

// The same of weights that are known at run time, the first tap first: by copies.
Status Phases::gather(const PhaseRange &rows, const PhaseRange &columns, View *out) {
  const std::int64_t kernel_rows = g.rank == 2 ? g.kernel[0] : 1, kernel_columns = g.kernel[g.rank - 1],
                     kernel = kernel_rows * kernel_columns, taps = rows.taps * columns.taps,
                     phase_rows = rows.end - rows.begin, phase_columns = columns.end - columns.begin,
                     channel = g.in_per_group * taps, phase = g.out_per_group * channel,
                     group_weights = g.in_per_group * g.out_per_group * kernel;
  const View given = l.row_major(weights);
  const View made = l.new_row_major({g.group * phase_rows * phase_columns * phase}, 4);
  *out = made;
  const auto whole = [](const PhaseRange &range, const PhaseAxis &a, std::int64_t extent) {
    return range.end - 1 + (range.taps - 1) * a.stride < extent;
  };
  View from{given.value, given.offset, {}, {}}, to{made.value, 0, {}, {}};
  if (step(0) == 1 && step(1) == 1 && whole(rows, axis[0], kernel_rows) && whole(columns, axis[1], kernel_columns)) {
    from.offset += rows.begin * kernel_columns + columns.begin;
    from.dims =
        to.dims = {g.group, phase_rows, phase_columns, g.out_per_group, g.in_per_group, rows.taps, columns.taps};
    from.strides = {group_weights, kernel_columns, 1, kernel, g.out_per_group * kernel, axis[0].stride * kernel_columns,
                    axis[1].stride};
    to.strides = cpu::row_major(to.dims);
    l.copy(from, to, 4, weights);
    return {};
  }
  // There are taps that the filter has not: zeros.
  kernels::Fill zeros;
  zeros.count = count_of(made.dims);
  QR_RETURN_IF_ERROR(l.emit_step(kernels::Kernel::Fill, zeros, {arg(made)}));
  from.dims = to.dims = {g.group, g.out_per_group, g.in_per_group};
  from.strides = {group_weights, kernel, g.out_per_group * kernel};
  to.strides = {phase_rows * phase_columns * phase, channel, taps};
  for (std::int64_t k = 0; k < kernel; ++k) {
    const std::int64_t h = k / kernel_columns * step(0), w = k % kernel_columns * step(1);
    const std::int64_t rh = h % axis[0].stride, rw = w % axis[1].stride;
    if (rh < rows.begin || rh >= rows.end || rw < columns.begin || rw >= columns.end) continue;
    from.offset = given.offset + k;
    to.offset = ((rh - rows.begin) * phase_columns + rw - columns.begin) * phase + h / axis[0].stride * columns.taps +
                w / axis[1].stride;
    l.copy(from, to, 4, weights);
  }
  return {};
}

kernels::Window Phases::window(const PhaseRange &rows, const PhaseRange &columns) const {
  kernels::Window window;
  window.n = narrow(g.batch);
  window.ih = narrow(axis[0].in), window.iw = narrow(axis[1].in);
  window.oh = narrow(axis[0].q_count), window.ow = narrow(axis[1].q_count);
  window.kh = narrow(rows.taps), window.kw = narrow(columns.taps);
  window.dh = narrow(axis[0].dilation), window.dw = narrow(axis[1].dilation);
  // Taps in the order of falling t; the first reads x[q_begin - (taps - 1)].
  const auto pad = [](const PhaseAxis &a, std::int64_t count) {
    return narrow(a.stride == 1 ? (count - 1) * a.dilation - a.pad : count - 1 - a.q_begin);
  };
  window.pad_top = pad(axis[0], rows.taps), window.pad_left = pad(axis[1], columns.taps);
  return window;
}

// From [n, q rows, q columns, group, phase of rows, phase of columns, channel] to where the outputs stand.
void Phases::interleave(const View &z, const PhaseRange &rows, const PhaseRange &columns) {
  const std::int64_t columns_phases = columns.end - columns.begin,
                     each = (rows.end - rows.begin) * columns_phases * g.out_per_group, z_pixel = each * g.group;
  const std::int64_t y_row = g.rank == 2 ? y.strides[2] : 0, y_column = y.strides.back();
  const std::int64_t z_row = axis[1].q_count * z_pixel;
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
      l.copy(from, to, sizeof(float), group.output);
    }
  }
}

Status Phases::emit(const PhaseRange &rows, const PhaseRange &columns) {
  const std::int64_t phases = (rows.end - rows.begin) * (columns.end - columns.begin),
                     channels = phases * g.out_per_group * g.group, taps = rows.taps * columns.taps;
  std::int64_t x_pixel = 0, y_pixel = channels;
  is_channels_last(x, &x_pixel);
  Vector<float> values;
  FilterSource filter{{nullptr, g.in_per_group * taps, taps, columns.taps, 1}, 0, {}};
  if (!l.constant(weights)) {
    QR_RETURN_IF_ERROR(gather(rows, columns, &filter.view));
    filter.view.offset += taps - 1;
    filter.at.kh_stride *= -1, filter.at.kw_stride *= -1;
  } else if (!l.options().dry_run) {
    values = constants(rows, columns);
    filter.at.data = values.data(), filter.count = static_cast<std::int64_t>(values.size());
  }
  Bias per_channel = bias;
  per_channel.each = g.out_per_group, per_channel.times = phases;
  View z = y;
  if (direct()) {
    is_channels_last(y, &y_pixel);
  } else {
    const std::uint64_t pixels = static_cast<std::uint64_t>(g.batch * axis[0].q_count * axis[1].q_count);
    z = {static_cast<std::int32_t>(l.new_value(pixels * static_cast<std::uint64_t>(channels) * sizeof(float))),
         0,
         {},
         {}};
  }
  const auto fill = [&](auto &p) {
    p.window = window(rows, columns), p.act = group.act, p.has_bias = !bias.empty();
    p.x_stride = narrow(x_pixel), p.y_stride = narrow(y_pixel);
  };
  if (depthwise()) {
    kernels::DepthwiseF32 p;
    fill(p), p.c = narrow(channels);
    QR_RETURN_IF_ERROR(emit_depthwise(l, p, x, filter, per_channel, z));
  } else {
    kernels::ConvF32 p;
    fill(p), p.ic = narrow(g.in_channels), p.oc = narrow(channels), p.groups = narrow(g.group);
    QR_RETURN_IF_ERROR(emit_conv(l, p, x, filter, per_channel, z));
  }
  if (!direct()) interleave(z, rows, columns);
  return {};
}

Status Phases::emit_each(const PhaseRange &rows, const PhaseRange &columns) {
  for (std::int64_t h = rows.begin; h < rows.end; ++h)
    for (std::int64_t w = columns.begin; w < columns.end; ++w)
      QR_RETURN_IF_ERROR(emit({h, h + 1, rows.taps}, {w, w + 1, columns.taps}));
  return {};
}

}  // namespace

Result<bool> conv_transpose_geometry(const Lowering &l, const Group &group, qir::ConvGeometry *out) {
  const qir::Node &node = l.node(group);
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1];
  if (!l.is_f32(xi) || !l.is_f32(group.output) || !l.is_f32(wi)) return false;
  QR_RETURN_IF_ERROR(qir::resolve_conv_transpose(node, l.tensor(xi).shape, l.tensor(wi).shape, out));
  return out->rank >= 1 && out->rank <= 2 && out->batch >= 1 && out->batch <= kMostExtent &&
         out->in_channels <= kMostChannels && out->out_channels <= kMostChannels;
}

Result<Lowered> lower_conv_transpose(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  Phases phases{.l = l, .group = group, .weights = node.inputs[1]};
  QR_ASSIGN_OR_RETURN(const bool fits, conv_transpose_geometry(l, group, &phases.g));
  if (!fits || !phases.match()) return Lowered::NotMine;
  phases.x = l.channels_last(node.inputs[0]), phases.y = l.image_output(group.output);
  for (const PhaseRange &rows : phase_ranges(phases.axis[0]))
    for (const PhaseRange &columns : phase_ranges(phases.axis[1]))
      QR_RETURN_IF_ERROR(phases.depthwise() ? phases.emit_each(rows, columns) : phases.emit(rows, columns));
  return Lowered::Done;
}

}  // namespace quarry::cpu
