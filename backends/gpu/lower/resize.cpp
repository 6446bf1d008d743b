// SPDX-License-Identifier: Apache-2.0
// Windows and images: pools, local normalisation, Resize.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "backends/gpu/lower/rules.h"
#include "graph/infer/infer.h"
#include "graph/ops/resize_coordinates.h"

namespace quarry::gpu {

using qir::Op;

Status lower_pool(Lowering &l, const qir::Node &node) {
  if (node.outputs.size() > 1 && node.outputs[1] != qir::kAbsent)
    return refuse(ErrorId::backend_limit, node, "found the indices wanted as a result");
  const View x = l.view(node.inputs[0]);
  qir::Window w;
  QR_RETURN_IF_ERROR(qir::resolve_pool(node, x.dims, &w));
  if (w.rank > 3)
    return refuse(ErrorId::backend_limit, node, format("found %u spatial axes, expected at most 3", w.rank));
  if (strided::count_of(x.dims) == 0) return refuse(ErrorId::backend_limit, node, "found an input without elements");
  PoolParams p{.HOW = field_of(node.op == Op::MaxPool       ? Pooling::Max
                               : node.op == Op::AveragePool ? Pooling::Average
                                                            : Pooling::Lp),
               .EXPONENT = node.get_int("p", 2),
               .WITH_PADDING = node.get_int("count_include_pad", 0) != 0,
               .window = window_of(w, x)};
  for (std::uint32_t i = 0; i < w.rank; ++i) p.PAD_END[3 - w.rank + i] = w.pad_end[i];
  const Dims dims{x.dims[0], x.dims[1], p.window.OUT[0] * p.window.OUT[1] * p.window.OUT[2]};
  FusedExpression elements;
  elements.result = node.outputs[0];
  l.fuse(elements, [&](const View &v) { return strided::reshaped(v, dims).has_value(); });
  for (Arg &operand : elements.operands) operand.view = strided::broadcast(operand.view, l.shape(elements.result));
  const Arg base[] = {{{x.value, x.offset, dims, {x.strides[0], x.strides[1], 0}}, l.dtype(node.inputs[0])}};
  const View y = l.result(elements.result);
  return l.emit(p, dims, base, elements, {y, l.dtype(elements.result)});
}

Status lower_lrn(Lowering &l, const qir::Node &node) {
  const View x = l.view(node.inputs[0]);
  if (x.rank() < 2) return refuse(ErrorId::backend_limit, node, "found no channels, expected images");
  const std::int64_t size = node.get_int("size", 1);
  const auto bits = [](float value) -> std::int64_t { return std::bit_cast<std::int32_t>(value); };
  const LrnParams p{.SIZE = std::min(size, 2 * x.dims[1]),  // there are no more
                    .CHANNELS = x.dims[1],
                    .STEP = x.strides[1],
                    .ALPHA = bits(node.get_float("alpha", 1e-4f) / static_cast<float>(size)),
                    .BETA = bits(node.get_float("beta", 0.75f)),
                    .BIAS = bits(node.get_float("bias", 1))};
  FusedExpression elements;
  elements.result = node.outputs[0];
  l.fuse(elements, [](const View &) { return true; });
  for (Arg &operand : elements.operands) operand.view = strided::broadcast(operand.view, l.shape(elements.result));
  const Arg base[] = {l.arg(node.inputs[0])};
  const View y = l.result(elements.result);
  return l.emit(p, x.dims, base, elements, {y, l.dtype(elements.result)});
}

Status lower_grid_sample(Lowering &l, const qir::Node &node) {
  const View x = l.view(node.inputs[0]), grid = l.view(node.inputs[1]);
  const std::size_t space = x.rank() - 2;
  if (x.rank() < 3 || space > 3) return refuse(ErrorId::backend_limit, node, "found more than three spatial axes");
  if (strided::count_of(x.dims) == 0) return refuse(ErrorId::backend_limit, node, "found an input without elements");
  const std::string_view mode = node.get_string("mode", "linear"), padding = node.get_string("padding_mode", "zeros");
  GridSampleParams p{.MODE = field_of(mode == "nearest" ? GridMode::Nearest
                                      : mode == "cubic" ? GridMode::Cubic
                                                        : GridMode::Linear),
                     .PADDING = field_of(padding == "border"       ? GridPadding::Border
                                         : padding == "reflection" ? GridPadding::Reflection
                                                                   : GridPadding::Zeros),
                     .ALIGNED = node.get_int("align_corners", 0) != 0,
                     .SPACE = static_cast<std::int64_t>(space),
                     .GRID_STEP = grid.strides.back(),
                     .IN = {1, 1, 1}};
  for (std::size_t i = 0; i < space; ++i) p.IN[3 - space + i] = x.dims[2 + i], p.X[3 - space + i] = x.strides[2 + i];
  const Dims &dims = l.shape(node.outputs[0]);
  View from{x.value, x.offset, dims, Dims(dims.size(), 0)}, at{grid.value, grid.offset, dims, Dims(dims.size(), 0)};
  from.strides[0] = x.strides[0], from.strides[1] = x.strides[1];
  at.strides[0] = grid.strides[0];
  for (std::size_t i = 0; i < space; ++i) at.strides[2 + i] = grid.strides[1 + i];
  const Arg base[] = {{from, l.dtype(node.inputs[0])}, {at, l.dtype(node.inputs[1])}};
  FusedExpression elements;
  elements.result = node.outputs[0];
  const View y = l.result(elements.result);
  return l.emit(p, dims, base, elements, {y, l.dtype(elements.result)});
}

namespace {

struct Taps {
  std::int64_t count = 1;
  Vector<std::int32_t> index;
  Vector<float> weight;
};

// As cpu-reference has them: index and weight of each tap for each position of the result.
Result<Taps> taps_of(const qir::Node &node, const qir::ResizeAxis &axis) {
  const qir::Coordinates coordinates = qir::coordinates_of(node);
  const std::string_view mode = node.get_string("mode", "nearest");
  const bool nearest = mode == "nearest", cubic = mode == "cubic", antialias = node.get_int("antialias", 0) != 0,
             exclude = node.get_int("exclude_outside", 0) != 0;
  const double a = static_cast<double>(node.get_float("cubic_coeff_a", -0.75F));
  const double stretch = antialias && !nearest ? std::min(static_cast<double>(axis.scale), 1.0) : 1.0;
  const double first_tap = nearest ? 0 : std::floor(-(cubic ? 2.0 : 1.0) / stretch) + 1;
  if (!(first_tap >= -2.0 * static_cast<double>(axis.in) - 4))
    return refuse(ErrorId::backend_limit, node, "found a scale that leaves nothing");
  const auto first = static_cast<std::int64_t>(first_tap);
  Taps taps;
  taps.count = nearest ? 1 : 2 - 2 * first;
  for (std::int64_t y = 0; y < axis.out; ++y) {
    const float x = qir::original(axis, coordinates, y);
    if (nearest) {
      taps.index.push_back(
          static_cast<std::int32_t>(qir::clamp_index(qir::nearest_index(x, qir::nearest_of(node)), axis.in)));
      taps.weight.push_back(1);
      continue;
    }
    const float floor = std::floor(x);
    const double ratio = static_cast<double>(x) - static_cast<double>(floor);
    Vector<double> weights;
    double sum = 0;
    for (std::int64_t t = 0; t < taps.count; ++t) {
      const float place = floor + static_cast<float>(first + t);
      const double distance = (static_cast<double>(first + t) - ratio) * stretch;
      double weight = cubic ? qir::cubic_weight(distance, a) : std::max(1 - std::fabs(distance), 0.0);
      if (exclude && !(place >= 0 && place < static_cast<float>(axis.in))) weight = 0;
      taps.index.push_back(static_cast<std::int32_t>(qir::clamp_index(place, axis.in)));
      weights.push_back(weight);
      sum += weight;
    }
    for (const double weight : weights)
      taps.weight.push_back(static_cast<float>((exclude || antialias) && sum != 0 ? weight / sum : weight));
  }
  return taps;
}

}  // namespace

Status lower_resize(Lowering &l, const qir::Node &node) {
  const View x = l.view(node.inputs[0]);
  const std::int32_t si = node.inputs[2];
  std::optional<Vector<float>> scales = Vector<float>();
  if (si != qir::kAbsent) scales = l.reals(si);
  if (!scales) return refuse(ErrorId::backend_limit, node, "found scales that the run computes, expected constants");
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> sizes, l.integers(node, 3, "sizes"));
  qir::ResizeGeometry geometry;
  QR_RETURN_IF_ERROR(qir::resolve_resize(node, x.dims, *scales, sizes, &geometry));
  if (qir::coordinates_of(node) == qir::Coordinates::Crop)
    return refuse(ErrorId::backend_limit, node, "found tf_crop_and_resize, which gpu does not have");
  if (strided::count_of(x.dims) == 0) return refuse(ErrorId::backend_limit, node, "found an input without elements");
  const Dims &dims = l.shape(node.outputs[0]);
  View from{x.value, x.offset, dims, x.strides};
  ResizeParams p{.TAPS = {1, 1, 1, 1}, .IN = {1, 1, 1, 1}};
  Vector<std::int32_t> indices(static_cast<std::size_t>(dims[0]), 0);  // of axes that are not there
  Vector<float> weights(static_cast<std::size_t>(dims[0]), 1);
  std::size_t count = 0;
  for (std::size_t d = 0; d < x.rank(); ++d) {
    const qir::ResizeAxis axis{x.dims[d], dims[d], static_cast<float>(geometry.scale[d])};
    if (axis.in == axis.out && axis.scale == 1) continue;
    if (count == 4) return refuse(ErrorId::backend_limit, node, "found more than 4 axes that are resized");
    QR_ASSIGN_OR_RETURN(const Taps made, taps_of(node, axis));
    p.TAPS[count] = made.count, p.TABLE[count] = static_cast<std::int64_t>(indices.size());
    p.AXIS[count] = static_cast<std::int64_t>(d);
    p.IN[count] = axis.in, p.STEP[count] = x.strides[d], from.strides[d] = 0;
    indices.insert(indices.end(), made.index.begin(), made.index.end());
    weights.insert(weights.end(), made.weight.begin(), made.weight.end());
    ++count;
  }
  const auto kept = [&](const auto &list) {
    const View v = l.constant(l.store().copy(list.data(), list.size() * 4), {static_cast<std::int64_t>(list.size())});
    return View{v.value, 0, dims, Dims(dims.size(), 0)};
  };
  const Arg base[] = {{from, l.dtype(node.inputs[0])}, {kept(indices), DType::I32}, {kept(weights), DType::F32}};
  FusedExpression elements;
  elements.result = node.outputs[0];
  l.fuse(elements, [](const View &) { return true; });
  for (Arg &operand : elements.operands) operand.view = strided::broadcast(operand.view, l.shape(elements.result));
  const View y = l.result(elements.result);
  return l.emit(p, dims, base, elements, {y, l.dtype(elements.result)});
}

}  // namespace quarry::gpu
