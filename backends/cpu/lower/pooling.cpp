// SPDX-License-Identifier: Apache-2.0
// Pooling, and the sum of overlapping blocks.
#include <algorithm>
#include <cmath>

#include "backends/cpu/lower/rules.h"

namespace quarry::cpu {

using kernels::Kernel;
using kernels::PoolOp;
using qir::Op;

// The window of a pooling node; false where a kernel cannot take it.
bool pool_window(const Lowering &l, const qir::Node &node, kernels::Window *window, std::int32_t *pad_bottom,
                 std::int32_t *pad_right, PoolOp *op) {
  const qir::Shape &shape = l.tensor(node.inputs[0]).shape;
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

Result<Lowered> emit_pool_int(Lowering &l, const qir::Node &node, kernels::PoolInt p) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const View x = l.channels_last(xi), y = l.image_output(yi);
  std::int64_t x_pixel = 0, y_pixel = 0;
  is_channels_last(x, &x_pixel), is_channels_last(y, &y_pixel);
  p.c = narrow(x.dims[1]), p.x_stride = narrow(x_pixel), p.y_stride = narrow(y_pixel);
  return l.finish_step(Kernel::PoolInt, p, {arg(x, l.width(xi)), arg(y, l.width(yi))});
}

Result<Lowered> lower_pool(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const DType dtype = l.tensor(xi).dtype;
  if (node.op == Op::MaxPool && (dtype == DType::U8 || dtype == DType::I8) && l.tensor(yi).dtype == dtype) {
    kernels::PoolInt bytes;  // as numbers that stand for themselves
    if (!pool_window(l, node, &bytes.window, &bytes.pad_bottom, &bytes.pad_right, &bytes.op)) return Lowered::NotMine;
    bytes.x.dtype = bytes.y.dtype = static_cast<std::uint32_t>(dtype);
    return emit_pool_int(l, node, bytes);
  }
  kernels::PoolF32 p;
  if (!l.is_f32(xi) || !l.is_f32(yi) || !pool_window(l, node, &p.window, &p.pad_bottom, &p.pad_right, &p.op))
    return Lowered::NotMine;
  // What comes as ONNX has it, from outside or from operators on rows, stays so.
  constexpr std::int32_t kWorthVectors = 8;
  const bool planes = l.is_planar(xi);
  // One channel is a plane whatever it comes from; as channels last it would fill one lane of a vector.
  const bool alone = l.tensor(xi).shape[1] == 1, joined = l.is_joined(yi);
  // Windows of a great many taps are summed up in slices, which channels last can.
  constexpr std::int64_t kMostPlaneTaps = 1 << 16;
  const bool fits_planes = std::int64_t{p.window.kh} * p.window.kw <= kMostPlaneTaps;
  if (fits_planes && (alone || (planes && p.window.sw <= 2 && p.window.ow >= kWorthVectors && !joined))) {
    kernels::PoolPlanesF32 q{
        p.window, count_of({l.tensor(xi).shape[0], l.tensor(xi).shape[1]}), p.pad_bottom, p.pad_right, p.op, 0};
    q.window.n = 1;
    if (l.takes(Kernel::PoolPlanesF32, &q)) {
      const View x = l.row_major(xi), y = l.new_row_major(l.tensor(yi).shape, 4);
      QR_RETURN_IF_ERROR(l.emit_step(Kernel::PoolPlanesF32, q, {arg(x), arg(y)}));
      if (joined) l.copy(y, l.image_output(yi), 4, yi);
      else l.define(yi, y);
      return Lowered::Done;
    }
  }
  const View x = l.channels_last(xi), y = l.image_output(yi);
  std::int64_t x_pixel = 0, y_pixel = 0;
  is_channels_last(x, &x_pixel), is_channels_last(y, &y_pixel);
  p.c = narrow(x.dims[1]);
  p.x_stride = narrow(x_pixel), p.y_stride = narrow(y_pixel);
  return l.finish_step(Kernel::PoolF32, p, {arg(x), arg(y)});
}

Result<Lowered> lower_col2im(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const auto image = l.integers(l.input(node, 1)), block = l.integers(l.input(node, 2));
  if (!l.is_f32(xi) || !l.is_f32(yi) || !image || !block) return Lowered::NotMine;
  qir::Window w;
  QR_RETURN_IF_ERROR(qir::resolve_col2im(node, l.tensor(xi).shape, *image, *block, &w));
  if (w.rank < 1 || w.rank > 2 || w.stride[w.rank - 1] != 1) return Lowered::NotMine;
  const std::size_t last = w.rank - 1;
  kernels::Col2ImF32 p;
  for (std::size_t i = 0; i < w.rank; ++i)
    for (const std::int64_t number :
         {w.in[i], w.out[i], w.kernel[i], w.stride[i], w.dilation[i], w.pad_begin[i], w.pad_end[i]})
      if (number < 0 || number > 1 << 16) return Lowered::NotMine;
  kernels::Window &to = p.window;
  to.iw = narrow(w.in[last]), to.ow = narrow(w.out[last]), to.kw = narrow(w.kernel[last]);
  to.dw = narrow(w.dilation[last]), to.pad_left = narrow(w.pad_begin[last]);
  if (w.rank == 2) {
    to.ih = narrow(w.in[0]), to.oh = narrow(w.out[0]), to.kh = narrow(w.kernel[0]), to.sh = narrow(w.stride[0]);
    to.dh = narrow(w.dilation[0]), to.pad_top = narrow(w.pad_begin[0]);
  }
  p.planes = count_of({l.tensor(yi).shape[0], l.tensor(yi).shape[1]});
  if (!l.takes(Kernel::Col2ImF32, &p)) return Lowered::NotMine;
  const View x = l.row_major(xi), y = l.new_row_major(l.tensor(yi).shape, 4);
  l.define(yi, y);
  return l.finish_step(Kernel::Col2ImF32, p, {arg(x), arg(y)});
}

}  // namespace quarry::cpu
