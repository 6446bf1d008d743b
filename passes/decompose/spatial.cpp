// SPDX-License-Identifier: Apache-2.0
// Operators over spatial axes (pools, Resize, convolutions) with more axes, or other weights, than kernels take. cpu
// and gpu call this pass before they lower.
#include <algorithm>

#include "graph/infer/infer.h"
#include "passes/decompose/decompose.h"

namespace quarry::passes {

using qir::at;
using qir::Op;

namespace {

// ---- pools ----------------------------------------------------------------------------------------

// A 3-D pool is a 2-D pool over H, W and a 1-D pool over D. That holds for means too: a window that reaches over an
// edge has as many elements as its part along D times its part in H, W.
bool pool_of_three(Decomposer &s) {
  const qir::Node &node = s.node();
  qir::Window w;
  if (node.outputs.size() != 1 || !qir::resolve_pool(node, s.in(0).shape, &w).ok() || w.rank != 3) return false;
  for (std::size_t i = 0; i < 3; ++i)
    if (w.in[i] < 1 || w.out[i] < 1 || w.pad_begin[i] < 0 || w.pad_end[i] < 0) return false;
  const qir::Shape shape = s.in(0).shape;
  const DType dtype = s.in(0).dtype;
  const auto pool = [&](std::int32_t x, const qir::Shape &made, std::initializer_list<std::size_t> axes) {
    const std::int32_t y = s.of(node.op, {x}, dtype, made);
    qir::Node &one = s.last_made();
    const auto each = [&](const std::int64_t(&values)[qir::kMaxSpatial], std::int64_t otherwise) {
      Vector<std::int64_t> list;
      for (const std::size_t axis : axes) list.push_back(values[axis]);
      if (list.size() < 2) list.push_back(otherwise);
      return list;
    };
    one.set("kernel_shape", each(w.kernel, 1));
    one.set("strides", each(w.stride, 1));
    one.set("dilations", each(w.dilation, 1));
    Vector<std::int64_t> pads = each(w.pad_begin, 0);
    for (const std::int64_t pad : each(w.pad_end, 0)) pads.push_back(pad);
    one.set("pads", std::move(pads));
    for (const char *name : {"ceil_mode", "count_include_pad"})
      if (const qir::Attribute *given = node.find(name)) one.set(name, given->i);
    return y;
  };
  const std::int64_t n = shape[0], c = shape[1];
  const std::int32_t planes = s.reshape(node.inputs[0], {n, c * w.in[0], w.in[1], w.in[2]});
  const std::int32_t flat = pool(planes, {n, c * w.in[0], w.out[1], w.out[2]}, {1, 2});
  const std::int64_t plane = w.out[1] * w.out[2];
  const std::int32_t deep = pool(s.reshape(flat, {n, c, w.in[0], plane}), {n, c, w.out[0], plane}, {0});
  s.give(Op::Reshape, {deep, s.integers(s.out().shape)});
  return true;
}

// ---- Resize ---------------------------------------------------------------------------------------

// A 1-D, 3-D or channels-last Resize is one or two Resizes of NCHW images.
bool resize_as_images(Decomposer &s) {
  const qir::Node &node = s.node();
  const qir::Shape in = s.in(0).shape, out = s.out().shape;
  if (node.get_string("mode", "nearest") != "linear" || node.get_int("antialias", 0) != 0 ||
      node.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize" || node.find("axes") ||
      node.get_string("keep_aspect_ratio_policy", "stretch") != "stretch" || in.size() < 3 || in.size() > 5 ||
      in[0] != out[0])
    return false;
  const std::size_t rank = in.size();
  const std::int32_t scales = node.inputs[2];
  const bool scaled = scales != qir::kAbsent && elements(s.tensor(scales).shape) > 0;
  const float *const given = scaled ? qir::constant_floats(s.rewriting().graph, scales) : nullptr;
  if (scaled && !given) return false;
  if (!scaled && (node.inputs[3] == qir::kAbsent || !s.tensor(node.inputs[3]).is_constant)) return false;
  const auto scale = [&](std::size_t axis) { return given ? given[axis] : 1.0f; };
  if (scale(0) != 1) return false;
  const bool last = rank == 4 && in[3] == out[3] && scale(3) == 1 && (in[1] != out[1] || scale(1) != 1);
  if (!last && (rank == 4 || in[1] != out[1] || scale(1) != 1)) return false;
  // To an image of `shape`, whose axes 2 and 3 are these of the node's (or none).
  constexpr std::size_t kNone = qir::kMaxRank;
  const auto resize = [&](std::int32_t x, const qir::Shape &shape, std::size_t rows, std::size_t columns) {
    Vector<float> factors{1, 1, rows == kNone ? 1 : scale(rows), columns == kNone ? 1 : scale(columns)};
    const std::int32_t how = scaled ? s.floats({4}, factors) : s.integers(shape);
    const std::int32_t y = s.of(
        Op::Resize,
        scaled ? Vector<std::int32_t>{x, qir::kAbsent, how} : Vector<std::int32_t>{x, qir::kAbsent, qir::kAbsent, how},
        DType::F32, shape);
    s.last_made().attributes = node.attributes;
    return y;
  };
  const std::int32_t x = node.inputs[0];
  if (last) {
    const std::int32_t made = resize(s.transpose(x, {0, 3, 1, 2}), {out[0], out[3], out[1], out[2]}, 1, 2);
    s.give(Op::Transpose, {made}).set("perm", Vector<std::int64_t>{0, 2, 3, 1});
  } else if (rank == 3) {
    const std::int32_t made = resize(s.reshape(x, {in[0], in[1], 1, in[2]}), {out[0], out[1], 1, out[2]}, kNone, 2);
    s.give(Op::Reshape, {made, s.integers(out)});
  } else {
    const std::int32_t planes =
        resize(s.reshape(x, {in[0], in[1] * in[2], in[3], in[4]}), {in[0], in[1] * in[2], out[3], out[4]}, 3, 4);
    const std::int64_t plane = out[3] * out[4];
    const std::int32_t deep =
        resize(s.reshape(planes, {in[0], in[1], in[2], plane}), {in[0], in[1], out[2], plane}, 2, kNone);
    s.give(Op::Reshape, {deep, s.integers(out)});
  }
  return true;
}

// ---- ConvTranspose --------------------------------------------------------------------------------

// A ConvTranspose with three axes as one of two, of each slice of x and of the filter: [batch, slice of x, channel,
// slice of the filter, H * W].
std::int32_t transposed_slices(Decomposer &s, const qir::ConvGeometry &g, const Vector<std::int64_t> &extra) {
  const qir::Node &node = s.node();
  const qir::Tensor weights = s.in(1);
  const std::int64_t depth = g.kernel[0], out_h = g.out[1], out_w = g.out[2], channels = g.out_channels;
  const std::int32_t flat =
      s.constant_like(weights, {weights.shape[0], g.out_per_group * depth, g.kernel[1], g.kernel[2]}, weights.data.data,
                      weights.data.size);
  const std::int32_t rows =
      s.reshape(s.transpose(node.inputs[0], {0, 2, 1, 3, 4}), {g.batch * g.in[0], g.in_channels, g.in[1], g.in[2]});
  const std::int32_t images =
      s.of(Op::ConvTranspose, {rows, flat}, DType::F32, {g.batch * g.in[0], channels * depth, out_h, out_w});
  qir::Node &conv = s.last_made();
  conv.set("strides", Vector<std::int64_t>{g.stride[1], g.stride[2]});
  conv.set("dilations", Vector<std::int64_t>{g.dilation[1], g.dilation[2]});
  conv.set("pads", Vector<std::int64_t>{g.pad_begin[1], g.pad_begin[2], g.pad_end[1], g.pad_end[2]});
  conv.set("group", g.group);
  conv.set("output_padding", extra);
  return s.reshape(images, {g.batch, g.in[0], channels, depth, out_h * out_w});
}

// Slices of zeros before and behind those of x, along axis 1.
std::int32_t padded_depth(Decomposer &s, std::int32_t x, std::int64_t before, std::int64_t behind) {
  if (before == 0 && behind == 0) return x;
  qir::Shape shape = s.tensor(x).shape;
  shape[1] += before + behind;
  const std::int32_t pads = s.integers(Vector<std::int64_t>{0, before, 0, 0, 0, 0, behind, 0, 0, 0});
  return s.of(Op::Pad, {x, pads}, DType::F32, shape);
}

// Adds up the slices where they meet: [batch, slice of y, channel, 1, H * W].
std::int32_t sum_of_slices(Decomposer &s, const qir::ConvGeometry &g, std::int32_t slices) {
  const std::int64_t depth = g.kernel[0], stride = g.stride[0], plane = g.out[1] * g.out[2], channels = g.out_channels;
  const std::int64_t most = (depth + stride - 1) / stride, length = g.in[0] + most - 1;
  const qir::Shape one{g.batch, length, channels, 1, plane};
  Vector<std::int32_t> phases;
  for (std::int64_t r = 0; r < stride; ++r) {
    std::int32_t sum = qir::kAbsent;
    for (std::int64_t k = 0; r + k * stride < depth; ++k) {
      const std::int32_t part =
          padded_depth(s, s.slice(slices, 3, r + k * stride, r + k * stride + 1, 1), k, most - 1 - k);
      sum = sum == qir::kAbsent ? part : s.of(Op::Add, {sum, part});
    }
    if (sum == qir::kAbsent) {  // no slice of the filter falls there
      sum = s.floats(one, Vector<float>(static_cast<std::size_t>(elements(one)), 0.0f));
    }
    phases.push_back(s.reshape(sum, {g.batch, length, 1, channels, plane}));
  }
  return s.reshape(s.concat(std::move(phases), 2), {g.batch, length * stride, channels, 1, plane});
}

// A 3-D ConvTranspose is a 2-D one of each slice along D, whose channels are the slices of the filter; the results are
// added up where they meet. Slice k * stride + r of the filter gives the outputs q * stride + r, q slices further down.
bool conv_transpose_of_three(Decomposer &s) {
  const qir::Node &node = s.node();
  const qir::Tensor weights = s.in(1);
  qir::ConvGeometry g;
  if (!weights.is_constant || weights.dtype != DType::F32 || weights.quant ||
      !qir::resolve_conv_transpose(node, s.in(0).shape, weights.shape, &g).ok() || g.rank != 3 || g.dilation[0] != 1)
    return false;
  for (std::size_t i = 0; i < 3; ++i)
    if (g.in[i] < 1 || g.out[i] < 1 || g.kernel[i] < 1 || g.kernel[i] > 64 || g.stride[i] < 1 || g.stride[i] > 64 ||
        g.pad_begin[i] < 0 || g.pad_end[i] < 0)
      return false;
  // output_padding: what is left at the end of H and W.
  Vector<std::int64_t> extra;
  for (std::size_t i = 1; i < 3; ++i)
    extra.push_back(g.out[i] - ((g.in[i] - 1) * g.stride[i] + (g.kernel[i] - 1) * g.dilation[i] + 1 - g.pad_begin[i] -
                                g.pad_end[i]));
  if (extra[0] < 0 || extra[1] < 0) return false;
  const std::int64_t channels = g.out_channels, end = g.pad_begin[0] + g.out[0];
  const std::int32_t slices = transposed_slices(s, g, extra);
  std::int32_t all = sum_of_slices(s, g, slices);
  all = padded_depth(s, all, 0, std::max<std::int64_t>(0, end - s.tensor(all).shape[1]));
  all = s.slice(all, 1, g.pad_begin[0], end, 1);
  const std::int32_t made =
      s.transpose(s.reshape(all, {g.batch, g.out[0], channels, g.out[1], g.out[2]}), {0, 2, 1, 3, 4});
  if (const std::int32_t bias = node.inputs[2]; bias != qir::kAbsent)
    s.give(Op::Add, {made, s.reshape(bias, {channels, 1, 1, 1})});
  else s.give(Op::Identity, {made});
  return true;
}

// ---- Conv whose weights are no constant ---------------------------------------------------------------

// Kernels pack the weights of a convolution when they compile; these are known only at run time. So the elements that
// each tap reads, tap after tap, are one operand of a matrix multiplication, the weights the other.
bool conv_by_matmul(Decomposer &s) {
  constexpr std::int64_t kMostTaps = 64, kMostElements = std::int64_t{1} << 24;
  const qir::Node &node = s.node();
  const qir::Shape weights = s.in(1).shape;
  qir::ConvGeometry g;
  if (s.in(1).is_constant || !qir::resolve_conv(node, s.in(0).shape, weights, &g).ok() || g.rank != 2 || g.group != 1)
    return false;
  const std::int64_t taps = g.kernel[0] * g.kernel[1], positions = g.out[0] * g.out[1];
  if (taps > kMostTaps || g.batch * g.in_channels * taps * positions > kMostElements) return false;
  std::int32_t x = node.inputs[0];
  Vector<std::int64_t> pads(8);
  qir::Shape padded = s.in(0).shape;
  for (std::size_t i = 0; i < 2; ++i) {
    if (g.pad_begin[i] < 0 || g.pad_end[i] < 0) return false;
    pads[2 + i] = g.pad_begin[i], pads[6 + i] = g.pad_end[i];
    padded[2 + i] += g.pad_begin[i] + g.pad_end[i];
  }
  if (padded != s.in(0).shape) x = s.of(Op::Pad, {x, s.integers(pads)}, DType::F32, padded);
  Vector<std::int32_t> seen;
  for (std::int64_t k = 0; k < taps; ++k) {
    const std::int64_t row = k / g.kernel[1] * g.dilation[0], column = k % g.kernel[1] * g.dilation[1];
    const std::int32_t rows = s.slice(x, 2, row, row + (g.out[0] - 1) * g.stride[0] + 1, g.stride[0]),
                       part = s.slice(rows, 3, column, column + (g.out[1] - 1) * g.stride[1] + 1, g.stride[1]);
    seen.push_back(s.reshape(part, {g.batch, g.in_channels, 1, positions}));
  }
  const std::int32_t matrix = s.reshape(s.concat(std::move(seen), 2), {g.batch, g.in_channels * taps, positions});
  std::int32_t made = s.of(Op::MatMul, {s.reshape(node.inputs[1], {g.out_channels, g.in_channels * taps}), matrix},
                           DType::F32, {g.batch, g.out_channels, positions});
  if (const std::int32_t bias = node.inputs[2]; bias != qir::kAbsent)
    made = s.of(Op::Add, {made, s.reshape(bias, {g.out_channels, 1})});
  s.give(Op::Reshape, {made, s.integers(s.out().shape)});
  return true;
}

// ---- DeformConv -----------------------------------------------------------------------------------

// GridSample reads the element of each tap at each position; a 1 x 1 Conv over the taps as channels adds them up.
bool deformable_conv(Decomposer &s) {
  const qir::Node &node = s.node();
  const qir::Tensor weights = s.in(1), offsets = s.in(2);
  const std::int64_t groups = node.get_int("offset_group", 1);
  const std::int32_t bias = node.inputs[3], mask = node.inputs[4];
  qir::ConvGeometry g;
  if (!weights.is_constant || weights.dtype != DType::F32 || offsets.dtype != DType::F32 || groups < 1 ||
      !qir::resolve_conv(node, s.in(0).shape, weights.shape, &g).ok() || g.rank != 2 || g.in_channels % groups != 0)
    return false;
  const std::int64_t taps = g.kernel[0] * g.kernel[1], positions = g.out[0] * g.out[1], images = g.batch * groups;
  if (elements(offsets.shape) != images * taps * 2 * positions ||
      (mask != qir::kAbsent && elements(s.tensor(mask).shape) != images * taps * positions))
    return false;
  // Pixel p of n is (2 p + 1) / n - 1 of GridSample.
  Vector<float> base, factor;
  for (std::int64_t k = 0; k < taps; ++k)
    for (std::size_t axis = 0; axis < 2; ++axis)
      for (std::int64_t at = 0; at < positions; ++at) {
        const std::int64_t tap = axis == 0 ? k / g.kernel[1] : k % g.kernel[1],
                           position = axis == 0 ? at / g.out[1] : at % g.out[1];
        const auto pixel = static_cast<double>(position * g.stride[axis] + tap * g.dilation[axis] - g.pad_begin[axis]);
        base.push_back(static_cast<float>((2 * pixel + 1) / static_cast<double>(g.in[axis]) - 1));
      }
  for (std::size_t axis = 0; axis < 2; ++axis) factor.push_back(2 / static_cast<float>(g.in[axis]));
  std::int32_t grid = s.reshape(node.inputs[2], {images, taps, 2, positions});
  grid = s.of(Op::Add, {s.of(Op::Mul, {grid, s.floats({2, 1}, factor)}), s.floats({taps, 2, positions}, base)});
  grid = s.concat({s.slice(grid, 2, 1, 2, 1), s.slice(grid, 2, 0, 1, 1)}, 2);
  grid = s.reshape(s.transpose(grid, {0, 1, 3, 2}), {images, taps * g.out[0], g.out[1], 2});
  const std::int32_t x = s.reshape(node.inputs[0], {images, g.in_channels / groups, g.in[0], g.in[1]});
  std::int32_t seen =
      s.of(Op::GridSample, {x, grid}, DType::F32, {images, g.in_channels / groups, taps * g.out[0], g.out[1]});
  s.last_made().set("mode", std::string_view("linear"));
  if (mask != qir::kAbsent) seen = s.of(Op::Mul, {seen, s.reshape(mask, {images, 1, taps * g.out[0], g.out[1]})});
  Vector<std::int32_t> inputs{
      s.reshape(seen, {g.batch, g.in_channels * taps, g.out[0], g.out[1]}),
      s.constant_like(weights, {g.out_channels, g.in_per_group * taps, 1, 1}, weights.data.data, weights.data.size)};
  if (bias != qir::kAbsent) inputs.push_back(bias);
  s.give(Op::Conv, std::move(inputs)).set("group", g.group);
  return true;
}

bool decompose_axes(Decomposer &s) {
  if (s.in(0).dtype != DType::F32 || s.out().dtype != DType::F32) return false;
  switch (s.node().op) {
    case Op::MaxPool:
    case Op::AveragePool: return pool_of_three(s);
    case Op::Resize: return resize_as_images(s);
    case Op::ConvTranspose: return conv_transpose_of_three(s);
    case Op::Conv: return conv_by_matmul(s);
    case Op::DeformConv: return deformable_conv(s);
    default: return false;
  }
}

}  // namespace

void decompose_spatial(qir::Graph &graph, Store &store, NodeTest stays) {
  decompose_nodes(graph, store, stays, decompose_axes);
}

}  // namespace quarry::passes
