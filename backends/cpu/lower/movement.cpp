// SPDX-License-Identifier: Apache-2.0
// Operators that move elements: most of them are another view of what is there.
#include <algorithm>
#include <bit>

#include "backends/cpu/lower/lowering.h"
#include "graph/infer/infer.h"
#include "graph/ops/quantization.h"

namespace quarry::cpu {

using kernels::Kernel;
using qir::Op;

namespace {

// Elements mean the same on both sides.
bool same_type(const qir::Tensor &a, const qir::Tensor &b) {
  return a.dtype == b.dtype && a.quant == b.quant && (!a.quant || a.quant->per_tensor());
}

bool castable(DType dtype) {
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
    case DType::I64:
    case DType::Bool: return true;
    default: return false;
  }
}

}  // namespace

Status Lowering::lower_movement(const qir::Node &node, bool *done) {
  if (node.inputs.empty() || node.inputs[0] == qir::kAbsent || node.outputs.empty()) return {};
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.op != Op::Split && node.outputs[i] != qir::kAbsent) return {};
  const qir::Shape &shape = tensor(xi).shape;
  if (node.op == Op::Cast) return lower_cast(node, done);
  if (node.op == Op::Concat) return lower_concat(node, done);
  if (node.op == Op::Gather) return lower_gather(node, done);
  if (node.op == Op::EyeLike) return lower_eye_like(node, done);
  if (!same_type(tensor(xi), tensor(yi))) return {};
  // A form of the input becomes one of the output.
  const auto view = [&](auto &&make) {
    any(xi);
    const Vector<View> forms = forms_[static_cast<std::size_t>(xi)];
    for (const View &form : forms) define(yi, make(form));
    *done = true;
    return Status();
  };
  switch (node.op) {
    case Op::Identity: return view([](const View &form) { return form; });
    case Op::Dropout:
      if (input(node, 2) != qir::kAbsent) return {};
      return view([](const View &form) { return form; });
    case Op::Reshape:
    case Op::Flatten:
    case Op::Squeeze:
    case Op::Unsqueeze: {
      any(xi);
      const Vector<View> forms = forms_[static_cast<std::size_t>(xi)];
      for (const View &form : forms) {
        if (auto same = reshaped(form, tensor(yi).shape)) {
          define(yi, std::move(*same));
          *done = true;
        }
      }
      if (*done || width(xi) == 0) return {};
      define(yi, *reshaped(row_major(xi), tensor(yi).shape));
      *done = true;
      return {};
    }
    default: break;
  }
  if (width(xi) == 0) return {};  // elements under 8 bits: cpu-reference unpacks them
  switch (node.op) {
    case Op::Tile: return lower_tile(node, done);
    case Op::Transpose: {
      Vector<std::int64_t> perm;
      if (const auto *given = node.get_ints("perm")) perm = *given;
      else
        for (std::size_t d = shape.size(); d-- > 0;) perm.push_back(static_cast<std::int64_t>(d));
      if (perm.size() != shape.size()) return {};
      return view([&](const View &form) { return transposed(form, perm); });
    }
    case Op::Expand: return view([&](const View &form) { return broadcast(form, tensor(yi).shape); });
    case Op::Slice: {
      Vector<std::int64_t> lists[4];
      for (std::size_t i = 1; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == qir::kAbsent) continue;
        const auto values = integers(node.inputs[i]);
        if (!values) return {};
        lists[i - 1] = *values;
      }
      qir::SliceGeometry slice;
      QR_RETURN_IF_ERROR(qir::resolve_slice(node, shape, lists[0], lists[1], lists[2], lists[3], &slice));
      if (std::any_of(slice.step, slice.step + slice.rank, [](std::int64_t step) { return step < 0; })) return {};
      return view([&](View form) {
        for (std::size_t d = 0; d < slice.rank; ++d)
          form = sliced(form, d, slice.start[d], slice.extent[d], slice.step[d]);
        return form;
      });
    }
    case Op::Split: {
      std::size_t axis;
      QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), shape.size(), &axis));
      any(xi);
      const Vector<View> forms = forms_[static_cast<std::size_t>(xi)];
      std::int64_t start = 0;
      for (const std::int32_t out : node.outputs) {
        if (out == qir::kAbsent || !same_type(tensor(xi), tensor(out))) return {};
        for (const View &form : forms) define(out, sliced(form, axis, start, tensor(out).shape[axis]));
        start += tensor(out).shape[axis];
      }
      *done = true;
      return {};
    }
    case Op::DepthToSpace:
    case Op::SpaceToDepth: {
      if (shape.size() != 4) return {};
      const std::int64_t b = node.get_int("blocksize", 1), n = shape[0], c = shape[1], h = shape[2], w = shape[3];
      const bool to_space = node.op == Op::DepthToSpace, crd = node.get_string("mode", "DCR") == "CRD";
      // As x lies: a graph's input stays as it is given.
      const bool given = is_row_major(any(xi)) && slots_[static_cast<std::size_t>(yi)].concat == qir::kAbsent;
      const View x = given ? any(xi) : channels_last(xi);
      View y;
      if (given) define(yi, y = new_row_major(tensor(yi).shape, width(xi)));
      else y = image_output(yi);
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
      copy(transposed(*from, perm), *to, width(xi), xi);
      *done = true;
      return {};
    }
    case Op::Pad: {
      if (node.get_string("mode", "constant") != "constant" ||
          (tensor(xi).quant && !qir::moves_real_values(graph_, node)))
        return {};
      const auto pads = integers(input(node, 1));
      Vector<std::int64_t> axes;
      if (input(node, 3) != qir::kAbsent) {
        const auto values = integers(input(node, 3));
        if (!values) return {};
        axes = *values;
      }
      if (!pads) return {};
      qir::PadGeometry pad;
      QR_RETURN_IF_ERROR(qir::resolve_pad(node, shape, *pads, input(node, 3) != qir::kAbsent, axes, &pad));
      // What negative pads cut off is a view; so is the result where nothing is added.
      qir::Shape kept = shape;
      bool added = false;
      for (std::size_t d = 0; d < pad.rank; ++d) {
        const std::int64_t first = std::max<std::int64_t>(0, -pad.begin[d]);
        kept[d] = shape[d] - first - std::max<std::int64_t>(0, -pad.end[d]);
        if (kept[d] < 1) return {};
        added |= pad.begin[d] > 0 || pad.end[d] > 0;
      }
      const auto cut = [&](View form) {
        for (std::size_t d = 0; d < pad.rank; ++d)
          form = sliced(form, d, std::max<std::int64_t>(0, -pad.begin[d]), kept[d]);
        return form;
      };
      if (!added) return view(cut);
      kernels::Fill fill;
      fill.width = static_cast<std::uint32_t>(width(xi));
      if (fill.width > 8) return {};
      if (tensor(xi).quant) {
        fill.value = static_cast<std::uint64_t>(tensor(xi).quant->zero_points[0]);
      } else if (const std::int32_t with = input(node, 2); with != qir::kAbsent) {
        if (!constant(with) || tensor(with).data.size != fill.width) return {};
        std::memcpy(&fill.value, tensor(with).data.data, fill.width);
      }
      const View x = any(xi);
      View y = new_dense(tensor(yi).shape, memory_order(x), fill.width);
      fill.count = count_of(y.dims);
      View middle = y;
      for (std::size_t d = 0; d < pad.rank; ++d)
        middle = sliced(middle, d, std::max<std::int64_t>(0, pad.begin[d]), kept[d]);
      // Where much is kept only what stands around it is filled, side by side; else nothing is gained.
      constexpr std::int64_t kMuch = 64 << 10;
      const bool around = count_of(kept) >= kMuch && count_of(kept) >= fill.count / 2;
      if (!around) QR_RETURN_IF_ERROR(emit_step(Kernel::Fill, fill, {arg(y, fill.width)}));
      View rest = y, value;
      if (around) {
        Vector<std::uint8_t> bytes(fill.width);
        std::memcpy(bytes.data(), &fill.value, fill.width);
        value.value = static_cast<std::int32_t>(own_constant(std::move(bytes)));
      }
      for (std::size_t d = 0; around && d < pad.rank; ++d) {
        const std::int64_t begin = std::max<std::int64_t>(0, pad.begin[d]), end = begin + kept[d];
        for (const auto &[first, last] : {std::pair{std::int64_t{0}, begin}, std::pair{end, y.dims[d]}}) {
          if (first == last) continue;
          const View side = sliced(rest, d, first, last - first);
          value.dims = side.dims, value.strides.assign(side.rank(), 0);
          copy(value, side, fill.width, yi);
        }
        rest = sliced(rest, d, begin, kept[d]);
      }
      copy(cut(x), middle, fill.width, xi);
      define(yi, y);
      *done = true;
      return {};
    }
    default: return {};
  }
}

// Axes that are repeated become two, the first of which steps nowhere.
Status Lowering::lower_tile(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const auto repeats = integers(input(node, 1));
  const std::uint64_t each = width(xi);
  const View x = row_major(xi);
  if (!repeats || repeats->size() != x.rank()) return {};
  const View y = new_row_major(tensor(yi).shape, each);
  View from = x, to = y;
  from.dims.clear(), from.strides.clear(), to.dims.clear(), to.strides.clear();
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
  for (std::size_t d = 0; d < x.rank(); ++d) {
    axis((*repeats)[d], 0, y.strides[d] * x.dims[d]);
    axis(x.dims[d], x.strides[d], y.strides[d]);
  }
  if (to.rank() > kernels::kCopyRank) return {};
  copy(from, to, each, xi);
  define(yi, y);
  *done = true;
  return {};
}

Status Lowering::lower_cast(const qir::Node &node, bool *done) {
  const qir::Tensor &x = tensor(node.inputs[0]), &y = tensor(node.outputs[0]);
  if (x.quant || y.quant || !castable(x.dtype) || !castable(y.dtype)) return {};
  // Bytes stay the same between these, and 0 and 1 are what truth values are.
  const auto byte = [](DType dtype) { return dtype == DType::I8 || dtype == DType::U8; };
  if (byte(y.dtype) && (byte(x.dtype) || x.dtype == DType::Bool)) {
    any(node.inputs[0]);
    const Vector<View> forms = forms_[static_cast<std::size_t>(node.inputs[0])];
    for (const View &form : forms) define(node.outputs[0], form);
    *done = true;
    return {};
  }
  const View from = dense(node.inputs[0]);
  View to = new_like(from, width(node.outputs[0]));
  kernels::Cast p;
  p.from = static_cast<std::uint32_t>(x.dtype), p.to = static_cast<std::uint32_t>(y.dtype);
  p.count = count_of(from.dims);
  define(node.outputs[0], to);
  *done = true;
  return emit_step(Kernel::Cast, p, {arg(from, width(node.inputs[0])), arg(to, width(node.outputs[0]))});
}

// Zeros, and ones along a diagonal.
Status Lowering::lower_eye_like(const qir::Node &node, bool *done) {
  const std::int32_t yi = node.outputs[0];
  const qir::Shape &shape = tensor(yi).shape;
  const std::uint64_t each = width(yi);
  std::uint64_t one = 1;
  switch (tensor(yi).dtype) {
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
    default: return {};
  }
  if (tensor(yi).quant || shape.size() != 2) return {};
  const std::int64_t rows = shape[0], columns = shape[1], k = node.get_int("k", 0);
  const View y = new_row_major(shape, each);
  kernels::Fill fill;
  fill.width = static_cast<std::uint32_t>(each), fill.count = count_of(shape);
  QR_RETURN_IF_ERROR(emit_step(Kernel::Fill, fill, {arg(y, each)}));
  // (Little-endian: the first bytes of the word.)
  const auto *const bytes = reinterpret_cast<const std::uint8_t *>(&one);
  if (k < columns && k > -rows) {
    const std::int64_t count = k < 0 ? std::min(rows + k, columns) : std::min(rows, columns - k);
    const View ones{
        static_cast<std::int32_t>(own_constant(Vector<std::uint8_t>(bytes, bytes + each))), 0, {count}, {0}};
    copy(ones, View{y.value, k < 0 ? -k * columns : k, {count}, {columns + 1}}, each, yi);
  }
  define(yi, y);
  *done = true;
  return {};
}

// Of one operand without sums: a label that stands twice is a diagonal, whose steps are the sum of both axes'.
Status Lowering::lower_einsum(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  if (node.inputs.size() != 1 || width(xi) == 0 || tensor(xi).quant || tensor(yi).quant ||
      tensor(yi).dtype != tensor(xi).dtype)
    return {};
  const qir::Dims dims[] = {{tensor(xi).shape.data(), tensor(xi).shape.size()}};
  qir::EinsumPlan plan;
  QR_RETURN_IF_ERROR(qir::parse_einsum(node, dims, &plan));
  const qir::EinsumPlan::Operand &from = plan.inputs[0], &to = plan.output;
  const View x = any(xi);
  View y{x.value, x.offset, tensor(yi).shape, Dims(to.rank)};
  if (y.dims.size() != to.rank || x.rank() != from.rank) return {};
  std::uint32_t used = 0;
  for (std::uint32_t i = 0; i < to.rank; ++i)
    for (std::uint32_t d = 0; d < from.rank; ++d) {
      if (from.label[d] != to.label[i]) continue;
      if (from.broadcast[d] || x.dims[d] != y.dims[i]) return {};
      y.strides[i] += x.strides[d];
      ++used;
    }
  if (used != from.rank) return {};
  define(yi, std::move(y));
  *done = true;
  return {};
}

Status Lowering::lower_concat(const qir::Node &node, bool *done) {
  const std::int32_t yi = node.outputs[0];
  const std::uint64_t each = width(yi);
  if (each == 0) return {};
  for (const std::int32_t id : node.inputs) {
    const qir::Tensor &part = tensor(id);
    if (part.dtype != tensor(yi).dtype && !part.quant) return {};
    if (part.quant.has_value() != tensor(yi).quant.has_value()) return {};
    if (!same_type(part, tensor(yi)) && !requantizable(id, yi)) return {};
  }
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), tensor(yi).shape.size(), &axis));
  View y;
  if (!forms_[static_cast<std::size_t>(yi)].empty()) {
    y = any(yi);  // some parts are there already
  } else {
    // As the largest part lies.
    const View *lead = nullptr;
    for (const std::int32_t id : node.inputs)
      if (!constant(id) && (!lead || count_of(tensor(id).shape) > count_of(lead->dims))) lead = &any(id);
    y = lead ? new_dense(tensor(yi).shape, memory_order(*lead), each) : new_row_major(tensor(yi).shape, each);
    define(yi, y);
  }
  std::int64_t start = 0;
  for (const std::int32_t id : node.inputs) {
    const std::int64_t extent = tensor(id).shape[axis];
    const View part = sliced(y, axis, start, extent);
    start += extent;
    const View from = any(id);
    if (from.value == part.value && from.offset == part.offset) continue;
    if (same_type(tensor(id), tensor(yi))) {
      copy(from, part, each, id);
    } else {
      View own;
      QR_RETURN_IF_ERROR(requantized(id, yi, &own));
      copy(own, part, each, id);
    }
  }
  *done = true;
  return {};
}

Status Lowering::lower_gather(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], ii = node.inputs[1], yi = node.outputs[0];
  const qir::Shape &shape = tensor(xi).shape;
  if (!same_type(tensor(xi), tensor(yi)) || width(xi) == 0) return {};
  std::size_t axis;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), shape.size(), &axis));
  if (const auto index = integers(ii); index && index->size() == 1) {
    std::int64_t at = (*index)[0];
    if (at < 0) at += shape[axis];
    if (at < 0 || at >= shape[axis]) return {};
    any(xi);
    const Vector<View> forms = forms_[static_cast<std::size_t>(xi)];
    for (const View &form : forms) {
      View picked = without(form, axis, at);
      if (auto same = reshaped(picked, tensor(yi).shape)) {
        define(yi, std::move(*same));
        *done = true;
      }
    }
    if (*done) return {};
  }
  if (tensor(ii).dtype != DType::I64 && tensor(ii).dtype != DType::I32) return {};
  const View table = row_major(xi), index = row_major(ii);
  kernels::Gather p;
  p.index_bytes = static_cast<std::uint32_t>(width(ii));
  p.rows = shape[axis];
  p.count = count_of(tensor(ii).shape);
  p.row_bytes = static_cast<std::int64_t>(width(xi));
  for (std::size_t d = 0; d < axis; ++d) p.outer *= shape[d];
  for (std::size_t d = axis + 1; d < shape.size(); ++d) p.row_bytes *= shape[d];
  const View y = new_row_major(tensor(yi).shape, width(xi));
  define(yi, y);
  *done = true;
  return emit_step(Kernel::Gather, p, {arg(table, width(xi)), arg(index, width(ii)), arg(y, width(xi))});
}

}  // namespace quarry::cpu
