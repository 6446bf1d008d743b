// SPDX-License-Identifier: Apache-2.0
// Resizing, and images read at coordinates that are computed.
#include <algorithm>
#include <cmath>

#include "backends/cpu/lower/convolution.h"
#include "backends/cpu/lower/rules.h"
#include "graph/ops/resize_coordinates.h"

namespace quarry::cpu {

using kernels::Kernel;
using kernels::PoolOp;
using qir::Op;

namespace {

struct Tap {
  std::int32_t low, high;
  float weight;  // of `high`
};

// What each output index of an axis reads.
Vector<Tap> taps_of(const qir::Node &node, const qir::ResizeAxis &axis, bool nearest) {
  const qir::Coordinates coordinates = qir::coordinates_of(node);
  const qir::Nearest rounding = qir::nearest_of(node);
  Vector<Tap> taps;
  for (std::int64_t i = 0; i < axis.out; ++i) {
    const float x = qir::original(axis, coordinates, i);
    Tap tap{};
    if (nearest) {
      tap.low = tap.high = static_cast<std::int32_t>(qir::clamp_index(qir::nearest_index(x, rounding), axis.in));
    } else {
      const float floor = std::floor(x);
      tap.low = static_cast<std::int32_t>(qir::clamp_index(floor, axis.in));
      tap.high = static_cast<std::int32_t>(qir::clamp_index(floor + 1, axis.in));
      tap.weight = x - floor;
    }
    taps.push_back(tap);
  }
  return taps;
}

Vector<std::uint8_t> bytes_of(const Vector<Tap> &taps) {
  Vector<std::uint8_t> bytes(taps.size() * sizeof(Tap));
  if (!bytes.empty()) std::memcpy(bytes.data(), taps.data(), bytes.size());
  return bytes;
}

// The regions of interest of the axes; false where they are not known, resize channels, or reach beyond the image.
bool crop_axes(const Lowering &l, const qir::Node &node, const qir::ResizeGeometry &geometry, qir::ResizeAxis *axes) {
  const std::int32_t id = l.input(node, 1);
  const float *const region = id == qir::kAbsent ? nullptr : qir::constant_floats(l.graph(), id);
  const std::size_t count = geometry.axes.size;
  if (!region || count_of(l.tensor(id).shape) != static_cast<std::int64_t>(2 * count)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    qir::ResizeAxis &axis = axes[geometry.axes[static_cast<std::uint32_t>(i)]];
    axis.roi_start = region[i], axis.roi_end = region[count + i];
  }
  for (std::size_t d = 0; d < 4; ++d) {
    if (d < 2 && (axes[d].roi_start != 0 || axes[d].roi_end != 1)) return false;
    for (std::int64_t i = 0; i < axes[d].out; ++i) {
      const float at = qir::original(axes[d], qir::Coordinates::Crop, i);
      if (!(at >= 0 && at <= static_cast<float>(axes[d].in - 1))) return false;
    }
  }
  return true;
}

// Planes by themselves. `bytes`: as f32, which is rounded.
Result<Lowered> lower_planes(Lowering &l, const qir::Node &node, const Vector<Tap> &rows, const Vector<Tap> &columns,
                             std::uint32_t nearest, bool bytes) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const qir::Shape &in = l.tensor(xi).shape, &out = l.tensor(yi).shape;
  const DType dtype = l.tensor(xi).dtype;
  const kernels::ResizePlanesF32 q{
      in[0] * in[1], narrow(in[2]), narrow(in[3]), narrow(out[2]), narrow(out[3]), nearest, 0};
  View x = l.row_major(xi);
  const View y = l.new_row_major(out, l.width(yi)), made = bytes ? l.new_row_major(out, 4) : y;
  l.define(yi, y);
  const auto type = static_cast<std::uint32_t>(dtype);
  if (bytes) {
    const View wide = l.new_row_major(in, 4);
    const kernels::Cast cast{type, static_cast<std::uint32_t>(DType::F32), count_of(in)};
    QR_RETURN_IF_ERROR(l.emit_step(Kernel::Cast, cast, {arg(x, 1), arg(wide)}));
    x = wide;
  }
  QR_RETURN_IF_ERROR(
      l.emit_step(Kernel::ResizePlanesF32, q,
                  {arg(x), arg(l.own_constant(bytes_of(rows))), arg(l.own_constant(bytes_of(columns))), arg(made)}));
  if (!bytes) return Lowered::Done;
  return l.finish_step(Kernel::Quantize, kernels::Quantize{count_of(out), {type, 0, 1, 0}}, {arg(made), arg(y, 1)});
}

}  // namespace

Result<Lowered> lower_resize(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const std::string_view mode = node.get_string("mode", "nearest");
  const DType dtype = l.tensor(xi).dtype;
  // Bytes between which is read become f32 and are rounded.
  const bool bytes = (dtype == DType::U8 || dtype == DType::I8) && mode == "linear" && !l.tensor(xi).quant &&
                     !l.tensor(yi).quant && l.tensor(yi).dtype == dtype;
  if ((!bytes && (!l.is_f32(xi) || !l.is_f32(yi))) || (mode != "nearest" && mode != "linear") ||
      node.get_int("antialias", 0) != 0 || node.outputs.size() != 1)
    return Lowered::NotMine;
  const qir::Shape &in = l.tensor(xi).shape, &out = l.tensor(yi).shape;
  if (in.size() != 4 || in[0] != out[0] || in[1] != out[1] || count_of(in) > INT32_MAX || count_of(out) > INT32_MAX)
    return Lowered::NotMine;
  Vector<float> scales;
  Vector<std::int64_t> sizes;
  if (const std::int32_t id = l.input(node, 2); id != qir::kAbsent && count_of(l.tensor(id).shape) > 0) {
    const float *values = qir::constant_floats(l.graph(), id);
    if (!values) return Lowered::NotMine;
    scales.assign(values, values + count_of(l.tensor(id).shape));
  } else if (const std::int32_t list = l.input(node, 3); list != qir::kAbsent) {
    const auto values = l.integers(list);
    if (!values) return Lowered::NotMine;
    sizes = *values;
  }
  qir::ResizeGeometry geometry;
  QR_RETURN_IF_ERROR(qir::resolve_resize(node, in, scales, sizes, &geometry));
  kernels::ResizeF32 p;
  p.nearest = mode == "nearest";
  qir::ResizeAxis axes[4];
  for (std::size_t d = 0; d < 4; ++d) axes[d] = {in[d], out[d], static_cast<float>(geometry.scale[d])};
  if (qir::coordinates_of(node) == qir::Coordinates::Crop && !crop_axes(l, node, geometry, axes))
    return Lowered::NotMine;
  const Vector<Tap> rows = taps_of(node, axes[2], p.nearest != 0), columns = taps_of(node, axes[3], p.nearest != 0);
  // Planes that leave the graph are made of planes, which are fewer elements to bring there where the image grows. One
  // channel is a plane anyhow.
  const bool leaves = l.uses().is_output(yi) && l.uses().users(yi).empty();
  if (bytes || in[1] == 1 || (leaves && (stays_planar(l, xi, yi) || count_of(out) >= 2 * count_of(in)))) {
    return lower_planes(l, node, rows, columns, p.nearest, bytes);
  }
  const View x = l.channels_last(xi), y = l.image_output(yi);
  std::int64_t x_pixel = 0, y_pixel = 0;
  is_channels_last(x, &x_pixel), is_channels_last(y, &y_pixel);
  p.n = narrow(in[0]), p.c = narrow(in[1]), p.ih = narrow(in[2]), p.iw = narrow(in[3]), p.oh = narrow(out[2]),
  p.ow = narrow(out[3]);
  p.x_stride = narrow(x_pixel), p.y_stride = narrow(y_pixel);
  return l.finish_step(Kernel::ResizeF32, p,
                       {arg(x), arg(l.own_constant(bytes_of(rows))), arg(l.own_constant(bytes_of(columns))), arg(y)});
}

Result<Lowered> lower_roi_align(Lowering &l, const qir::Node &node) {
  // Of a bin along an axis. A step is not stopped while it runs: cpu-reference, which may be, does what has more.
  constexpr std::int64_t kMostSamples = 64;
  const std::int32_t xi = node.inputs[0], ri = node.inputs[1], bi = node.inputs[2], yi = node.outputs[0];
  const qir::Shape &shape = l.tensor(xi).shape;
  if (!l.is_f32(xi) || !l.is_f32(ri) || !l.is_f32(yi) ||
      (l.tensor(bi).dtype != DType::I64 && l.tensor(bi).dtype != DType::I32) || shape.size() != 4 ||
      count_of(shape) > INT32_MAX)
    return Lowered::NotMine;
  kernels::RoiAlignF32 p;
  p.n = narrow(shape[0]), p.c = narrow(shape[1]), p.h = narrow(shape[2]), p.w = narrow(shape[3]);
  p.regions = count_of(l.tensor(bi).shape);
  const std::int64_t rows = node.get_int("output_height", 1), columns = node.get_int("output_width", 1),
                     ratio = std::max<std::int64_t>(0, node.get_int("sampling_ratio", 0));
  if (count_of(l.tensor(ri).shape) != 4 * p.regions || rows > 1 << 12 || columns > 1 << 12 || ratio > kMostSamples)
    return Lowered::NotMine;
  p.rows = narrow(rows), p.columns = narrow(columns), p.ratio = narrow(ratio);
  p.scale = node.get_float("spatial_scale", 1.0f);
  p.half_pixel = node.get_string("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  p.greatest = node.get_string("mode", "avg") != "avg";
  p.index_bytes = static_cast<std::uint32_t>(l.width(bi));
  const View x = l.channels_last(xi), rois = l.row_major(ri), batches = l.row_major(bi);
  std::int64_t pixel = 0;
  is_channels_last(x, &pixel);
  p.x_stride = narrow(pixel);
  const View y = l.new_dense(l.tensor(yi).shape, channels_last_order(4), 4);
  l.define(yi, y);
  return l.finish_step(Kernel::RoiAlignF32, p, {arg(x), arg(rois), arg(batches, l.width(bi)), arg(y)});
}

Result<Lowered> lower_grid_sample(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], gi = node.inputs[1], yi = node.outputs[0];
  const qir::Shape &in = l.tensor(xi).shape, &out = l.tensor(yi).shape, &grid = l.tensor(gi).shape;
  if (!l.is_f32(xi) || !l.is_f32(gi) || !l.is_f32(yi) || in.size() != 4 || grid.size() != 4 || grid[0] != in[0] ||
      grid[3] != 2 || count_of(in) > INT32_MAX || count_of(out) > INT32_MAX)
    return Lowered::NotMine;
  const std::string_view mode = node.get_string("mode", "linear"), padding = node.get_string("padding_mode", "zeros");
  kernels::GridSampleF32 p;
  p.mode = mode == "nearest" ? kernels::SampleMode::Nearest
           : mode == "cubic" ? kernels::SampleMode::Cubic
                             : kernels::SampleMode::Linear;
  p.padding = padding == "border"       ? kernels::SamplePadding::Border
              : padding == "reflection" ? kernels::SamplePadding::Reflection
                                        : kernels::SamplePadding::Zeros;
  p.align_corners = node.get_int("align_corners", 0) != 0;
  p.n = narrow(in[0]), p.c = narrow(in[1]), p.h = narrow(in[2]), p.w = narrow(in[3]), p.oh = narrow(out[2]),
  p.ow = narrow(out[3]);
  // Planes stay so where few of their pixels are read, or few channels would be no vectors.
  const bool planes = l.is_planar(xi);
  p.planes = planes && p.mode != kernels::SampleMode::Cubic && (in[1] < 8 || out[2] * out[3] <= in[2] * in[3] / 2);
  if (p.planes) {
    p.x_stride = p.y_stride = p.c;
    const View x = l.row_major(xi), at = l.row_major(gi), y = l.new_row_major(out, 4);
    l.define(yi, y);
    return l.finish_step(Kernel::GridSampleF32, p, {arg(x), arg(at), arg(y)});
  }
  const View x = l.channels_last(xi), samples = l.row_major(gi), y = l.image_output(yi);
  std::int64_t x_pixel = 0, y_pixel = 0;
  is_channels_last(x, &x_pixel), is_channels_last(y, &y_pixel);
  p.x_stride = narrow(x_pixel), p.y_stride = narrow(y_pixel);
  return l.finish_step(Kernel::GridSampleF32, p, {arg(x), arg(samples), arg(y)});
}

}  // namespace quarry::cpu
