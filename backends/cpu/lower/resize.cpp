// SPDX-License-Identifier: Apache-2.0
// Pooling, resizing, and images read at places that are computed.
#include <algorithm>
#include <cmath>

#include "backends/cpu/lower/lowering.h"
#include "graph/infer/infer.h"
#include "graph/ops/resize_coordinates.h"

namespace quarry::cpu {

using kernels::Kernel;
using kernels::PoolOp;
using qir::Op;

namespace {
std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }
}  // namespace

// The window of a pooling node; false where a kernel cannot take it.
bool Lowering::pool_window(const qir::Node &node, kernels::Window *window, std::int32_t *pad_bottom,
                           std::int32_t *pad_right, PoolOp *op) const {
  const qir::Shape &shape = tensor(node.inputs[0]).shape;
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] != qir::kAbsent) return false;  // indices of MaxPool
  qir::Window w;
  if (!qir::resolve_pool(node, shape, &w).ok() || w.rank < 1 || w.rank > 2) return false;
  for (std::size_t i = 0; i < w.rank; ++i) {
    if (w.kernel[i] > 1 << 12 || w.stride[i] > 1 << 12 || w.dilation[i] > 1 << 12 || w.pad_begin[i] < 0 ||
        w.pad_end[i] < 0)
      return false;
    // A window that lies outside altogether has a meaning of its own.
    if (w.pad_begin[i] > (w.kernel[i] - 1) * w.dilation[i] || w.pad_end[i] > (w.kernel[i] - 1) * w.dilation[i])
      return false;
  }
  if (count_of(shape) > INT32_MAX || shape[1] > 1 << 20) return false;
  *window = {};
  const std::size_t x = w.rank - 1;
  window->n = narrow(shape[0]);
  window->iw = narrow(w.in[x]), window->ow = narrow(w.out[x]), window->kw = narrow(w.kernel[x]);
  window->sw = narrow(w.stride[x]), window->dw = narrow(w.dilation[x]), window->pad_left = narrow(w.pad_begin[x]);
  *pad_right = narrow(w.pad_end[x]), *pad_bottom = 0;
  if (w.rank == 2) {
    window->ih = narrow(w.in[0]), window->oh = narrow(w.out[0]), window->kh = narrow(w.kernel[0]);
    window->sh = narrow(w.stride[0]), window->dh = narrow(w.dilation[0]), window->pad_top = narrow(w.pad_begin[0]);
    *pad_bottom = narrow(w.pad_end[0]);
  }
  *op = node.op == Op::MaxPool                 ? PoolOp::Max
        : node.get_int("count_include_pad", 0) ? PoolOp::AverageIncludePad
                                               : PoolOp::AverageExcludePad;
  return true;
}

Status Lowering::lower_pool(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const DType dtype = tensor(xi).dtype;
  if (node.op == Op::MaxPool && (dtype == DType::U8 || dtype == DType::I8) && tensor(yi).dtype == dtype) {
    kernels::PoolInt bytes;  // as numbers that stand for themselves
    if (!pool_window(node, &bytes.window, &bytes.pad_bottom, &bytes.pad_right, &bytes.op)) return {};
    bytes.x.dtype = bytes.y.dtype = static_cast<std::uint32_t>(dtype);
    const View x = channels_last(xi), y = image_output(yi);
    std::int64_t x_pixel = 0, y_pixel = 0;
    is_channels_last(x, &x_pixel), is_channels_last(y, &y_pixel);
    bytes.c = narrow(x.dims[1]), bytes.x_stride = narrow(x_pixel), bytes.y_stride = narrow(y_pixel);
    *done = true;
    return emit_step(Kernel::PoolInt, bytes, {arg(x, 1), arg(y, 1)});
  }
  kernels::PoolF32 p;
  if (!is_f32(xi) || !is_f32(yi) || !pool_window(node, &p.window, &p.pad_bottom, &p.pad_right, &p.op)) return {};
  // What comes as ONNX has it, from outside or from operators on rows, stays so.
  constexpr std::int32_t kWorthVectors = 8;
  any(xi);  // one at least
  const Vector<View> &forms = forms_[static_cast<std::size_t>(xi)];
  const bool planes = std::ranges::all_of(forms, [](const View &form) { return is_row_major(form); });
  // One channel is a plane whatever it comes from; as channels last it would fill one lane of a vector.
  const bool alone = tensor(xi).shape[1] == 1, joined = slots_[static_cast<std::size_t>(yi)].concat != qir::kAbsent;
  // Windows of a great many taps are summed up in slices, which channels last can.
  constexpr std::int64_t kMostPlaneTaps = 1 << 16;
  const bool fits_planes = std::int64_t{p.window.kh} * p.window.kw <= kMostPlaneTaps;
  if (fits_planes && (alone || (planes && p.window.sw <= 2 && p.window.ow >= kWorthVectors && !joined))) {
    kernels::PoolPlanesF32 q{
        p.window, count_of({tensor(xi).shape[0], tensor(xi).shape[1]}), p.pad_bottom, p.pad_right, p.op, 0};
    q.window.n = 1;
    kernels::Needs needs;
    if (kernels::kernel_row(Kernel::PoolPlanesF32).check(&q, *plan_.isa, needs).ok()) {
      const View x = row_major(xi), y = new_row_major(tensor(yi).shape, 4);
      *done = true;
      QR_RETURN_IF_ERROR(emit_step(Kernel::PoolPlanesF32, q, {arg(x), arg(y)}));
      if (joined) copy(y, image_output(yi), 4, yi);
      else define(yi, y);
      return {};
    }
  }
  const View x = channels_last(xi), y = image_output(yi);
  std::int64_t x_pixel = 0, y_pixel = 0;
  is_channels_last(x, &x_pixel), is_channels_last(y, &y_pixel);
  p.c = narrow(x.dims[1]);
  p.x_stride = narrow(x_pixel), p.y_stride = narrow(y_pixel);
  *done = true;
  return emit_step(Kernel::PoolF32, p, {arg(x), arg(y)});
}

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

}  // namespace

// The regions of interest of the axes; false where they are not known, resize channels, or reach beyond the image.
bool Lowering::crop_axes(const qir::Node &node, const qir::ResizeGeometry &geometry, qir::ResizeAxis *axes) const {
  const std::int32_t id = input(node, 1);
  const float *const region = id == qir::kAbsent ? nullptr : qir::constant_floats(graph_, id);
  const std::size_t count = geometry.axes.size;
  if (!region || count_of(tensor(id).shape) != static_cast<std::int64_t>(2 * count)) return false;
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

Status Lowering::lower_resize(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const std::string_view mode = node.get_string("mode", "nearest");
  const DType dtype = tensor(xi).dtype;
  // Bytes between which is read become f32 and are rounded.
  const bool bytes = (dtype == DType::U8 || dtype == DType::I8) && mode == "linear" && !tensor(xi).quant &&
                     !tensor(yi).quant && tensor(yi).dtype == dtype;
  if ((!bytes && (!is_f32(xi) || !is_f32(yi))) || (mode != "nearest" && mode != "linear") ||
      node.get_int("antialias", 0) != 0 || node.outputs.size() != 1)
    return {};
  const qir::Shape &in = tensor(xi).shape, &out = tensor(yi).shape;
  if (in.size() != 4 || in[0] != out[0] || in[1] != out[1] || count_of(in) > INT32_MAX || count_of(out) > INT32_MAX)
    return {};
  Vector<float> scales;
  Vector<std::int64_t> sizes;
  if (const std::int32_t id = input(node, 2); id != qir::kAbsent && count_of(tensor(id).shape) > 0) {
    const float *values = qir::constant_floats(graph_, id);
    if (!values) return {};
    scales.assign(values, values + count_of(tensor(id).shape));
  } else if (const std::int32_t list = input(node, 3); list != qir::kAbsent) {
    const auto values = integers(list);
    if (!values) return {};
    sizes = *values;
  }
  qir::ResizeGeometry geometry;
  QR_RETURN_IF_ERROR(qir::resolve_resize(node, in, scales, sizes, &geometry));
  kernels::ResizeF32 p;
  p.nearest = mode == "nearest";
  qir::ResizeAxis axes[4];
  for (std::size_t d = 0; d < 4; ++d) axes[d] = {in[d], out[d], static_cast<float>(geometry.scale[d])};
  if (qir::coordinates_of(node) == qir::Coordinates::Crop && !crop_axes(node, geometry, axes)) return {};
  const Vector<Tap> rows = taps_of(node, axes[2], p.nearest != 0), columns = taps_of(node, axes[3], p.nearest != 0);
  // Planes that leave the graph are made of planes, which are fewer elements to bring there where the image grows. One
  // channel is a plane anyhow.
  const bool leaves = uses_.is_output(yi) && uses_.users(yi).empty();
  if (bytes || in[1] == 1 || (leaves && (stays_planar(xi, yi) || count_of(out) >= 2 * count_of(in)))) {
    const kernels::ResizePlanesF32 q{
        in[0] * in[1], narrow(in[2]), narrow(in[3]), narrow(out[2]), narrow(out[3]), p.nearest, 0};
    View x = row_major(xi);
    const View y = new_row_major(out, width(yi)), made = bytes ? new_row_major(out, 4) : y;
    define(yi, y);
    *done = true;
    const auto type = static_cast<std::uint32_t>(dtype);
    if (bytes) {
      const View wide = new_row_major(in, 4);
      const kernels::Cast cast{type, static_cast<std::uint32_t>(DType::F32), count_of(in)};
      QR_RETURN_IF_ERROR(emit_step(Kernel::Cast, cast, {arg(x, 1), arg(wide)}));
      x = wide;
    }
    QR_RETURN_IF_ERROR(
        emit_step(Kernel::ResizePlanesF32, q,
                  {arg(x), arg(own_constant(bytes_of(rows))), arg(own_constant(bytes_of(columns))), arg(made)}));
    if (!bytes) return {};
    return emit_step(Kernel::Quantize, kernels::Quantize{count_of(out), {type, 0, 1, 0}}, {arg(made), arg(y, 1)});
  }
  const View x = channels_last(xi), y = image_output(yi);
  std::int64_t x_pixel = 0, y_pixel = 0;
  is_channels_last(x, &x_pixel), is_channels_last(y, &y_pixel);
  p.n = narrow(in[0]), p.c = narrow(in[1]), p.ih = narrow(in[2]), p.iw = narrow(in[3]), p.oh = narrow(out[2]),
  p.ow = narrow(out[3]);
  p.x_stride = narrow(x_pixel), p.y_stride = narrow(y_pixel);
  *done = true;
  return emit_step(Kernel::ResizeF32, p,
                   {arg(x), arg(own_constant(bytes_of(rows))), arg(own_constant(bytes_of(columns))), arg(y)});
}

Status Lowering::lower_col2im(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const auto image = integers(input(node, 1)), block = integers(input(node, 2));
  if (!is_f32(xi) || !is_f32(yi) || !image || !block) return {};
  qir::Window w;
  QR_RETURN_IF_ERROR(qir::resolve_col2im(node, tensor(xi).shape, *image, *block, &w));
  if (w.rank < 1 || w.rank > 2 || w.stride[w.rank - 1] != 1) return {};
  const std::size_t last = w.rank - 1;
  kernels::Col2ImF32 p;
  for (std::size_t i = 0; i < w.rank; ++i)
    for (const std::int64_t number :
         {w.in[i], w.out[i], w.kernel[i], w.stride[i], w.dilation[i], w.pad_begin[i], w.pad_end[i]})
      if (number < 0 || number > 1 << 16) return {};
  kernels::Window &to = p.window;
  to.iw = narrow(w.in[last]), to.ow = narrow(w.out[last]), to.kw = narrow(w.kernel[last]);
  to.dw = narrow(w.dilation[last]), to.pad_left = narrow(w.pad_begin[last]);
  if (w.rank == 2) {
    to.ih = narrow(w.in[0]), to.oh = narrow(w.out[0]), to.kh = narrow(w.kernel[0]), to.sh = narrow(w.stride[0]);
    to.dh = narrow(w.dilation[0]), to.pad_top = narrow(w.pad_begin[0]);
  }
  p.planes = count_of({tensor(yi).shape[0], tensor(yi).shape[1]});
  kernels::Needs needs;
  if (!kernels::kernel_row(Kernel::Col2ImF32).check(&p, *plan_.isa, needs).ok()) return {};
  const View x = row_major(xi), y = new_row_major(tensor(yi).shape, 4);
  define(yi, y);
  *done = true;
  return emit_step(Kernel::Col2ImF32, p, {arg(x), arg(y)});
}

Status Lowering::lower_roi_align(const qir::Node &node, bool *done) {
  // Of a bin along an axis. A step is not stopped while it runs: cpu-reference, which may be, does what has more.
  constexpr std::int64_t kMostSamples = 64;
  const std::int32_t xi = node.inputs[0], ri = node.inputs[1], bi = node.inputs[2], yi = node.outputs[0];
  const qir::Shape &shape = tensor(xi).shape;
  if (!is_f32(xi) || !is_f32(ri) || !is_f32(yi) || (tensor(bi).dtype != DType::I64 && tensor(bi).dtype != DType::I32) ||
      shape.size() != 4 || count_of(shape) > INT32_MAX)
    return {};
  kernels::RoiAlignF32 p;
  p.n = narrow(shape[0]), p.c = narrow(shape[1]), p.h = narrow(shape[2]), p.w = narrow(shape[3]);
  p.regions = count_of(tensor(bi).shape);
  const std::int64_t rows = node.get_int("output_height", 1), columns = node.get_int("output_width", 1),
                     ratio = std::max<std::int64_t>(0, node.get_int("sampling_ratio", 0));
  if (count_of(tensor(ri).shape) != 4 * p.regions || rows > 1 << 12 || columns > 1 << 12 || ratio > kMostSamples)
    return {};
  p.rows = narrow(rows), p.columns = narrow(columns), p.ratio = narrow(ratio);
  p.scale = node.get_float("spatial_scale", 1.0f);
  p.half_pixel = node.get_string("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  p.greatest = node.get_string("mode", "avg") != "avg";
  p.index_bytes = static_cast<std::uint32_t>(width(bi));
  const View x = channels_last(xi), rois = row_major(ri), batches = row_major(bi);
  std::int64_t pixel = 0;
  is_channels_last(x, &pixel);
  p.x_stride = narrow(pixel);
  const View y = new_dense(tensor(yi).shape, channels_last_order(4), 4);
  define(yi, y);
  *done = true;
  return emit_step(Kernel::RoiAlignF32, p, {arg(x), arg(rois), arg(batches, width(bi)), arg(y)});
}

Status Lowering::lower_grid_sample(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], gi = node.inputs[1], yi = node.outputs[0];
  const qir::Shape &in = tensor(xi).shape, &out = tensor(yi).shape, &grid = tensor(gi).shape;
  if (!is_f32(xi) || !is_f32(gi) || !is_f32(yi) || in.size() != 4 || grid.size() != 4 || grid[0] != in[0] ||
      grid[3] != 2 || count_of(in) > INT32_MAX || count_of(out) > INT32_MAX)
    return {};
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
  any(xi);
  const bool planes =
      std::ranges::all_of(forms_[static_cast<std::size_t>(xi)], [](const View &form) { return is_row_major(form); });
  p.planes = planes && p.mode != kernels::SampleMode::Cubic && (in[1] < 8 || out[2] * out[3] <= in[2] * in[3] / 2);
  if (p.planes) {
    p.x_stride = p.y_stride = p.c;
    const View x = row_major(xi), at = row_major(gi), y = new_row_major(out, 4);
    define(yi, y);
    *done = true;
    return emit_step(Kernel::GridSampleF32, p, {arg(x), arg(at), arg(y)});
  }
  const View x = channels_last(xi), places = row_major(gi), y = image_output(yi);
  std::int64_t x_pixel = 0, y_pixel = 0;
  is_channels_last(x, &x_pixel), is_channels_last(y, &y_pixel);
  p.x_stride = narrow(x_pixel), p.y_stride = narrow(y_pixel);
  *done = true;
  return emit_step(Kernel::GridSampleF32, p, {arg(x), arg(places), arg(y)});
}

}  // namespace quarry::cpu
