// SPDX-License-Identifier: Apache-2.0
// Operators on images: channels last.
#include <algorithm>
#include <bit>

#include "backends/htp/lower/rules.h"
#include "base/checked.h"
#include "base/float16.h"

namespace quarry::htp::rules {

using qir::Op;

namespace {

void window_params(Lowering &l, DraftNode &made, const qir::Window &w) {
  l.param(made, "filter_size", unsigned_of({w.kernel, 2}));
  l.param(made, "stride", unsigned_of({w.stride, 2}));
  const std::uint32_t pads[4] = {static_cast<std::uint32_t>(w.pad_begin[0]), static_cast<std::uint32_t>(w.pad_end[0]),
                                 static_cast<std::uint32_t>(w.pad_begin[1]), static_cast<std::uint32_t>(w.pad_end[1])};
  l.param(made, "pad_amount", pads, {2, 2});
}

std::int64_t reach_of(const qir::Window &w, std::uint32_t axis) { return (w.kernel[axis] - 1) * w.dilation[axis] + 1; }

// So much must stand behind the input for the last window to lie in it.
std::int64_t needed_behind(const qir::Window &w, int axis) {
  return std::max<std::int64_t>(0,
                                (w.out[axis] - 1) * w.stride[axis] + w.kernel[axis] - w.in[axis] - w.pad_begin[axis]);
}

// Results for which the library's average gives other elements' sums: tall and narrow, of windows one after the other.
// Measured on v73 to v79 from 13 rows and to 8 columns, whatever the channels.
bool is_tall(const qir::Window &w) {
  return w.stride[0] == 1 && w.stride[1] == 1 && w.out[0] > 8 && w.out[1] > 1 && w.out[1] <= 8;
}

// How many elements the windows along an axis see.
Vector<float> counts_of(const qir::Window &w, int axis, bool counts_padding) {
  const std::int64_t from = counts_padding ? -w.pad_begin[axis] : 0,
                     to = w.in[axis] + (counts_padding ? w.pad_end[axis] : 0);
  Vector<float> counts;
  for (std::int64_t o = 0; o < w.out[axis]; ++o) {
    float count = 0;
    for (std::int64_t k = 0; k < w.kernel[axis]; ++k) {
      const std::int64_t at = o * w.stride[axis] - w.pad_begin[axis] + k * w.dilation[axis];
      count += at >= from && at < to ? 1.0f : 0.0f;
    }
    counts.push_back(std::max(count, 1.0f));
  }
  return counts;
}

// The average over whole windows, of zeros where they go beyond, times what it is too small by.
void average_by_sums(Lowering &l, const qir::Node &node, const qir::Window &w, bool counts_padding, std::int32_t x,
                     std::int32_t y) {
  const Vector<std::uint32_t> dims = l.drafted(y).dims;
  const std::uint32_t channels = dims.back();
  const float whole = static_cast<float>(w.kernel[0] * w.kernel[1]);
  const Vector<float> part(static_cast<std::size_t>(w.kernel[0] * w.kernel[1]) * channels, 1 / whole);
  std::int32_t weights =
      l.constant(node.name + ".part", qnn::DataType::F32,
                 {static_cast<std::uint32_t>(w.kernel[0]), static_cast<std::uint32_t>(w.kernel[1]), 1, channels},
                 part.data(), part.size() * 4);
  const Vector<float> rows = counts_of(w, 0, counts_padding), columns = counts_of(w, 1, counts_padding);
  Vector<float> factors;
  for (const float row : rows)
    for (const float column : columns) factors.push_back(whole / (row * column));
  const bool even = std::all_of(factors.begin(), factors.end(), [](float f) { return f == 1; });
  const std::int32_t sums = even ? y : l.between(node.outputs[0], "~sums", dims);
  qir::Window given = w;
  for (std::uint32_t i = 0; i < 2; ++i)  // as much behind as the last window reaches, not what is given
    given.pad_end[i] =
        std::max<std::int64_t>((w.out[i] - 1) * w.stride[i] + reach_of(w, i) - w.in[i] - w.pad_begin[i], 0);
  x = padded_apart(l, x, given);
  weights = as_wide_as_stride(l, weights, given);
  // The depthwise one is wrong of one channel.
  DraftNode &made = l.node(channels == 1 ? "Conv2d" : "DepthWiseConv2d", {x, weights}, {sums});
  l.param(made, "stride", unsigned_of({w.stride, 2}));
  l.param(made, "dilation", unsigned_of({w.dilation, 2}));
  std::uint32_t pads[4];
  for (int i = 0; i < 2; ++i) {
    pads[2 * i] = static_cast<std::uint32_t>(given.pad_begin[i]);
    pads[2 * i + 1] = static_cast<std::uint32_t>(given.pad_end[i]);
  }
  l.param(made, "pad_amount", std::span<const std::uint32_t>(pads), {2, 2});
  if (even) return;
  const std::int32_t map = l.constant(node.name + ".factors", qnn::DataType::F32, {1, dims[1], dims[2], 1},
                                      factors.data(), factors.size() * 4);
  l.node("ElementWiseMultiply", {sums, map}, {y});
}

void copy_axis(const qir::Window &from, std::uint32_t axis, qir::Window &to, std::uint32_t place) {
  to.kernel[place] = from.kernel[axis], to.stride[place] = from.stride[axis], to.dilation[place] = from.dilation[axis];
  to.pad_begin[place] = from.pad_begin[axis], to.pad_end[place] = from.pad_end[axis];
  to.in[place] = from.in[axis], to.out[place] = from.out[axis];
}

// The first axis alone, at `place` of two; along the other one are `extent` windows of one element.
qir::Window beside(const qir::Window &w, std::int64_t extent, std::uint32_t place) {
  qir::Window out = w;
  copy_axis(w, 0, out, place);
  const std::uint32_t other = 1 - place;
  out.kernel[other] = out.stride[other] = out.dilation[other] = 1;
  out.pad_begin[other] = out.pad_end[other] = 0;
  out.in[other] = out.out[other] = std::max<std::int64_t>(extent, 1);
  out.rank = 2;
  return out;
}

// What the windows of a maximum see, where the library crashes of the whole.
std::int32_t seen_by_maximum(Lowering &l, std::int32_t x, qir::Window &given) {
  for (std::uint32_t i = 0; i < 2; ++i) {  // past both edges: the library crashes
    const std::int64_t sees = std::min(given.in[i], given.kernel[i] - given.pad_begin[i]);
    if (given.out[i] != 1 || (given.pad_begin[i] == 0 && given.pad_end[i] == 0) || sees <= 0) continue;
    if (sees < given.in[i]) x = part_of(l, x, i + 1, 0, static_cast<std::uint32_t>(sees));
    given.in[i] = given.kernel[i] = sees;
    given.stride[i] = 1, given.pad_begin[i] = given.pad_end[i] = 0;
  }
  // Columns or rows that are left out: with windows of one of them the library crashes.
  for (std::uint32_t i = 0; i < 2; ++i) {
    if (given.kernel[i] != 1 || given.stride[i] == 1 || given.pad_begin[i] > 0 || given.pad_end[i] > 0) continue;
    const std::int32_t left = part_by_steps(l, x, i + 1, {0, given.stride[i], given.out[i]});
    const DraftTensor from = l.drafted(left);
    x = l.between(from.name, from.dtype, from.dims, from.encoding);
    clip_nothing(l, left, x);
    given.in[i] = given.out[i], given.stride[i] = 1;
  }
  return x;
}

// What the windows of an average see along axes with one of them. Gives the part of the elements that are counted.
float seen_by_average(Lowering &l, std::int32_t &x, qir::Window &w, bool counts_padding) {
  float part = 1;
  for (std::uint32_t i = 0; i < 2; ++i) {
    const float counted = counts_of(w, static_cast<int>(i), counts_padding)[0];
    const OnePosition one = take_one_position(w, i);
    if (one.count == 0) continue;
    if (l.drafted(x).dims[i + 1] != one.count) x = part_by_steps(l, x, i + 1, {one.from, one.step, one.count});
    part *= static_cast<float>(one.count) / counted;
  }
  return part;
}

void average_image(Lowering &l, const qir::Node &node, qir::Window w, std::int32_t x, std::int32_t y) {
  const bool counts_padding = node.get_int("count_include_pad", 0) != 0;
  const float part = seen_by_average(l, x, w, counts_padding);
  const DraftTensor to = l.drafted(y);
  const std::int32_t made = part == 1 ? y : l.between(to.name, to.dtype, to.dims);
  if (!l.tensor(node.inputs[0]).quant &&
      (w.dilation[0] != 1 || w.dilation[1] != 1 || has_odd_edges(w, counts_padding) || is_tall(w))) {
    average_by_sums(l, node, w, counts_padding, x, made);
  } else {
    DraftNode &pool = l.node("PoolAvg2d", {x}, {made});
    window_params(l, pool, w);
    l.param(pool, "count_pad_for_edges", counts_padding);
    if (node.get_int("ceil_mode", 0) != 0) l.param(pool, "rounding_mode", std::uint32_t{1});
  }
  if (part != 1) l.node("ElementWiseMultiply", {made, scalar_like(l, node.inputs[0], "part", part)}, {y});
}

// Two axes, channels last.
void pool_image(Lowering &l, const qir::Node &node, const qir::Window &w, std::int32_t x, std::int32_t y) {
  if (node.op == Op::AveragePool) return average_image(l, node, w, x, y);
  qir::Window given = w;
  x = padded_apart(l, seen_by_maximum(l, x, given), given, true);
  DraftNode &made = l.node("PoolMax2d", {x}, {y});
  // ONNX drops a window that begins in the padding behind: the reach of a maximum's windows is stated instead.
  if (node.get_int("ceil_mode", 0) != 0)
    for (int i = 0; i < 2; ++i) given.pad_end[i] = needed_behind(given, i);
  window_params(l, made, given);
}

}  // namespace

bool has_odd_edges(const qir::Window &w, bool counts) {
  for (int i = 0; i < static_cast<int>(w.rank); ++i) {
    if (w.pad_begin[i] == 0 && w.pad_end[i] == 0 && needed_behind(w, i) == 0) continue;
    if (counts || w.pad_begin[i] != w.pad_end[i] || 2 * w.pad_begin[i] >= w.kernel[i] ||
        needed_behind(w, i) > w.pad_end[i])
      return true;
    // Beyond one edge, and to the other or beyond it: what it sees is counted wrongly.
    for (std::int64_t from = -w.pad_begin[i]; from < 0; from += w.stride[i])
      if (from + w.kernel[i] >= w.in[i]) return true;
  }
  return false;
}

// Of an image of one column the library gives other elements where a Reshape reads what a padded convolution or average
// makes of it. The axes of such an image are stored as those of one row; of a kernel the column is left that lies on
// it.
bool is_column_of(const qir::Window &w) {
  return w.rank == 2 && w.in[1] == 1 && w.out[1] == 1 && w.in[0] > 1 && w.dilation[0] == 1 &&
         w.pad_begin[1] % w.dilation[1] == 0 && w.pad_begin[1] / w.dilation[1] < w.kernel[1];
}
bool wants_turn(const qir::Window &w, std::int64_t channels) {
  return w.rank == 2 && channels == 1 && w.out[1] == 1 && w.out[0] > 1;
}
void turn(qir::Window &w) {
  for (auto *const list : {w.in, w.out, w.kernel, w.stride, w.dilation, w.pad_begin, w.pad_end})
    std::swap(list[0], list[1]);
}
void lay_column(qir::Window &w) {
  w.kernel[1] = w.stride[1] = w.dilation[1] = 1;
  w.pad_begin[1] = w.pad_end[1] = 0;
  turn(w);
}

std::int32_t padded_apart(Lowering &l, std::int32_t x, qir::Window &w, bool lowest) {
  const DraftTensor from = l.drafted(x);
  Vector<std::uint32_t> amounts(2 * from.dims.size());
  bool any = false;
  for (std::uint32_t i = 0; i < w.rank; ++i) {
    const std::int64_t most = std::max(w.pad_begin[i], w.pad_end[i]);
    // (A dilated convolution to one position reads its padding wrongly too, and so do several windows of one element.)
    const bool is_wrong = w.out[i] == 1 ? w.dilation[i] != 1 : w.in[i] == 1;
    if (most < reach_of(w, i) && (most == 0 || !is_wrong)) continue;
    any = true;
    amounts[2 * (i + 1)] = static_cast<std::uint32_t>(w.pad_begin[i]);
    amounts[2 * (i + 1) + 1] = static_cast<std::uint32_t>(w.pad_end[i]);
    w.in[i] += w.pad_begin[i] + w.pad_end[i];
    w.pad_begin[i] = w.pad_end[i] = 0;
  }
  if (!any) return x;
  std::int32_t value = from.encoding.scales.empty() ? 0 : from.encoding.zero_points[0];
  if (lowest && from.encoding.scales.empty()) {
    const float least = -kLargestF16;
    value = std::bit_cast<std::int32_t>(least);
  } else if (lowest) {
    value = from.dtype == qnn::DataType::SQ8 ? -128 : from.dtype == qnn::DataType::SQ16 ? -32768 : 0;
  }
  // A clip that clips nothing, or the library would put it into the window again.
  const std::int32_t padded = padded_by_parts(l, x, amounts, value),
                     made = l.between(from.name, from.dtype, l.drafted(padded).dims, from.encoding);
  clip_nothing(l, padded, made);
  return made;
}

Status pool(Lowering &l, const qir::Node &node) {
  if (node.outputs.size() > 1 && node.outputs[1] != qir::kAbsent)
    return refuse(ErrorId::backend_limit, "the indices of MaxPool are asked for, expected its first output alone");
  qir::Window w;
  QR_RETURN_IF_ERROR(qir::resolve_pool(node, l.tensor(node.inputs[0]).shape, &w));
  if (w.rank > 3) return refuse(ErrorId::backend_limit, format("%u spatial axes, expected at most 3", w.rank));
  for (std::uint32_t i = 0; i < w.rank; ++i)
    if (w.dilation[i] != 1 && (node.op != Op::AveragePool || l.tensor(node.inputs[0]).quant))
      return refuse(ErrorId::backend_limit, format("dilation %lld, expected 1", w.dilation[i]));
  Order order = channels_last(l.rank(node.inputs[0]));
  // (An average that counts its padding needs its columns.)
  if (is_column_of(w) &&
      (w.kernel[1] == 1 || node.op != Op::AveragePool || node.get_int("count_include_pad", 0) == 0)) {
    std::swap(order[1], order[2]);
    lay_column(w);
  } else if (wants_turn(w, l.tensor(node.inputs[0]).shape[1])) {
    std::swap(order[1], order[2]);
    turn(w);
  }
  const std::int32_t x = l.stored(node.inputs[0], order);
  const Vector<std::uint32_t> in = l.drafted(x).dims, out = Lowering::dims_of(l.tensor(node.outputs[0]).shape, order);
  if (w.rank == 2) {
    pool_image(l, node, w, x, l.result(node.outputs[0], order));
    return {};
  }
  const auto shaped = [&](std::int32_t from, Vector<std::uint32_t> dims) {
    const std::int32_t made = l.between(node.inputs[0], "~2d", std::move(dims));
    l.node("Reshape", {from}, {made});
    return made;
  };
  std::int32_t y;
  if (w.rank == 1) {
    y = l.between(node.outputs[0], "~2d", {out[0], 1, out[1], out[2]});
    pool_image(l, node, beside(w, 0, 1), shaped(x, {in[0], 1, in[1], in[2]}), y);
  } else {  // the image's plane first, then what lies behind each other
    qir::Window plane = w;
    for (std::uint32_t i = 0; i < 2; ++i) copy_axis(w, i + 1, plane, i);
    plane.rank = 2;
    const std::int32_t flat = l.between(node.outputs[0], "~plane", {in[0] * in[1], out[2], out[3], in[4]});
    pool_image(l, node, plane, shaped(x, {in[0] * in[1], in[2], in[3], in[4]}), flat);
    y = l.between(node.outputs[0], "~2d", {out[0], out[1], out[2] * out[3], out[4]});
    pool_image(l, node, beside(w, out[2] * out[3], 0), shaped(flat, {in[0], in[1], out[2] * out[3], in[4]}), y);
  }
  l.node("Reshape", {y}, {l.result(node.outputs[0], order)});
  return {};
}

// A mean or a maximum over the image: the pool refuses windows of that size.
Status global_pool(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]);
  const Order order = channels_last(rank);
  const std::int32_t x = l.stored(node.inputs[0], order);
  DraftNode &made =
      l.node(node.op == Op::GlobalMaxPool ? "ReduceMax" : "ReduceMean", {x}, {l.result(node.outputs[0], order)});
  Vector<std::uint32_t> axes;
  for (std::uint32_t i = 1; i + 1 < rank; ++i) axes.push_back(i);
  l.param(made, "axes", axes);
  l.param(made, "keep_dims", true);
  return {};
}

Status depth_space(Lowering &l, const qir::Node &node) {
  const Order order = channels_last(4);
  const std::int32_t x = l.stored(node.inputs[0], order);
  const std::uint32_t block = static_cast<std::uint32_t>(node.get_int("blocksize", 1));
  const std::uint32_t blocks[2] = {block, block};
  const bool to_space = node.op == Op::DepthToSpace;
  DraftNode &made = l.node(to_space ? "DepthToSpace" : "SpaceToDepth", {x}, {l.result(node.outputs[0], order)});
  l.param(made, "block_size", std::span<const std::uint32_t>(blocks));
  l.param(made, "mode", std::uint32_t{node.get_string("mode", "DCR") == "CRD" ? 1u : 0u});
  return {};
}

Status lrn(Lowering &l, const qir::Node &node) {
  const std::int64_t size = node.get_int("size", 1);
  if (size % 2 == 0) return refuse(ErrorId::backend_limit, format("size %lld, expected an odd number", size));
  const Order order = channels_last(l.rank(node.inputs[0]));
  const std::int32_t x = l.stored(node.inputs[0], order), y = l.result(node.outputs[0], order);
  // v68 cannot prepare all Transposes that read an Lrn: a clip that clips nothing stands between.
  const bool apart = l.soc().arch == 68 && l.drafted(y).encoding.scales.empty();
  const std::int32_t normalized = apart ? l.between(node.outputs[0], "~lrn", l.drafted(y).dims) : y;
  DraftNode &made = l.node("Lrn", {x}, {normalized});
  l.param(made, "alpha", node.get_float("alpha", 0.0001f) / static_cast<float>(size));
  l.param(made, "beta", node.get_float("beta", 0.75f));
  l.param(made, "bias", node.get_float("bias", 1));
  l.param(made, "radius", static_cast<std::int32_t>(size / 2));
  if (apart) clip_nothing(l, normalized, y);
  return {};
}

}  // namespace quarry::htp::rules
