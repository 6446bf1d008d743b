// SPDX-License-Identifier: Apache-2.0
// Operators that move elements and need a step for it (views.cpp has the others).
#include <algorithm>
#include <bit>

#include "backends/cpu/lower/rules.h"
#include "graph/ops/quantization.h"

namespace quarry::cpu {

using kernels::Kernel;
using qir::Op;

bool castable(DType dtype) noexcept {
  switch (dtype) {
    case DType::F32:
    case DType::F16:
    case DType::BF16:
    case DType::F64:
    case DType::I8:
    case DType::U8:
    case DType::I16:
    case DType::U16:
    case DType::I32:
    case DType::U32:
    case DType::I64:
    case DType::U64:
    case DType::Bool: return true;
    default: return false;
  }
}

// Blocks of pixels to channels and back.
Result<Lowered> lower_depth_space(Lowering &l, const qir::Node &node) {
  if (!moves_elements(l, node) || l.width(node.inputs[0]) == 0) return Lowered::NotMine;
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const qir::Shape &shape = l.tensor(xi).shape;
  if (shape.size() != 4) return Lowered::NotMine;
  const std::int64_t b = node.get_int("blocksize", 1), n = shape[0], c = shape[1], h = shape[2], w = shape[3];
  const bool to_space = node.op == Op::DepthToSpace, crd = node.get_string("mode", "DCR") == "CRD";
  // As x lies: a graph's input stays as it is given.
  const bool given = is_row_major(l.any(xi)) && !l.is_joined(yi);
  const View x = given ? l.any(xi) : l.channels_last(xi);
  View y;
  if (given) l.define(yi, y = l.new_row_major(l.tensor(yi).shape, l.width(xi)));
  else y = l.image_output(yi);
  std::optional<View> from, to;
  Vector<std::int64_t> perm;
  if (to_space) {  // [n, (b1 b2 c' | c' b1 b2), h, w] -> [n, c', h b1, w b2]
    const std::int64_t out = c / (b * b);
    from = crd ? reshaped(x, {n, out, b, b, h, w}) : reshaped(x, {n, b, b, out, h, w});
    to = reshaped(y, {n, out, h, b, w, b});
    perm = crd ? Vector<std::int64_t>{0, 1, 4, 2, 5, 3} : Vector<std::int64_t>{0, 3, 4, 1, 5, 2};
  } else {  // [n, c, h/b b1, w/b b2] -> [n, (b1 b2 c | c b1 b2), h/b, w/b]
    from = reshaped(x, {n, c, h / b, b, w / b, b});
    to = crd ? reshaped(y, {n, c, b, b, h / b, w / b}) : reshaped(y, {n, b, b, c, h / b, w / b});
    perm = crd ? Vector<std::int64_t>{0, 1, 3, 5, 2, 4} : Vector<std::int64_t>{0, 3, 5, 1, 2, 4};
  }
  if (!from || !to)
    return Status::error(ErrorId::internal, format("plan: %s: an image could not be split", qir::op_name(node.op)));
  l.copy(transposed(*from, perm), *to, l.width(xi), xi);
  return Lowered::Done;
}

namespace {

// What a Pad keeps of its input, and what it writes around it.
struct Padding {
  qir::PadGeometry pad;
  qir::Shape kept;     // what negative pads leave
  bool added = false;  // there is something to write
  kernels::Fill fill;  // what is written

  std::int64_t before(std::size_t d) const { return std::max<std::int64_t>(0, pad.begin[d]); }
  std::int64_t cut(std::size_t d) const { return std::max<std::int64_t>(0, -pad.begin[d]); }
  View rest_of(View form) const {  // without what negative pads cut off
    for (std::size_t d = 0; d < pad.rank; ++d) form = sliced(form, d, cut(d), kept[d]);
    return form;
  }
};

Result<bool> match_padding(const Lowering &l, const qir::Node &node, Padding *out) {
  const qir::Tensor &x = l.tensor(node.inputs[0]);
  if (node.get_string("mode", "constant") != "constant" || (x.quant && !qir::moves_real_values(l.graph(), node)))
    return false;
  const bool some = l.input(node, 3) != qir::kAbsent;
  const auto pads = l.integers(l.input(node, 1)), axes = l.integers(l.input(node, 3));
  if (!pads || (some && !axes)) return false;
  QR_RETURN_IF_ERROR(qir::resolve_pad(node, x.shape, *pads, some, some ? *axes : Vector<std::int64_t>(), &out->pad));
  out->kept = x.shape;
  for (std::size_t d = 0; d < out->pad.rank; ++d) {
    out->kept[d] -= out->cut(d) + std::max<std::int64_t>(0, -out->pad.end[d]);
    if (out->kept[d] < 1) return false;
    out->added |= out->pad.begin[d] > 0 || out->pad.end[d] > 0;
  }
  if (!out->added) return true;
  kernels::Fill &fill = out->fill;
  fill.width = static_cast<std::uint32_t>(l.width(node.inputs[0]));
  if (fill.width > 8) return false;
  const std::int32_t with = l.input(node, 2);
  if (x.quant) {
    fill.value = static_cast<std::uint64_t>(x.quant->zero_points[0]);
  } else if (with != qir::kAbsent) {
    if (!l.constant(with) || l.tensor(with).data.size != fill.width) return false;
    std::memcpy(&fill.value, l.tensor(with).data.data, fill.width);
  }
  return true;
}

// Writes the value around the middle of y, side by side.
void fill_around(Lowering &l, const Padding &padding, const View &y, std::int32_t yi) {
  const kernels::Fill &fill = padding.fill;
  Vector<std::uint8_t> bytes(fill.width);
  std::memcpy(bytes.data(), &fill.value, fill.width);
  View rest = y, value;
  value.value = static_cast<std::int32_t>(l.own_constant(std::move(bytes)));
  for (std::size_t d = 0; d < padding.pad.rank; ++d) {
    const std::int64_t begin = padding.before(d), end = begin + padding.kept[d];
    for (const auto &[first, last] : {std::pair{std::int64_t{0}, begin}, std::pair{end, y.dims[d]}}) {
      if (first == last) continue;
      const View side = sliced(rest, d, first, last - first);
      value.dims = side.dims, value.strides.assign(side.rank(), 0);
      l.copy(value, side, fill.width, yi);
    }
    rest = sliced(rest, d, begin, padding.kept[d]);
  }
}

}  // namespace

// What negative pads cut off is a view; so is the result where nothing is added.
Result<Lowered> lower_pad(Lowering &l, const qir::Node &node) {
  if (!moves_elements(l, node) || l.width(node.inputs[0]) == 0) return Lowered::NotMine;
  Padding padding;
  QR_ASSIGN_OR_RETURN(const bool fits, match_padding(l, node, &padding));
  if (!fits) return Lowered::NotMine;
  if (!padding.added) return view_as(l, node, [&](const View &form) { return padding.rest_of(form); });
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  kernels::Fill &fill = padding.fill;
  const View x = l.any(xi), y = l.new_dense(l.tensor(yi).shape, memory_order(x), fill.width);
  fill.count = count_of(y.dims);
  View middle = y;
  for (std::size_t d = 0; d < padding.pad.rank; ++d) middle = sliced(middle, d, padding.before(d), padding.kept[d]);
  // Where much is kept only what stands around it is filled; else nothing is gained.
  constexpr std::int64_t kMuch = 64 << 10;
  const std::int64_t kept = count_of(padding.kept);
  if (kept >= kMuch && kept >= fill.count / 2) fill_around(l, padding, y, yi);
  else QR_RETURN_IF_ERROR(l.emit_step(Kernel::Fill, fill, {arg(y, fill.width)}));
  l.copy(padding.rest_of(x), middle, fill.width, xi);
  l.define(yi, y);
  return Lowered::Done;
}

// Axes that are repeated become two, the first of which steps nowhere.
Result<Lowered> lower_tile(Lowering &l, const qir::Node &node) {
  if (!moves_elements(l, node) || l.width(node.inputs[0]) == 0) return Lowered::NotMine;
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const qir::Shape &shape = l.tensor(xi).shape, &made = l.tensor(yi).shape;
  const auto repeats = l.integers(l.input(node, 1));
  if (!repeats || repeats->size() != shape.size()) return Lowered::NotMine;
  const Dims x_strides = cpu::row_major(shape), y_strides = cpu::row_major(made);
  View from, to;
  const auto axis = [&](std::int64_t extent, std::int64_t step, std::int64_t to_step) {
    if (extent == 1) return;
    if (!to.dims.empty() && to.strides.back() == to_step * extent && from.strides.back() == step * extent) {
      to.dims.back() *= extent, from.dims.back() *= extent;
      to.strides.back() = to_step, from.strides.back() = step;
      return;
    }
    to.dims.push_back(extent), to.strides.push_back(to_step);
    from.dims.push_back(extent), from.strides.push_back(step);
  };
  for (std::size_t d = 0; d < shape.size(); ++d) {
    axis((*repeats)[d], 0, y_strides[d] * shape[d]);
    axis(shape[d], x_strides[d], y_strides[d]);
  }
  if (to.rank() > kernels::kCopyRank) return Lowered::NotMine;
  const std::uint64_t each = l.width(xi);
  const View x = l.row_major(xi), y = l.new_row_major(made, each);
  from.value = x.value, from.offset = x.offset, to.value = y.value;
  l.copy(from, to, each, xi);
  l.define(yi, y);
  return Lowered::Done;
}

Result<Lowered> lower_cast(Lowering &l, const qir::Node &node) {
  const qir::Tensor &x = l.tensor(node.inputs[0]), &y = l.tensor(node.outputs[0]);
  if (x.quant || y.quant || !castable(x.dtype) || !castable(y.dtype)) return Lowered::NotMine;
  // Bits stay the same between integers of one width, and 0 and 1 are what truth values are.
  if (is_integer(y.dtype) && (is_integer(x.dtype) || x.dtype == DType::Bool) &&
      dtype_bits(x.dtype) == dtype_bits(y.dtype))
    return view_as(l, node, [](const View &form) { return form; });
  const View from = l.dense(node.inputs[0]);
  View to = l.new_like(from, l.width(node.outputs[0]));
  kernels::Cast p;
  p.from = static_cast<std::uint32_t>(x.dtype), p.to = static_cast<std::uint32_t>(y.dtype);
  p.count = count_of(from.dims);
  l.define(node.outputs[0], to);
  return l.finish_step(Kernel::Cast, p, {arg(from, l.width(node.inputs[0])), arg(to, l.width(node.outputs[0]))});
}

// Zeros, and ones along a diagonal.
Result<Lowered> lower_eye_like(Lowering &l, const qir::Node &node) {
  const std::int32_t yi = node.outputs[0];
  const qir::Shape &shape = l.tensor(yi).shape;
  const std::uint64_t each = l.width(yi);
  std::uint64_t one = 1;
  switch (l.tensor(yi).dtype) {
    case DType::F32: one = std::bit_cast<std::uint32_t>(1.0f); break;
    case DType::F64: one = std::bit_cast<std::uint64_t>(1.0); break;
    case DType::I8:
    case DType::U8:
    case DType::I16:
    case DType::U16:
    case DType::I32:
    case DType::U32:
    case DType::I64:
    case DType::U64:
    case DType::Bool: break;
    default: return Lowered::NotMine;
  }
  if (l.tensor(yi).quant || shape.size() != 2) return Lowered::NotMine;
  const std::int64_t rows = shape[0], columns = shape[1], k = node.get_int("k", 0);
  const View y = l.new_row_major(shape, each);
  kernels::Fill fill;
  fill.width = static_cast<std::uint32_t>(each), fill.count = count_of(shape);
  QR_RETURN_IF_ERROR(l.emit_step(Kernel::Fill, fill, {arg(y, each)}));
  // (Little-endian: the first bytes of the word.)
  const auto *const bytes = reinterpret_cast<const std::uint8_t *>(&one);
  if (k < columns && k > -rows) {
    const std::int64_t count = k < 0 ? std::min(rows + k, columns) : std::min(rows, columns - k);
    const View ones{
        static_cast<std::int32_t>(l.own_constant(Vector<std::uint8_t>(bytes, bytes + each))), 0, {count}, {0}};
    l.copy(ones, View{y.value, k < 0 ? -k * columns : k, {count}, {columns + 1}}, each, yi);
  }
  l.define(yi, y);
  return Lowered::Done;
}

Result<Lowered> lower_concat(Lowering &l, const qir::Node &node) {
  const std::int32_t yi = node.outputs[0];
  const std::uint64_t each = l.width(yi);
  if (each == 0) return Lowered::NotMine;
  for (const std::int32_t id : node.inputs) {
    const qir::Tensor &part = l.tensor(id);
    if (part.dtype != l.tensor(yi).dtype && !part.quant) return Lowered::NotMine;
    if (part.quant.has_value() != l.tensor(yi).quant.has_value()) return Lowered::NotMine;
    if (!same_type(part, l.tensor(yi)) && !requantizable(l, id, yi)) return Lowered::NotMine;
  }
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), l.tensor(yi).shape.size(), &axis));
  View y;
  const View *const block = l.block_of(yi);
  const auto begins = [&](const View &first) {
    return first.value == block->value && first.offset == block->offset && first.strides == block->strides;
  };
  if (block && l.forms(yi).empty() && begins(l.any(node.inputs[0]))) {
    l.define(yi, y = *block);  // the first part is there already
  } else if (!l.forms(yi).empty()) {
    y = l.any(yi);  // some parts are there already
  } else {
    // As the largest part lies.
    const View *lead = nullptr;
    for (const std::int32_t id : node.inputs)
      if (!l.constant(id) && (!lead || count_of(l.tensor(id).shape) > count_of(lead->dims))) lead = &l.any(id);
    y = lead ? l.new_dense(l.tensor(yi).shape, memory_order(*lead), each) : l.new_row_major(l.tensor(yi).shape, each);
    l.define(yi, y);
  }
  std::int64_t start = 0;
  for (const std::int32_t id : node.inputs) {
    const std::int64_t extent = l.tensor(id).shape[axis];
    const View part = sliced(y, axis, start, extent);
    start += extent;
    const View from = l.any(id);
    if (from.value == part.value && from.offset == part.offset) continue;
    if (same_type(l.tensor(id), l.tensor(yi))) {
      l.copy(from, part, each, id);
    } else {
      View own;
      QR_RETURN_IF_ERROR(requantized(l, id, yi, &own));
      l.copy(own, part, each, id);
    }
  }
  return Lowered::Done;
}

}  // namespace quarry::cpu
