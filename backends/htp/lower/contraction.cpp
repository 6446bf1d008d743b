// SPDX-License-Identifier: Apache-2.0
// Convolutions and matrix multiplications.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/htp/lower/block_weights.h"
#include "backends/htp/lower/byte_weights.h"
#include "backends/htp/lower/rules.h"
#include "base/checked.h"
#include "graph/ops/quantization.h"

namespace quarry::htp::rules {

using qnn::DataType;

namespace {

Status check_bias(Lowering &l, const qir::Node &node) {
  const std::int32_t id = node.inputs[2];
  if (id == qir::kAbsent) return {};
  const qir::Tensor &bias = l.tensor(id), &x = l.tensor(node.inputs[0]), &w = l.tensor(node.inputs[1]);
  if (!x.quant) return {};
  if (!bias.is_constant || bias.dtype != DType::I32)
    return refuse(ErrorId::backend_limit,
                  format("the bias %s: found %s%s, expected an i32 constant beside quantised data",
                         printable(bias.name), bias.is_constant ? "" : "a run-time value of ", dtype_name(bias.dtype)));
  const bool own = bias.quant && bias.quant->per_tensor();
  if (!own && !qir::BiasUnit::of(node, x, w, bias))
    return refuse(ErrorId::backend_limit,
                  format("the bias %s has scales that are not those of data times weights", printable(bias.name)));
  return {};
}

// The bias as the device wants it: where weights have a scale per channel it must have one too, of scale(x) * scale(w),
// or it is taken as zero without a word. check_bias took it. -1: there is none.
std::int32_t bias_of(Lowering &l, const qir::Node &node, std::uint32_t channels) {
  const std::int32_t id = node.inputs[2];
  if (id == qir::kAbsent) return -1;
  const qir::Tensor &bias = l.tensor(id), &x = l.tensor(node.inputs[0]), &w = l.tensor(node.inputs[1]);
  if (!x.quant) {
    if (bias.is_constant) return l.constant(bias.name, Lowering::type_of(bias).value(), {channels}, bias.data);
    return l.natural(id);
  }
  const std::optional<qir::BiasUnit> unit = qir::BiasUnit::of(node, x, w, bias);
  const bool per_channel = unit && unit->per_channel();
  Encoding encoding;
  std::int32_t *const values = static_cast<std::int32_t *>(l.store().allocate(std::uint64_t{channels} * 4));
  for (std::uint32_t c = 0; c < channels; ++c) {
    std::int32_t stored;
    std::memcpy(&stored, static_cast<const std::uint8_t *>(bias.data.data) + 4 * c, 4);
    const float scale = unit ? unit->unit(c) : bias.quant->scales[0];
    // A quantisation of its own is counted again in the product's units.
    if (bias.quant && unit) {
      const std::size_t k = bias.quant->scales.size() > 1 ? c : 0;
      const double real = static_cast<double>(stored - bias.quant->zero_points[k]) * bias.quant->scales[k];
      stored = static_cast<std::int32_t>(std::clamp(std::nearbyint(real / scale), -2147483648.0, 2147483647.0));
    }
    values[c] = stored;
    if (per_channel || c == 0) encoding.scales.push_back(scale), encoding.zero_points.push_back(0);
  }
  return l.constant(bias.name, DataType::SQ32, {channels}, {values, std::uint64_t{channels} * 4}, std::move(encoding));
}

Vector<std::uint32_t> pads_of(const qir::Window &window) {
  Vector<std::uint32_t> pads;
  for (std::uint32_t i = 0; i < window.rank; ++i) {
    pads.push_back(static_cast<std::uint32_t>(window.pad_begin[i]));
    pads.push_back(static_cast<std::uint32_t>(window.pad_end[i]));
  }
  return pads;
}

// One spatial axis becomes two: N, 1, W, C.
struct Image {
  std::int32_t x;
  Vector<std::uint32_t> dims;
};
Image image_of(Lowering &l, std::int32_t id, const Order &order) {
  const std::int32_t x = l.stored(id, order);
  Vector<std::uint32_t> dims = Lowering::dims_of(l.tensor(id).shape, order);
  if (dims.size() != 3) return {x, dims};
  dims.insert(dims.begin() + 1, 1);
  const std::int32_t wide = l.between(id, "~2d", dims);
  l.node("Reshape", {x}, {wide});
  return {wide, dims};
}
// The result in the same way; `write` gets the tensor that the product is written to.
template <class Write>
void give_image(Lowering &l, std::int32_t id, const Order &order, Write &&write) {
  if (l.rank(id) != 3) {
    write(l.result(id, order));
    return;
  }
  Vector<std::uint32_t> dims = Lowering::dims_of(l.tensor(id).shape, order);
  dims.insert(dims.begin() + 1, 1);
  const std::int32_t wide = l.between(id, "~2d", dims);
  write(wide);
  l.node("Reshape", {wide}, {l.result(id, order)});
}

// Weights [O, I, k...] in this order of axes, with a leading kernel dimension of 1 where there is one spatial axis.
std::int32_t weights_of(Lowering &l, std::int32_t id, const Order &order) {
  const std::int32_t w = l.stored(id, order);
  if (l.rank(id) != 3) return w;
  Vector<std::uint32_t> dims = l.drafted(w).dims;
  dims.insert(dims.begin(), 1);
  Encoding encoding = l.drafted(w).encoding;
  if (encoding.scales.size() > 1) ++encoding.axis;
  const DraftTensor from = l.drafted(w);
  if (from.type == qnn::TensorType::Static)
    return l.constant(from.name, from.dtype, std::move(dims), from.data, std::move(encoding));
  const std::int32_t wide = l.between(from.name, from.dtype, std::move(dims), std::move(encoding));
  l.node("Reshape", {w}, {wide});
  return wide;
}

// Beside data of 16 bits the library subtracts the zero point of u8 weights and clamps what is left to 8 bits, and
// takes u16 with its zero point in the middle alone. Such weights are written as s8 or s16 without a zero point,
// whichever holds them; s16 only where `may_widen`, and from v73.
std::int32_t exact_weights(Lowering &l, std::int32_t x, std::int32_t weights, bool may_widen) {
  const DraftTensor from = l.drafted(weights);
  const qir::Tensor &data = l.tensor(x);
  const bool wide = from.dtype == DataType::UQ16;
  if (!data.quant || dtype_bits(data.dtype) != 16 || from.type != qnn::TensorType::Static ||
      (from.dtype != DataType::UQ8 && !wide) || from.encoding.scales.size() != 1)
    return weights;
  const DType dtype = wide ? DType::U16 : DType::U8;
  const std::uint64_t count = from.data.size / (wide ? 2 : 1);
  const std::int64_t zero = from.encoding.zero_points[0];
  std::int64_t low = 0, high = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::int64_t value = qir::stored_integer(dtype, from.data.data, i) - zero;
    low = std::min(low, value), high = std::max(high, value);
  }
  const bool narrow = low >= -128 && high <= 127;
  if (narrow ? !wide : !may_widen || l.soc().arch < 73) return weights;
  // Past s16 units are larger.
  const double unit = std::max(1.0, static_cast<double>(std::max(high, -low)) / 32767.0);
  const std::size_t size = narrow ? 1 : 2;
  auto *const bytes = static_cast<std::uint8_t *>(l.store().allocate(count * size));
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::int64_t value = qir::stored_integer(dtype, from.data.data, i) - zero;
    const auto stored = static_cast<std::int16_t>(std::nearbyint(static_cast<double>(value) / unit));
    const auto byte = static_cast<std::int8_t>(stored);
    std::memcpy(bytes + i * size, narrow ? static_cast<const void *>(&byte) : &stored, size);
  }
  Encoding encoding;
  encoding.scales = {static_cast<float>(static_cast<double>(from.encoding.scales[0]) * unit)};
  encoding.zero_points = {0};
  return l.constant(from.name, narrow ? DataType::SQ8 : DataType::SQ16, from.dims, {bytes, count * size},
                    std::move(encoding));
}

// The sum of a convolution of two axes for each position of the kernel's depth: of three axes of floats v68 has none,
// and no other SoC one that is dilated.
void conv_by_depth(Lowering &l, const ProductOperands &of, std::int32_t bias, const qir::ConvGeometry &g,
                   std::int32_t y) {
  qir::Window depth = g;
  depth.kernel[0] = depth.dilation[0] = 1;
  for (const std::uint32_t i : {1u, 2u}) depth.pad_begin[i] = depth.pad_end[i] = 0;
  const bool pads = g.pad_begin[0] > 0 || g.pad_end[0] > 0;
  const std::int32_t x = pads ? padded_apart(l, of.x, depth) : of.x;
  const DraftTensor from = l.drafted(x), to = l.drafted(y), weights = l.drafted(of.weights);
  const auto flat = [](const Vector<std::uint32_t> &dims) {
    return Vector<std::uint32_t>{dims[0] * dims[1], dims[2], dims[3], dims[4]};
  };
  const auto places = static_cast<std::int32_t>(to.dims[1]), stride = static_cast<std::int32_t>(g.stride[0]);
  const auto extent = [&](std::size_t axis) { return static_cast<std::int32_t>(from.dims[axis]); };
  Vector<std::uint32_t> part_dims = from.dims;
  part_dims[1] = to.dims[1];
  std::int32_t sum = -1;
  for (std::uint32_t k = 0; k < g.kernel[0]; ++k) {
    const auto first = static_cast<std::int32_t>(k * g.dilation[0]);
    const std::int32_t part = l.between(from.name, from.dtype, part_dims);
    strided_slice(l, x,
                  {0, extent(0), 1, first, first + (places - 1) * stride + 1, stride, 0, extent(2), 1, 0, extent(3), 1,
                   0, extent(4), 1},
                  0, part);
    const std::int32_t plane = l.reshaped(part_of(l, of.weights, 0, k, k + 1),
                                          {weights.dims[1], weights.dims[2], weights.dims[3], weights.dims[4]});
    const std::int32_t product = l.between(to.name, to.dtype, flat(to.dims));
    DraftNode &made = l.node("Conv2d", {l.reshaped(part, flat(part_dims)), plane, k == 0 ? bias : -1}, {product});
    l.param(made, "stride", unsigned_of({g.stride + 1, 2}));
    const Vector<std::uint32_t> amounts = pads_of(g);
    l.param(made, "pad_amount", std::span(amounts).subspan(2), {2, 2});
    l.param(made, "dilation", unsigned_of({g.dilation + 1, 2}));
    l.param(made, "group", static_cast<std::uint32_t>(g.group));
    const std::int32_t before = std::exchange(sum, product);
    if (k == 0) continue;
    sum = l.between(to.name, to.dtype, flat(to.dims));
    l.node("ElementWiseAdd", {before, product}, {sum});
  }
  l.node("Reshape", {sum}, {y});
}

void widen(qir::ConvGeometry &g) {
  if (g.rank != 1) return;
  g.in[1] = g.in[0], g.kernel[1] = g.kernel[0], g.stride[1] = g.stride[0], g.dilation[1] = g.dilation[0];
  g.pad_begin[1] = g.pad_begin[0], g.pad_end[1] = g.pad_end[0], g.out[1] = g.out[0];
  g.in[0] = g.kernel[0] = g.stride[0] = g.dilation[0] = g.out[0] = 1;
  g.pad_begin[0] = g.pad_end[0] = 0;
  g.rank = 2;
}

}  // namespace

std::int32_t as_wide_as_stride(Lowering &l, std::int32_t weights, qir::Window &w) {
  const DraftTensor from = l.drafted(weights);
  if (from.type != qnn::TensorType::Static || from.dims.size() != 4 || w.rank != 2) return weights;
  Vector<std::uint32_t> dims = from.dims;
  for (std::uint32_t i = 0; i < 2; ++i) {
    if (w.dilation[i] != 1 || w.stride[i] <= w.kernel[i]) continue;
    dims[i] = static_cast<std::uint32_t>(w.stride[i]);
    w.pad_end[i] += w.stride[i] - w.kernel[i];
    w.kernel[i] = w.stride[i];
  }
  if (dims == from.dims) return weights;
  const std::size_t size = element_bytes(from.dtype), row = from.dims[3] * size;
  const std::uint64_t bytes = std::uint64_t{dims[0]} * dims[1] * row;
  auto *const made = static_cast<std::uint8_t *>(l.store().allocate(bytes));
  const Vector<std::int32_t> &zeros = from.encoding.zero_points;
  for (std::uint32_t y = 0; y < dims[0]; ++y) {
    for (std::uint32_t x = 0; x < dims[1]; ++x) {
      std::uint8_t *const to = made + (std::uint64_t{y} * dims[1] + x) * row;
      if (y < from.dims[0] && x < from.dims[1]) {
        std::memcpy(to, static_cast<const std::uint8_t *>(from.data.data) + (std::uint64_t{y} * from.dims[1] + x) * row,
                    row);
        continue;
      }
      for (std::uint32_t c = 0; c < dims[3]; ++c) {
        const std::int32_t zero = zeros.empty() ? 0 : zeros[zeros.size() > 1 ? c : 0];
        std::memcpy(to + c * size, &zero, size);
      }
    }
  }
  return l.constant(from.name, from.dtype, std::move(dims), {made, bytes}, from.encoding);
}

OnePosition take_one_position(qir::Window &w, std::uint32_t i) {
  OnePosition one;
  const std::int64_t step = w.dilation[i], pad = w.pad_begin[i];
  if (w.out[i] != 1 || (pad == 0 && w.pad_end[i] == 0 && step == 1)) return one;
  one.first = (pad + step - 1) / step, one.step = step, one.from = one.first * step - pad;
  if (one.from >= w.in[i]) return one;
  one.count = std::min(w.kernel[i] - one.first, (w.in[i] - one.from + step - 1) / step);
  if (one.count <= 0) return one.count = 0, one;
  w.in[i] = w.kernel[i] = one.count;
  w.stride[i] = w.dilation[i] = 1, w.pad_begin[i] = w.pad_end[i] = 0;
  return one;
}
void cut_to_one_position(Lowering &l, ProductOperands &of, const OnePosition (&ones)[2], bool turned) {
  for (std::uint32_t i = 0; i < 2; ++i) {
    if (ones[i].count == 0) continue;
    const std::uint32_t place = turned ? 1 - i : i;
    if (l.drafted(of.x).dims[place + 1] != ones[i].count)
      of.x = part_by_steps(l, of.x, place + 1, {ones[i].from, ones[i].step, ones[i].count});
    if (l.drafted(of.weights).dims[place] != ones[i].count)
      of.weights = part_of(l, of.weights, place, static_cast<std::uint32_t>(ones[i].first),
                           static_cast<std::uint32_t>(ones[i].first + ones[i].count));
  }
}

Status conv(Lowering &l, const qir::Node &node) {
  if (block_product(l, node)) return {};
  qir::ConvGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_conv(node, l.tensor(node.inputs[0]).shape, l.tensor(node.inputs[1]).shape, &g));
  if (g.rank > 3) return refuse(ErrorId::backend_limit, format("%u spatial axes, expected at most 3", g.rank));
  QR_RETURN_IF_ERROR(check_bias(l, node));
  const std::size_t rank = l.rank(node.inputs[1]);
  widen(g);
  const bool depthwise = g.rank == 2 && g.group > 1 && g.group == g.in_channels && g.group == g.out_channels;
  // [k..., I, O]
  Order order;
  for (std::size_t i = 2; i < rank; ++i) order.push_back(static_cast<std::uint8_t>(i));
  order.push_back(1), order.push_back(0);
  Order images = channels_last(l.rank(node.inputs[0]));
  OnePosition ones[2];
  for (std::uint32_t i = 0; i < 2 && g.rank == 2; ++i) ones[i] = take_one_position(g, i);
  const bool is_column = is_column_of(g);
  if (g.rank == 2 && g.out[1] == 1 && g.out[0] > 1 && g.in[1] == 1 && g.dilation[0] != 1 && g.out_channels == 1)
    return refuse(ErrorId::backend_limit,
                  "a dilated convolution of an image of one column to one channel, of which the library gives other "
                  "elements",
                  "turn the image: its rows as columns");
  const bool turns = is_column || wants_turn(g, g.out_channels);
  if (turns) std::swap(order[0], order[1]), std::swap(images[1], images[2]);
  ProductOperands of{image_of(l, node.inputs[0], images).x, weights_of(l, node.inputs[1], order)};
  cut_to_one_position(l, of, ones, turns);
  if (turns && !is_column) turn(g);
  if (is_column) {
    const auto at = static_cast<std::uint32_t>(g.pad_begin[1] / g.dilation[1]);
    if (g.kernel[1] > 1) of.weights = part_of(l, of.weights, 0, at, at + 1);
    lay_column(g);
  }
  if (g.rank == 2 && g.group == 1) of = within_bytes(l, node, of);
  // With weights of 16 bits it computes nonsense where they are dilated or depthwise.
  const bool dilated = std::any_of(g.dilation, g.dilation + g.rank, [](std::int64_t d) { return d != 1; });
  if (g.rank == 2) of.weights = exact_weights(l, node.inputs[0], of.weights, !dilated && !depthwise);
  const std::int32_t bias = bias_of(l, node, static_cast<std::uint32_t>(g.out_channels));
  of.x = padded_apart(l, of.x, g);
  if (depthwise) of.weights = as_wide_as_stride(l, of.weights, g);
  give_image(l, node.outputs[0], images, [&](std::int32_t y) {
    if (g.rank == 3 && (l.soc().arch == 68 || dilated) && l.drafted(of.x).encoding.scales.empty())
      return conv_by_depth(l, of, bias, g, y);
    DraftNode &made = l.node(depthwise     ? "DepthWiseConv2d"
                             : g.rank == 3 ? "Conv3d"
                                           : "Conv2d",
                             {of.x, of.weights, bias}, {y});
    const std::size_t space = g.rank;
    l.param(made, "stride", unsigned_of({g.stride, space}));
    l.param(made, "pad_amount", pads_of(g), {g.rank, 2});
    l.param(made, "dilation", unsigned_of({g.dilation, space}));
    if (!depthwise) l.param(made, "group", static_cast<std::uint32_t>(g.group));
  });
  return {};
}

namespace {

// Of three axes the library needs one stride for rows and columns: with two it leaves zeros, or cannot prepare it. The
// first axis is exchanged with the one whose stride differs.
Status even_strides(qir::ConvGeometry &g, Order &weights, Order &images) {
  if (g.stride[1] == g.stride[2]) return {};
  if (g.stride[0] != g.stride[1] && g.stride[0] != g.stride[2])
    return refuse(ErrorId::backend_limit,
                  format("strides %lld, %lld and %lld of three axes, expected two that are the same", g.stride[0],
                         g.stride[1], g.stride[2]),
                  "write it as two, each along some of the axes");
  const std::size_t other = g.stride[0] == g.stride[2] ? 1 : 2;
  for (auto *const list : {g.in, g.out, g.kernel, g.stride, g.dilation, g.pad_begin, g.pad_end})
    std::swap(list[0], list[other]);
  std::swap(weights[0], weights[other]);
  std::swap(images[1], images[other + 1]);
  return {};
}

}  // namespace

Status conv_transpose(Lowering &l, const qir::Node &node) {
  qir::ConvGeometry g;
  QR_RETURN_IF_ERROR(
      qir::resolve_conv_transpose(node, l.tensor(node.inputs[0]).shape, l.tensor(node.inputs[1]).shape, &g));
  if (g.rank > 3) return refuse(ErrorId::backend_limit, format("%u spatial axes, expected at most 3", g.rank));
  for (std::uint32_t i = 0; i < g.rank; ++i)
    if (g.dilation[i] != 1) return refuse(ErrorId::backend_limit, format("dilation %lld, expected 1", g.dilation[i]));
  if (g.rank == 3 && l.soc().arch == 68)
    return refuse(ErrorId::backend_limit,
                  "three spatial axes, expected at most 2 on v68: the library cannot prepare them",
                  "compile for another SoC");
  const std::size_t rank = l.rank(node.inputs[1]);
  widen(g);
  Order order;  // [k..., I, O]
  for (std::size_t i = 2; i < rank; ++i) order.push_back(static_cast<std::uint8_t>(i));
  order.push_back(0), order.push_back(1);
  Order images = channels_last(l.rank(node.inputs[0]));
  if (g.rank == 3) QR_RETURN_IF_ERROR(even_strides(g, order, images));
  // out = (in - 1) * stride + kernel - pads; what is asked for beyond that is less of the end's padding. The library's
  // own output_padding is not used: it leaves the rows that it adds undefined.
  const Vector<std::uint32_t> padding(g.rank, 0);
  for (std::uint32_t i = 0; i < g.rank; ++i) {
    g.pad_end[i] = (g.in[i] - 1) * g.stride[i] + g.kernel[i] - g.pad_begin[i] - g.out[i];
    if (g.pad_begin[i] < 0 || g.pad_end[i] < 0)
      return refuse(ErrorId::backend_limit,
                    format("an output of %lld by weights that are no constant, expected at most the %lld that the "
                           "kernel reaches, and no negative pads",
                           g.out[i], g.out[i] + g.pad_end[i]),
                    "cut the output, or pad it by a Pad behind the node");
  }
  QR_RETURN_IF_ERROR(check_bias(l, node));
  const Image image = image_of(l, node.inputs[0], images);
  std::int32_t w = weights_of(l, node.inputs[1], order);
  if (g.rank == 2) w = exact_weights(l, node.inputs[0], w, true);
  const std::int32_t bias = bias_of(l, node, static_cast<std::uint32_t>(g.out_channels));
  // Of three axes it computes one padding for all sides, and of any no padding that takes away a whole kernel: the
  // whole result is made, and cut.
  bool cuts = false;
  for (std::uint32_t i = 0; i < g.rank; ++i)
    cuts = cuts || (g.rank == 3 && (g.pad_begin[i] != g.pad_begin[0] || g.pad_end[i] != g.pad_begin[0])) ||
           std::max(g.pad_begin[i], g.pad_end[i]) >= g.kernel[i];
  give_image(l, node.outputs[0], images, [&](std::int32_t y) {
    std::int32_t whole = y;
    Vector<std::int32_t> ranges;
    qir::Window given = g;
    if (cuts) {
      Vector<std::uint32_t> dims = l.drafted(y).dims;
      for (const std::uint32_t extent : dims) {
        const std::int32_t range[] = {0, static_cast<std::int32_t>(extent), 1};
        ranges.insert(ranges.end(), range, range + 3);
      }
      for (std::uint32_t i = 0; i < g.rank; ++i) {
        const auto before = static_cast<std::uint32_t>(g.pad_begin[i]),
                   behind = static_cast<std::uint32_t>(g.pad_end[i]);
        ranges[3 * (i + 1)] += static_cast<std::int32_t>(before),
            ranges[3 * (i + 1) + 1] += static_cast<std::int32_t>(before);
        dims[i + 1] += before + behind;
        given.pad_begin[i] = given.pad_end[i] = 0;
      }
      whole = l.between(node.outputs[0], "~whole", dims);
    }
    const auto write = [&](std::int32_t x, std::int32_t weights, std::int32_t own_bias, std::int64_t groups,
                           std::int32_t to) {
      DraftNode &made = l.node(g.rank == 3 ? "TransposeConv3d" : "TransposeConv2d", {x, weights, own_bias}, {to});
      const std::size_t space = g.rank;
      l.param(made, "stride", unsigned_of({g.stride, space}));
      l.param(made, "pad_amount", pads_of(given), {g.rank, 2});
      l.param(made, "group", static_cast<std::uint32_t>(groups));
      l.param(made, "output_padding", padding);
    };
    if (g.rank == 3 && g.group > 1) {  // each by itself: the library is wrong there too
      const auto groups = static_cast<std::uint32_t>(g.group), ins = static_cast<std::uint32_t>(g.in_channels) / groups,
                 outs = static_cast<std::uint32_t>(g.out_channels) / groups;
      Vector<std::int32_t> parts;
      for (std::uint32_t i = 0; i < groups; ++i) {
        Vector<std::uint32_t> dims = l.drafted(whole).dims;
        dims.back() = outs;
        const DraftTensor like = l.drafted(whole);
        parts.push_back(l.between(like.name, like.dtype, std::move(dims), like.encoding));
        write(part_of(l, image.x, 4, i * ins, (i + 1) * ins), part_of(l, w, 3, i * ins, (i + 1) * ins),
              bias < 0 ? bias : part_of(l, bias, 0, i * outs, (i + 1) * outs), 1, parts.back());
      }
      DraftNode &all = l.node("Concat", {}, {whole});
      all.inputs = std::move(parts);
      l.param(all, "axis", std::uint32_t{4});
    } else {
      write(image.x, w, bias, g.group, whole);
    }
    if (cuts) strided_slice(l, whole, ranges, 0, y);
  });
  return {};
}

Status gemm(Lowering &l, const qir::Node &node) {
  if (block_product(l, node)) return {};
  const float alpha = node.get_float("alpha", 1), beta = node.get_float("beta", 1);
  const bool turn_a = node.get_int("transA", 0) != 0, turn_b = node.get_int("transB", 0) != 0;
  const qir::Tensor &b = l.tensor(node.inputs[1]);
  const std::int32_t c_id = node.inputs[2];
  const qir::Shape &out = l.tensor(node.outputs[0]).shape;
  const std::uint32_t columns = static_cast<std::uint32_t>(out[1]);
  const bool scaled = alpha != 1 || (beta != 1 && c_id != qir::kAbsent);
  if (scaled && l.tensor(node.inputs[0]).quant)
    return refuse(
        ErrorId::backend_limit,
        format("alpha %g and beta %g, expected 1 and 1", static_cast<double>(alpha), static_cast<double>(beta)),
        "multiply the constants of the model by them");
  // The bias of the operation is a row; another shape is added behind it.
  bool row = c_id == qir::kAbsent;
  if (!row) {
    const qir::Tensor &c = l.tensor(c_id);
    const std::int64_t count = *element_count(c.shape.data(), c.shape.size());
    row = c.is_constant && count == columns && (c.shape.size() < 2 || c.shape[0] == 1);
  }
  const bool is_one = b.is_constant && row && !scaled;
  if (is_one) QR_RETURN_IF_ERROR(check_bias(l, node));
  if (!is_one && l.tensor(node.inputs[0]).quant && c_id != qir::kAbsent)
    return refuse(ErrorId::backend_limit,
                  "a quantised matrix multiplication with a bias that is no constant row, expected one of as many "
                  "elements as columns");
  const Order turned{1, 0}, straight{0, 1};
  const std::int32_t x = l.stored(node.inputs[0], turn_a ? turned : straight);
  if (is_one) {
    const std::int32_t w =
        exact_weights(l, node.inputs[0], l.stored(node.inputs[1], turn_b ? straight : turned), true);  // [N, K]
    const std::int32_t bias = bias_of(l, node, columns);
    l.node("FullyConnected", {x, w, bias}, {l.result(node.outputs[0])});
    return {};
  }
  const std::int32_t w = l.stored(node.inputs[1], turn_b ? turned : straight);
  const Vector<std::uint32_t> dims = Lowering::dims_of(out, straight);
  const auto times = [&](std::int32_t id, float factor, std::int32_t to) {
    l.node("ElementWiseMultiply", {id, scalar_like(l, node.inputs[0], "factor", factor)}, {to});
    return to;
  };
  const std::int32_t y = l.result(node.outputs[0]);
  std::int32_t product = c_id == qir::kAbsent && alpha == 1 ? y : l.between(node.outputs[0], "~product", dims);
  l.node("MatMul", {x, w}, {product});
  if (alpha != 1)
    product = times(product, alpha, c_id == qir::kAbsent ? y : l.between(node.outputs[0], "~scaled", dims));
  if (c_id != qir::kAbsent) {
    std::int32_t c = l.broadcast(c_id, straight);
    if (beta != 1) c = times(c, beta, l.between(node.outputs[0], "~bias", l.drafted(c).dims));
    l.node("ElementWiseAdd", {product, c}, {y});
  }
  return {};
}

namespace {

// The library wants a right operand of u16 to have its zero point in the middle.
std::int32_t centred(Lowering &l, std::int32_t operand) {
  const DraftTensor from = l.drafted(operand);
  constexpr std::int32_t kMiddle = 32768;
  if (from.type == qnn::TensorType::Static || from.dtype != DataType::UQ16 || from.encoding.scales.size() != 1 ||
      from.encoding.zero_points[0] == kMiddle)
    return operand;
  const std::int32_t zero = from.encoding.zero_points[0];
  Encoding encoding;
  encoding.scales = {from.encoding.scales[0] * static_cast<float>(std::max(zero, 65535 - zero)) / 32767.0f};
  encoding.zero_points = {kMiddle};
  const std::int32_t made = l.between(from.name, from.dtype, from.dims, std::move(encoding));
  l.node("Convert", {operand}, {made});
  return made;
}

// A product with a matrix that has a scale for each column: MatMul crashes the library while it checks that of rank 2.
bool fully_connected(Lowering &l, const qir::Node &node) {
  const qir::Tensor &x = l.tensor(node.inputs[0]), &w = l.tensor(node.inputs[1]);
  if (!x.quant || x.is_constant || !w.is_constant || !w.quant || w.quant->per_tensor() || w.quant->axis != 1 ||
      w.shape.size() != 2 || x.shape.size() < 2)
    return false;
  const std::int32_t from = l.natural(node.inputs[0]), weights = l.stored(node.inputs[1], Order{1, 0});
  const std::int32_t y = l.result(node.outputs[0]);
  if (x.shape.size() == 2) {
    l.node("FullyConnected", {from, weights}, {y});
    return true;
  }
  const Vector<std::uint32_t> dims = l.drafted(y).dims;
  std::uint32_t rows = 1;
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) rows *= dims[i];
  const std::int32_t flat = l.between(node.inputs[0], "~rows", {rows, l.drafted(from).dims.back()}),
                     product = l.between(node.outputs[0], "~rows", {rows, dims.back()});
  l.node("Reshape", {from}, {flat});
  l.node("FullyConnected", {flat, weights}, {product});
  l.node("Reshape", {product}, {y});
  return true;
}

}  // namespace

Status matmul(Lowering &l, const qir::Node &node) {
  if (block_product(l, node) || fully_connected(l, node)) return {};
  qir::MatMulGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_matmul(node, l.tensor(node.inputs[0]).shape, l.tensor(node.inputs[1]).shape, &g));
  const std::int32_t ids[2] = {node.inputs[0], node.inputs[1]};
  std::int32_t operands[2];
  const std::size_t rank = std::max({l.rank(ids[0]), l.rank(ids[1]), std::size_t{2}});
  bool vector = false;
  for (int i = 0; i < 2; ++i) {
    const qir::Tensor &tensor = l.tensor(ids[i]);
    operands[i] = l.natural(ids[i]);
    if (tensor.shape.size() >= 2 && (tensor.shape.size() == rank || tensor.is_constant)) continue;
    // A vector is a row on the left and a column on the right; batches that are not there have dimensions of 1.
    Vector<std::uint32_t> dims = l.drafted(operands[i]).dims;
    if (tensor.shape.size() == 1) {
      dims.insert(i == 0 ? dims.begin() : dims.end(), 1);
      vector = true;
    }
    if (!tensor.is_constant) dims.insert(dims.begin(), rank - dims.size(), 1);
    const std::int32_t wide = l.between(ids[i], "~matrix", dims);
    l.node("Reshape", {operands[i]}, {wide});
    operands[i] = wide;
  }
  operands[1] = exact_weights(l, ids[0], centred(l, operands[1]), true);
  if (!vector) {
    l.node("MatMul", {operands[0], operands[1]}, {l.result(node.outputs[0])});
    return {};
  }
  Vector<std::uint32_t> dims;
  for (std::uint32_t i = 0; i < g.batch_rank; ++i) dims.push_back(static_cast<std::uint32_t>(g.batch[i]));
  dims.push_back(static_cast<std::uint32_t>(g.m)), dims.push_back(static_cast<std::uint32_t>(g.n));
  const std::int32_t product = l.between(node.outputs[0], "~matrix", dims);
  l.node("MatMul", {operands[0], operands[1]}, {product});
  l.node("Reshape", {product}, {l.result(node.outputs[0])});
  return {};
}

}  // namespace quarry::htp::rules
