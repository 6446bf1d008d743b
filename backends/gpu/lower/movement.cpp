// SPDX-License-Identifier: Apache-2.0
// Operators that move elements: most are another view of what is there, the rest reads by indices.
#include <algorithm>
#include <cstring>

#include "backends/gpu/lower/quantized.h"
#include "backends/gpu/lower/rules.h"
#include "graph/infer/infer.h"
#include "graph/ops/quantization.h"

namespace quarry::gpu {

using qir::Op;

namespace {

// The number of a diagonal: beyond the matrix they are all alike.
std::int64_t clamped(std::int64_t k, const Dims &shape) {
  return std::clamp(k, -shape[shape.size() - 2], shape[shape.size() - 1]);
}

Status view_as(Lowering &l, const qir::Node &node, View v) {
  l.define(node.outputs[0], std::move(v));
  return {};
}

}  // namespace

Status lower_view(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const View x = l.view(xi);
  switch (node.op) {
    case Op::Dropout:
      if (node.outputs.size() > 1 && node.outputs[1] != qir::kAbsent)
        return refuse(ErrorId::backend_limit, node, "found the mask wanted as a result");
      if (const std::int32_t mode = node.inputs[2];
          mode != qir::kAbsent &&
          (!l.tensor(mode).is_constant || *static_cast<const std::uint8_t *>(l.tensor(mode).data.data) != 0))
        return refuse(ErrorId::backend_limit, node, "found training_mode, expected none");
      return view_as(l, node, x);
    case Op::Identity: return view_as(l, node, x);
    case Op::Transpose: {
      Vector<std::int64_t> perm;
      if (const auto *given = node.get_ints("perm")) perm = *given;
      else
        for (std::size_t d = x.rank(); d-- > 0;) perm.push_back(static_cast<std::int64_t>(d));
      return view_as(l, node, strided::transposed(x, perm));
    }
    case Op::Expand: return view_as(l, node, strided::broadcast(x, l.shape(yi)));
    case Op::Slice: {
      Vector<std::int64_t> lists[4];
      for (std::size_t i = 0; i < 4; ++i) {
        QR_ASSIGN_OR_RETURN(lists[i], l.integers(node, i + 1, "bounds"));
      }
      qir::SliceGeometry slice;
      QR_RETURN_IF_ERROR(qir::resolve_slice(node, x.dims, lists[0], lists[1], lists[2], lists[3], &slice));
      View v = x;
      for (std::size_t d = 0; d < slice.rank; ++d)
        v = strided::sliced(v, d, slice.start[d], slice.extent[d], slice.step[d]);
      return view_as(l, node, v);
    }
    case Op::Split: {
      std::size_t axis = 0;
      QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), x.rank(), &axis));
      if (std::ranges::find(node.outputs, qir::kAbsent) != node.outputs.end())
        return refuse(ErrorId::backend_limit, node, "found a part that nobody wants");
      std::int64_t start = 0;
      for (const std::int32_t out : node.outputs) {
        l.define(out, strided::sliced(x, axis, start, l.shape(out)[axis]));
        start += l.shape(out)[axis];
      }
      return {};
    }
    default: {  // another shape of the same elements
      if (auto same = strided::reshaped(x, l.shape(yi))) return view_as(l, node, std::move(*same));
      return view_as(l, node, *strided::reshaped(l.dense(xi), l.shape(yi)));
    }
  }
}

Status lower_tile(Lowering &l, const qir::Node &node) {
  const View x = l.view(node.inputs[0]);
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> repeats, l.integers(node, 1, "repeats"));
  if (repeats.size() != x.rank())
    return refuse(ErrorId::backend_limit, node, "found another number of repeats than of axes");
  // Every repeated axis becomes two, of which the first stands still.
  View from{x.value, x.offset, {}, {}};
  Dims dims;
  for (std::size_t d = 0; d < x.rank(); ++d) {
    if (repeats[d] != 1) from.dims.push_back(repeats[d]), from.strides.push_back(0);
    from.dims.push_back(x.dims[d]), from.strides.push_back(x.strides[d]);
  }
  if (from.rank() > kMaxRank) return refuse(ErrorId::backend_limit, node, "found more than 8 axes and repeats");
  const View y = l.result(node.outputs[0]);
  const DType dtype = l.dtype(node.outputs[0]);
  return l.copy({from, dtype}, {{y.value, 0, from.dims, strided::row_major(from.dims)}, dtype});
}

Status lower_concat(Lowering &l, const qir::Node &node) {
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), l.shape(node.outputs[0]).size(), &axis));
  const View y = l.result(node.outputs[0]);
  std::int64_t start = 0;
  for (const std::int32_t id : node.inputs) {
    const View part = strided::sliced(y, axis, start, l.shape(id)[axis]);
    start += l.shape(id)[axis];
    const qir::Tensor &from = l.tensor(id), &to = l.tensor(node.outputs[0]);
    FusedExpression elements;
    elements.operands.push_back(l.arg(id));
    elements.tensors.push_back(id);
    elements.at = 0;
    // A quantised part may mean another number by the same integer.
    if (to.quant && !qir::same_quantization(from, to))
      elements.at = stored_of(elements.code, to, real_of(l, elements, from, 0));
    QR_RETURN_IF_ERROR(l.emit_elements(elements, {part, to.dtype}));
  }
  return {};
}

Status lower_blocks(Lowering &l, const qir::Node &node) {
  const qir::Shape &shape = l.shape(node.inputs[0]);
  const std::int64_t b = node.get_int("blocksize", 1), n = shape[0], c = shape[1], h = shape[2], w = shape[3];
  const bool crd = node.get_string("mode", "DCR") == "CRD", to_space = node.op == Op::DepthToSpace;
  Dims split;
  Vector<std::int64_t> perm;
  if (to_space) {
    const std::int64_t out = c / (b * b);
    split = crd ? Dims{n, out, b, b, h, w} : Dims{n, b, b, out, h, w};
    perm = crd ? Vector<std::int64_t>{0, 1, 4, 2, 5, 3} : Vector<std::int64_t>{0, 3, 4, 1, 5, 2};
  } else {
    split = {n, c, h / b, b, w / b, b};
    perm = crd ? Vector<std::int64_t>{0, 1, 3, 5, 2, 4} : Vector<std::int64_t>{0, 3, 5, 1, 2, 4};
  }
  auto from = strided::reshaped(l.view(node.inputs[0]), split);
  if (!from) from = strided::reshaped(l.dense(node.inputs[0]), split);
  const View moved = strided::transposed(*from, perm), y = l.result(node.outputs[0]);
  const DType dtype = l.dtype(node.outputs[0]);
  return l.copy({moved, dtype}, {{y.value, 0, moved.dims, strided::row_major(moved.dims)}, dtype});
}

Status lower_gather(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], ii = node.inputs[1];
  const View x = l.view(xi), indices = l.view(ii);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), x.rank(), &axis));
  if (strided::count_of(x.dims) == 0) return refuse(ErrorId::backend_limit, node, "found nothing to take from");
  Dims dims;
  View from{x.value, x.offset, {}, {}}, index{indices.value, indices.offset, {}, {}};
  if (node.op == Op::Gather) {
    // [before, indices, behind]
    const auto add = [&](std::int64_t extent, std::int64_t x_stride, std::int64_t i_stride) {
      dims.push_back(extent), from.strides.push_back(x_stride), index.strides.push_back(i_stride);
    };
    for (std::size_t d = 0; d < axis; ++d) add(x.dims[d], x.strides[d], 0);
    for (std::size_t d = 0; d < indices.rank(); ++d) add(indices.dims[d], 0, indices.strides[d]);
    for (std::size_t d = axis + 1; d < x.rank(); ++d) add(x.dims[d], x.strides[d], 0);
  } else {
    for (std::size_t d = 0; d < x.rank(); ++d) {
      dims.push_back(indices.dims[d]);
      from.strides.push_back(d == axis ? 0 : x.strides[d]), index.strides.push_back(indices.strides[d]);
    }
  }
  if (dims.size() > kMaxRank) return refuse(ErrorId::backend_limit, node, "found more than 8 axes");
  from.dims = index.dims = dims;
  FusedExpression elements;
  elements.result = node.outputs[0];
  l.fuse(elements, [](const View &) { return true; });
  for (Arg &operand : elements.operands) operand.view = strided::broadcast(operand.view, l.shape(elements.result));
  const Arg base[] = {{from, l.dtype(xi)}, {index, l.dtype(ii)}};
  const View y = l.result(elements.result);
  const GatherParams p{.EXTENT = x.dims[axis], .STEP = x.strides[axis], .CHECKED = checked(l)};
  return l.emit(p, dims, base, elements, {y, l.dtype(elements.result)});
}

Status lower_gather_nd(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], ii = node.inputs[1];
  const View x = l.view(xi), indices = l.view(ii);
  const auto batch = node.get_count("batch_dims");
  if (indices.rank() == 0 || strided::count_of(x.dims) == 0)
    return refuse(ErrorId::backend_limit, node, "found nothing to take from");
  const auto axes = static_cast<std::size_t>(indices.dims.back());
  if (axes == 0 || batch + axes > x.rank() || batch >= indices.rank())
    return refuse(ErrorId::backend_limit, node, "found no indices");
  GatherNDParams p{.COUNT_OF = indices.dims.back(), .I_STEP = indices.strides.back()};
  for (std::size_t d = 0; d < kMaxRank; ++d) {
    p.EXTENT[d] = d < axes ? x.dims[batch + d] : 1;
    p.STEP[d] = d < axes ? x.strides[batch + d] : 0;
  }
  p.CHECKED = checked(l);
  // [batch, indices, what an index names]
  Dims dims;
  View from{x.value, x.offset, {}, {}}, index{indices.value, indices.offset, {}, {}};
  const auto add = [&](std::int64_t extent, std::int64_t x_stride, std::int64_t i_stride) {
    dims.push_back(extent), from.strides.push_back(x_stride), index.strides.push_back(i_stride);
  };
  for (std::size_t d = 0; d + 1 < indices.rank(); ++d)
    add(indices.dims[d], d < batch ? x.strides[d] : 0, indices.strides[d]);
  for (std::size_t d = batch + axes; d < x.rank(); ++d) add(x.dims[d], x.strides[d], 0);
  if (dims.size() > kMaxRank) return refuse(ErrorId::backend_limit, node, "found more than 8 axes");
  from.dims = index.dims = dims;
  const Arg base[] = {{from, l.dtype(xi)}, {index, l.dtype(ii)}};
  const View y = l.result(node.outputs[0]);
  return l.emit(p, dims, base, {}, {y, l.dtype(node.outputs[0])});
}

Status lower_pad(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], vi = node.inputs[2];
  View x = l.view(xi);
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> pads, l.integers(node, 1, "pads"));
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> axes, l.integers(node, 3, "axes"));
  qir::PadGeometry pad;
  QR_RETURN_IF_ERROR(qir::resolve_pad(node, x.dims, pads, node.inputs[3] != qir::kAbsent, axes, &pad));
  const std::string_view mode = node.get_string("mode", "constant");
  // What negative pads cut is not there to be repeated or mirrored.
  for (std::size_t d = 0; d < x.rank() && mode != "constant"; ++d) {
    const std::int64_t cut = std::max<std::int64_t>(-pad.begin[d], 0);
    x.dims[d] = std::max<std::int64_t>(x.dims[d] - cut - std::max<std::int64_t>(-pad.end[d], 0), 0);
    x.offset += cut * x.strides[d];
    pad.begin[d] += cut;
  }
  if (strided::count_of(x.dims) == 0) return refuse(ErrorId::backend_limit, node, "found an input without elements");
  const Dims &dims = l.shape(node.outputs[0]);
  PadParams p{.MODE = field_of(mode == "reflect" ? Padding::Reflect
                               : mode == "edge"  ? Padding::Edge
                               : mode == "wrap"  ? Padding::Wrap
                                                 : Padding::Constant)};
  for (std::size_t d = 0; d < kMaxRank; ++d) {
    const bool is_there = d < x.rank();
    p.BEGIN[d] = is_there ? pad.begin[d] : 1, p.IN[d] = is_there ? x.dims[d] : 1;
    p.X[d] = is_there ? x.strides[d] : 1;
  }
  Arg with;
  if (const auto &quant = l.tensor(xi).quant) {  // what a stored zero is
    const std::int32_t zero = quant->zero_points[0];
    with = {strided::broadcast(l.constant(l.store().copy(&zero, sizeof zero), {1}), dims), DType::I32};
  } else if (vi != qir::kAbsent) {
    with = {strided::broadcast(l.view(vi), dims), l.dtype(vi)};
  } else {
    static constexpr std::uint64_t kZero = 0;
    with = {strided::broadcast(l.constant({&kZero, sizeof kZero}, {1}), dims), l.dtype(xi)};
  }
  const Arg base[] = {{{x.value, x.offset, dims, Dims(dims.size(), 0)}, l.dtype(xi)}, with};
  FusedExpression elements;
  elements.result = node.outputs[0];
  const View y = l.result(node.outputs[0]);
  return l.emit(p, dims, base, elements, {y, l.dtype(node.outputs[0])});
}

// What compares coordinates: Trilu, EyeLike, OneHot.
Status lower_coordinates(Lowering &l, const qir::Node &node) {
  FusedExpression elements;
  Code &code = elements.code;
  const std::int32_t yi = node.outputs[0];
  const std::size_t rank = l.shape(yi).size();
  const auto coordinate = [&](std::size_t d) {
    const std::uint32_t r = code.add(Element::Index, Number::Long, static_cast<double>(d), 0);
    return r;
  };
  const auto operand = [&](std::int32_t id, View v) {
    elements.operands.push_back({std::move(v), l.dtype(id)});
    return static_cast<std::uint32_t>(elements.operands.size() - 1);
  };
  if (node.op == Op::Trilu) {
    QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> k, l.integers(node, 1, "k"));
    const Number type = *number_of(l.dtype(yi));
    const std::uint32_t x = operand(node.inputs[0], l.view(node.inputs[0]));
    const std::uint32_t row = coordinate(rank - 2), column = coordinate(rank - 1);
    const std::uint32_t edge =
        code.add(Element::Add, row,
                 code.constant(Number::Long, static_cast<double>(clamped(k.empty() ? 0 : k[0], l.shape(yi)))));
    const bool upper = node.get_int("upper", 1) != 0;
    const std::uint32_t keep = code.add(upper ? Element::GreaterOrEqual : Element::LessOrEqual, column, edge);
    elements.at = code.select(type, keep, x, code.constant(type, 0));
  } else if (node.op == Op::EyeLike) {
    const Number type = *number_of(l.dtype(yi));
    const std::uint32_t diagonal =
        code.add(Element::Add, coordinate(0),
                 code.constant(Number::Long, static_cast<double>(clamped(node.get_int("k", 0), l.shape(yi)))));
    elements.at = code.select(type, code.add(Element::Equal, diagonal, coordinate(1)), code.constant(type, 1),
                              code.constant(type, 0));
  } else {
    QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> depths, l.integers(node, 1, "a depth"));
    std::size_t axis = 0;
    QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", -1), rank, &axis));
    View indices = l.view(node.inputs[0]);
    indices.dims.insert(indices.dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    indices.strides.insert(indices.strides.begin() + static_cast<std::ptrdiff_t>(axis), 0);
    const std::int64_t depth = l.shape(yi)[axis];
    std::uint32_t index = code.to(Number::Long, operand(node.inputs[0], indices));
    const std::uint32_t zero = code.constant(Number::Long, 0),
                        whole = code.constant(Number::Long, static_cast<double>(depth));
    index =
        code.select(Number::Long, code.add(Element::Less, index, zero), code.add(Element::Add, index, whole), index);
    View values = l.view(node.inputs[2]);
    const Number type = *number_of(l.dtype(node.inputs[2]));
    const auto value = [&](std::int64_t i) { return operand(node.inputs[2], strided::without(values, 0, i)); };
    const std::uint32_t off = value(0), on = value(1);
    elements.at = code.select(type, code.add(Element::Equal, index, coordinate(axis)), on, off);
  }
  const View y = l.result(yi);
  return l.emit_elements(elements, {y, l.dtype(yi)});
}

}  // namespace quarry::gpu
