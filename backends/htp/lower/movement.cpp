// SPDX-License-Identifier: Apache-2.0
// Operators that move values and compute none.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include "backends/htp/lower/rules.h"
#include "base/checked.h"
#include "base/float16.h"
#include "graph/ops/quantization.h"

namespace quarry::htp::rules {

using qnn::DataType;

namespace {

bool is_empty(const qir::Tensor &tensor) {
  return std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
}

// The order of the first operand of full rank that is not stored as the model has it.
Order order_of_inputs(Lowering &l, const qir::Node &node) {
  for (const std::int32_t id : node.inputs)
    if (id != qir::kAbsent && !l.tensor(id).is_constant && !is_natural(l.order(id))) return l.order(id);
  return natural_order(l.rank(node.inputs[0]));
}

}  // namespace

Status reshape(Lowering &l, const qir::Node &node) {
  const std::int32_t x = l.natural(node.inputs[0]);
  l.node("Reshape", {x}, {l.result(node.outputs[0])});
  return {};
}

// Nothing moves: what is stored is the same, its axes have other numbers. Who wants another order moves it then.
Status transpose(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]);
  const Vector<std::int64_t> *const perm = node.get_ints("perm");
  const Order from = l.order(node.inputs[0]);
  Order to(rank);
  for (std::size_t out = 0; out < rank; ++out) {
    const std::size_t in = perm ? static_cast<std::size_t>((*perm)[out]) : rank - 1 - out;
    to[place_of(from, in)] = static_cast<std::uint8_t>(out);
  }
  l.same_as(node.outputs[0], l.stored(node.inputs[0], from), to);
  return {};
}

Status concat(Lowering &l, const qir::Node &node) {
  const Order order = order_of_inputs(l, node);
  const std::size_t axis = axis_of(node, "axis", 0, order.size());
  Vector<std::int32_t> parts;
  for (const std::int32_t id : node.inputs)
    if (!is_empty(l.tensor(id))) parts.push_back(l.stored(id, order));
  if (parts.size() == 1) {
    l.same_as(node.outputs[0], parts[0], order);
    return {};
  }
  const std::int32_t y = l.result(node.outputs[0], order);
  DraftNode &written = l.node("Concat", {}, {y});
  written.inputs = std::move(parts);
  l.param(written, "axis", place_of(order, axis));
  return {};
}

Status split(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  const std::size_t axis = axis_of(node, "axis", 0, order.size());
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> given, constant_ints(l, node, 1, "sizes"));
  Vector<std::int64_t> sizes;
  QR_RETURN_IF_ERROR(qir::resolve_split(node, l.tensor(node.inputs[0]).shape[axis], given, &sizes));
  Vector<std::uint32_t> cuts;
  std::uint32_t at = 0;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) cuts.push_back(at += static_cast<std::uint32_t>(sizes[i]));
  const std::int32_t x = l.stored(node.inputs[0], order);
  if (cuts.empty()) {
    l.same_as(node.outputs[0], x, order);
    return {};
  }
  Vector<std::int32_t> parts;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    Vector<std::uint32_t> dims = l.drafted(x).dims;
    dims[place_of(order, axis)] = static_cast<std::uint32_t>(sizes[i]);
    parts.push_back(node.outputs[i] == qir::kAbsent ? l.between(node.inputs[0], "~part", dims)
                                                    : l.result(node.outputs[i], order));
  }
  DraftNode &made = l.node("Split", {x}, {});
  made.outputs = std::move(parts);
  l.param(made, "axis", place_of(order, axis));
  l.param(made, "split_index", cuts);
  return {};
}

std::int32_t filled_like(Lowering &l, std::int32_t like, const Vector<std::uint32_t> &dims, std::int32_t stored) {
  const DraftTensor from = l.drafted(like);
  const std::size_t size = element_bytes(from.dtype);
  std::uint64_t count = 1;
  for (const std::uint32_t extent : dims) count *= extent;
  auto *const bytes = static_cast<std::uint8_t *>(l.store().allocate(count * size));
  std::uint32_t element = std::bit_cast<std::uint32_t>(stored);
  if (from.dtype == DataType::F16) element = f32_to_f16(std::bit_cast<float>(stored));
  else if (from.dtype == DataType::BF16) element >>= 16;
  for (std::uint64_t i = 0; i < count; ++i) std::memcpy(bytes + i * size, &element, size);
  return l.constant(from.name, from.dtype, dims, {bytes, count * size}, from.encoding);
}

namespace {

std::uint32_t product_of(std::span<const std::uint32_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), 1u, std::multiplies<>());
}

std::int32_t padded_along(Lowering &l, std::int32_t x, std::size_t axis, std::uint32_t before, std::uint32_t behind,
                          std::int32_t stored) {
  const DraftTensor from = l.drafted(x);
  Vector<std::uint32_t> parts_dims = from.dims;
  // Of whole numbers the library is wrong where the last axis is padded beside others: what lies before the axis and
  // behind it is one axis each then.
  const bool views = from.dims.size() > 2 &&
                     (from.dtype == DataType::I32 || from.dtype == DataType::U32 || from.dtype == DataType::SQ8);
  const std::size_t at = views ? 1 : axis;
  if (views) {
    const std::span<const std::uint32_t> dims(from.dims);
    parts_dims = {product_of(dims.first(axis)), dims[axis], product_of(dims.subspan(axis + 1))};
    x = l.reshaped(x, parts_dims);
  }
  Vector<std::int32_t> parts = {x};
  const auto filled = [&](std::uint32_t count) {
    Vector<std::uint32_t> shape = parts_dims;
    shape[at] = count;
    return filled_like(l, x, shape, stored);
  };
  if (before > 0) parts.insert(parts.begin(), filled(before));
  if (behind > 0) parts.push_back(filled(behind));
  parts_dims[at] += before + behind;
  const std::int32_t made = l.between(from.name, from.dtype, parts_dims, from.encoding);
  DraftNode &concat = l.node("Concat", {}, {made});
  concat.inputs = std::move(parts);
  l.param(concat, "axis", static_cast<std::uint32_t>(at));
  if (!views) return made;
  Vector<std::uint32_t> dims = from.dims;
  dims[axis] += before + behind;
  return l.reshaped(made, std::move(dims));
}

}  // namespace

std::int32_t padded_by_parts(Lowering &l, std::int32_t x, const Vector<std::uint32_t> &amounts, std::int32_t stored) {
  for (std::size_t axis = 0; 2 * axis < amounts.size(); ++axis)
    if (const std::uint32_t before = amounts[2 * axis], behind = amounts[2 * axis + 1]; before != 0 || behind != 0)
      x = padded_along(l, x, axis, before, behind, stored);
  return x;
}

void clip_nothing(Lowering &l, std::int32_t x, std::int32_t y) {
  DraftNode &clip = l.node("ReluMinMax", {x}, {y});
  l.param(clip, "min_value", -kLargestF16);
  l.param(clip, "max_value", kLargestF16);
}

void strided_slice(Lowering &l, std::int32_t x, const Vector<std::int32_t> &ranges, std::uint32_t open,
                   std::int32_t y) {
  DraftNode &made = l.node("StridedSlice", {x}, {y});
  l.param(made, "ranges", ranges, {static_cast<std::uint32_t>(ranges.size() / 3), 3});
  l.param(made, "end_mask", open);
  for (const char *const mask : {"begin_mask", "shrink_axes", "new_axes_mask"}) l.param(made, mask, std::uint32_t{0});
}

std::int32_t part_by_steps(Lowering &l, std::int32_t x, std::size_t place, const Steps &steps) {
  const DraftTensor whole = l.drafted(x);
  Vector<std::int32_t> ranges;
  Vector<std::uint32_t> dims = whole.dims;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool is_it = i == place;
    ranges.push_back(is_it ? static_cast<std::int32_t>(steps.from) : 0);
    ranges.push_back(
        static_cast<std::int32_t>(is_it ? steps.from + (steps.count - 1) * steps.step + 1 : std::int64_t{dims[i]}));
    ranges.push_back(is_it ? static_cast<std::int32_t>(steps.step) : 1);
  }
  dims[place] = static_cast<std::uint32_t>(steps.count);
  const std::int32_t made = l.between(whole.name, whole.dtype, dims, whole.encoding);
  strided_slice(l, x, ranges, 0, made);
  return made;
}

std::int32_t part_of(Lowering &l, std::int32_t x, std::size_t place, std::uint32_t from, std::uint32_t to) {
  const DraftTensor whole = l.drafted(x);
  Vector<std::int32_t> ranges;
  for (std::size_t i = 0; i < whole.dims.size(); ++i) {
    ranges.push_back(i == place ? static_cast<std::int32_t>(from) : 0);
    ranges.push_back(static_cast<std::int32_t>(i == place ? to : whole.dims[i]));
    ranges.push_back(1);
  }
  Vector<std::uint32_t> dims = whole.dims;
  dims[place] = to - from;
  if (whole.type == qnn::TensorType::Static &&
      (whole.encoding.scales.size() < 2 || whole.encoding.axis != static_cast<std::int32_t>(place))) {
    std::uint64_t inner = element_bytes(whole.dtype), outer = 1;
    for (std::size_t i = 0; i < dims.size(); ++i) (i < place ? outer : inner) *= i == place ? 1 : dims[i];
    const std::uint64_t part = inner * (to - from), all = inner * whole.dims[place];
    auto *const bytes = static_cast<std::uint8_t *>(l.store().allocate(outer * part));
    for (std::uint64_t i = 0; i < outer; ++i)
      std::memcpy(bytes + i * part, static_cast<const std::uint8_t *>(whole.data.data) + i * all + from * inner, part);
    return l.constant(whole.name, whole.dtype, std::move(dims), {bytes, outer * part}, whole.encoding);
  }
  const std::int32_t made = l.between(whole.name, whole.dtype, std::move(dims), whole.encoding);
  strided_slice(l, x, ranges, 0, made);
  return made;
}

void backwards(Lowering &l, std::int32_t x, std::size_t place, std::int32_t y) {
  Vector<std::int32_t> ranges;
  const Vector<std::uint32_t> dims = l.drafted(x).dims;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto extent = static_cast<std::int32_t>(dims[i]);
    ranges.push_back(i == place ? extent - 1 : 0);
    ranges.push_back(i == place ? 0 : extent);
    ranges.push_back(i == place ? -1 : 1);
  }
  strided_slice(l, x, ranges, 1u << place, y);
}

Status slice(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  Vector<std::int64_t> lists[4];
  static constexpr const char *kNames[4] = {"starts", "ends", "axes", "steps"};
  for (std::size_t i = 0; i < 4; ++i) {
    QR_ASSIGN_OR_RETURN(lists[i], constant_ints(l, node, i + 1, kNames[i]));
  }
  qir::SliceGeometry g;
  QR_RETURN_IF_ERROR(
      qir::resolve_slice(node, l.tensor(node.inputs[0]).shape, lists[0], lists[1], lists[2], lists[3], &g));
  Vector<std::int32_t> ranges;
  std::uint32_t open = 0;  // a bit for each stored axis: it ends before the first element, which no number says
  for (std::size_t place = 0; place < order.size(); ++place) {
    const std::size_t axis = order[place];
    const std::int64_t end = g.start[axis] + g.step[axis] * g.extent[axis];
    if (end < 0) open |= 1u << place;
    ranges.push_back(static_cast<std::int32_t>(g.start[axis]));
    ranges.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(end, 0)));
    ranges.push_back(static_cast<std::int32_t>(g.step[axis]));
  }
  strided_slice(l, l.stored(node.inputs[0], order), ranges, open, l.result(node.outputs[0], order));
  return {};
}

namespace {

// Which element each position of a padded axis holds. What negative pads cut is not there to be repeated or mirrored.
Vector<std::int32_t> places_of(std::int64_t extent, std::int64_t begin, std::int64_t end, std::string_view mode) {
  const std::int64_t cut = std::max<std::int64_t>(-begin, 0);
  extent -= cut + std::max<std::int64_t>(-end, 0);
  begin = std::max<std::int64_t>(begin, 0), end = std::max<std::int64_t>(end, 0);
  Vector<std::int32_t> places;
  for (std::int64_t at = -begin; at < extent + end; ++at) {
    std::int64_t from = std::clamp<std::int64_t>(at, 0, extent - 1);
    if (mode == "wrap") from = (at % extent + extent) % extent;
    if (mode == "reflect" && extent > 1) {
      const std::int64_t period = 2 * (extent - 1), within = (at % period + period) % period;
      from = std::min(within, period - within);
    }
    places.push_back(static_cast<std::int32_t>(from + cut));
  }
  return places;
}

// The library's own is wrong along the last axis and others: each padded axis is gathered.
Status pad_by_places(Lowering &l, const qir::Node &node, const qir::PadGeometry &g, std::string_view mode) {
  const Order order = l.order(node.inputs[0]);
  std::int32_t x = l.stored(node.inputs[0], order);
  Vector<std::uint32_t> dims = l.drafted(x).dims;
  std::size_t left = 0;
  for (const std::uint8_t axis : order) left += g.begin[axis] != 0 || g.end[axis] != 0;
  if (left == 0) {
    l.same_as(node.outputs[0], x, order);
    return {};
  }
  for (std::uint32_t place = 0; place < order.size(); ++place) {
    const std::size_t axis = order[place];
    if (g.begin[axis] == 0 && g.end[axis] == 0) continue;
    const Vector<std::int32_t> places = places_of(dims[place], g.begin[axis], g.end[axis], mode);
    dims[place] = static_cast<std::uint32_t>(places.size());
    const std::int32_t at = l.constant(node.name + ".places", DataType::I32, {dims[place]}, places.data(),
                                       places.size() * sizeof(std::int32_t));
    const std::int32_t y = --left == 0 ? l.result(node.outputs[0], order) : l.between(node.inputs[0], "~padded", dims);
    l.param(l.node("Gather", {x, at}, {y}), "axis", static_cast<std::int32_t>(place));
    x = y;
  }
  return {};
}

// A window behind it would reach over the padding alone: the library puts a Pad of zeros into it, and is wrong then.
bool reaches_over_window(const Lowering &l, std::int32_t id, const qir::PadGeometry &g) {
  return std::ranges::any_of(l.graph().nodes, [&](const qir::Node &node) {
    qir::ConvGeometry window;
    if (node.op != qir::Op::Conv || node.inputs[0] != id ||
        !qir::resolve_conv(node, l.tensor(id).shape, l.tensor(node.inputs[1]).shape, &window).ok())
      return false;
    for (std::uint32_t i = 0; i < window.rank; ++i)
      if (std::max(g.begin[i + 2] + window.pad_begin[i], g.end[i + 2] + window.pad_end[i]) >=
          (window.kernel[i] - 1) * window.dilation[i] + 1)
        return true;
    return false;
  });
}

}  // namespace

namespace {

// The last axis is padded behind alone, and another one behind too: of floats the library then leaves out elements.
bool is_open_corner(const Vector<std::uint32_t> &amounts) {
  const std::size_t last = amounts.size() - 2;
  if (amounts[last] != 0 || amounts[last + 1] == 0) return false;
  for (std::size_t i = 1; i < last; i += 2)
    if (amounts[i] != 0) return true;
  return false;
}

// `amounts`: before and behind each axis, in the order in which they are stored.
void pad_by_value(Lowering &l, const qir::Node &node, const qir::PadGeometry &g, Vector<std::uint32_t> amounts,
                  float value) {
  const Order order = l.order(node.inputs[0]);
  const qir::Tensor &data = l.tensor(node.inputs[0]);
  const bool is_real = data.dtype == DType::F32 || data.dtype == DType::F16 || data.dtype == DType::BF16;
  // As Lowering::within_half: v81 makes an infinity of what float16 has not, and of that a wrong maximum.
  if (is_real && l.soc().arch >= 69 && !std::isnan(value)) value = std::clamp(value, -kLargestF16, kLargestF16);
  std::int32_t stored = static_cast<std::int32_t>(value);
  if (data.quant)
    stored = static_cast<std::int32_t>(
        qir::quantized_value(value, data.quant->scales[0], data.quant->zero_points[0], data.dtype));
  std::int32_t x = l.stored(node.inputs[0], order);
  // It pads no integers of 32 bits; and of a Pad behind a Slice it makes one that forgets the value.
  const bool is_sliced = value != 0 && data.dtype != DType::F16 && data.dtype != DType::BF16 &&
                         std::ranges::any_of(l.graph().nodes, [&](const qir::Node &other) {
                           return other.op == qir::Op::Slice && other.outputs[0] == node.inputs[0];
                         });
  const bool is_bytes =
      data.dtype == DType::I8 && std::ranges::count_if(amounts, [](std::uint32_t amount) { return amount > 0; }) > 1;
  if (is_sliced || is_bytes || data.dtype == DType::I32 || data.dtype == DType::I64 || data.dtype == DType::U32 ||
      data.dtype == DType::U64) {
    if (is_real) stored = std::bit_cast<std::int32_t>(std::clamp(value, -kLargestF16, kLargestF16));
    l.same_as(node.outputs[0], padded_by_parts(l, x, amounts, stored), order);
    return;
  }
  const std::int32_t y = l.result(node.outputs[0], order);
  const bool apart = reaches_over_window(l, node.outputs[0], g);
  const std::int32_t padded = apart ? l.between(node.outputs[0], "~padded", l.drafted(y).dims) : y;
  if (is_real && is_open_corner(amounts)) {
    const float value_behind = std::clamp(value, -kLargestF16, kLargestF16);
    x = padded_along(l, x, order.size() - 1, 0, amounts.back(), std::bit_cast<std::int32_t>(value_behind));
    amounts.back() = 0;
  }
  DraftNode &made = l.node("Pad", {x}, {padded});
  l.param(made, "scheme", std::uint32_t{0});
  l.param(made, "pad_amount", amounts, {static_cast<std::uint32_t>(order.size()), 2});
  if (is_real) l.param(made, "pad_constant_value", value);
  else l.param(made, "pad_constant_value", stored);
  if (apart) clip_nothing(l, padded, y);
}

}  // namespace

Status pad(Lowering &l, const qir::Node &node) {
  const std::string_view mode = node.get_string("mode", "constant");
  const Order order = l.order(node.inputs[0]);
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> pads, constant_ints(l, node, 1, "pads"));
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> axes, constant_ints(l, node, 3, "axes"));
  qir::PadGeometry g;
  QR_RETURN_IF_ERROR(
      qir::resolve_pad(node, l.tensor(node.inputs[0]).shape, pads, node.inputs[3] != qir::kAbsent, axes, &g));
  const auto is_none = [](std::int64_t amount) { return amount == 0; };
  if (std::all_of(g.begin, g.begin + order.size(), is_none) && std::all_of(g.end, g.end + order.size(), is_none)) {
    l.same_as(node.outputs[0], l.stored(node.inputs[0], order), order);
    return {};
  }
  if (mode != "constant") {
    for (const std::uint8_t axis : order)
      if (l.tensor(node.inputs[0]).shape[axis] + std::min<std::int64_t>(g.begin[axis], 0) +
              std::min<std::int64_t>(g.end[axis], 0) <
          1)
        return refuse(ErrorId::backend_limit,
                      format("pads of axis %u cut all of its elements, expected to leave one to repeat",
                             static_cast<unsigned>(axis)));
    return pad_by_places(l, node, g, mode);
  }
  Vector<std::uint32_t> amounts;
  for (const std::uint8_t axis : order) {
    if (g.begin[axis] < 0 || g.end[axis] < 0)
      return refuse(ErrorId::backend_limit, "negative pads, expected none: crop with a Slice");
    amounts.push_back(static_cast<std::uint32_t>(g.begin[axis]));
    amounts.push_back(static_cast<std::uint32_t>(g.end[axis]));
  }
  const std::int32_t value_id = node.inputs[2];
  const std::optional<float> value = value_id == qir::kAbsent ? std::optional<float>(0.0f) : scalar_of(l, value_id);
  if (!value) return refuse(ErrorId::backend_limit, "the value is known only at run time, expected a constant");
  pad_by_value(l, node, g, std::move(amounts), *value);
  return {};
}

Status tile(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> repeats, constant_ints(l, node, 1, "repeats"));
  Vector<std::uint32_t> multiples;
  for (const std::uint8_t axis : order) multiples.push_back(static_cast<std::uint32_t>(repeats[axis]));
  const std::int32_t x = l.stored(node.inputs[0], order);
  if (std::ranges::all_of(multiples, [](std::uint32_t times) { return times == 1; })) {
    l.same_as(node.outputs[0], x, order);
    return {};
  }
  l.param(l.node("Tile", {x}, {l.result(node.outputs[0], order)}), "multiples", multiples);
  return {};
}

Status expand(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.outputs[0]);
  const Order order = l.rank(node.inputs[0]) == rank ? l.order(node.inputs[0]) : natural_order(rank);
  std::int32_t x = l.broadcast(node.inputs[0], order);
  const Vector<std::uint32_t> from = l.drafted(x).dims, to = Lowering::dims_of(l.tensor(node.outputs[0]).shape, order);
  Vector<std::uint32_t> multiples;
  bool grows = false;
  for (std::size_t i = 0; i < to.size(); ++i) {
    multiples.push_back(to[i] / (i < from.size() ? from[i] : 1));
    grows |= multiples.back() != 1;
  }
  if (!grows) {
    l.same_as(node.outputs[0], x, order);
    return {};
  }
  l.param(l.node("Tile", {x}, {l.result(node.outputs[0], order)}), "multiples", multiples);
  return {};
}

// With indices of several axes the library takes others than are asked for: they are one list here.
Status gather(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]), axis = axis_of(node, "axis", 0, rank);
  QR_ASSIGN_OR_RETURN(const std::int32_t given, indices_of(l, node, 1, {&l.tensor(node.inputs[0]).shape[axis], 1}));
  std::uint32_t count = 1;
  for (const std::uint32_t extent : l.drafted(given).dims) count *= extent;
  const std::int32_t x = l.natural(node.inputs[0]), at = l.reshaped(given, {count});
  Vector<std::uint32_t> dims = l.drafted(x).dims;
  dims[axis] = count;
  const bool one_list = l.rank(node.inputs[1]) == 1;
  const std::int32_t y = one_list ? l.result(node.outputs[0]) : l.between(node.outputs[0], "~gathered", dims);
  l.param(l.node("Gather", {x, at}, {y}), "axis", static_cast<std::int32_t>(axis));
  if (!one_list) l.node("Reshape", {y}, {l.result(node.outputs[0])});
  return {};
}

}  // namespace quarry::htp::rules
