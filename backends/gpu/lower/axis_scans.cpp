// SPDX-License-Identifier: Apache-2.0
// What goes along axes: reductions, scans, softmax, normalisations.
#include <algorithm>
#include <bit>

#include "backends/gpu/kernels/bounds.h"
#include "backends/cpu-reference/folder.h"
#include "backends/gpu/lower/rules.h"
#include "graph/infer/infer.h"

namespace quarry::gpu {

using qir::Op;

namespace {

std::int32_t bits(float value) { return std::bit_cast<std::int32_t>(value); }

// Views without an axis, and the distance along it.
struct AxisRow {
  View x;
  std::int64_t length = 0, step = 0;
};
AxisRow row_of(const View &v, std::size_t axis) {
  return {strided::without(v, axis, 0), v.dims[axis], v.strides[axis]};
}

std::optional<Reduction> reduction_of(Op op) {
  switch (op) {
    case Op::ReduceSum: return Reduction::Sum;
    case Op::ReduceMean:
    case Op::GlobalAveragePool: return Reduction::Mean;
    case Op::ReduceProd: return Reduction::Prod;
    case Op::ReduceMax:
    case Op::GlobalMaxPool: return Reduction::Max;
    case Op::ReduceMin: return Reduction::Min;
    case Op::ReduceL1: return Reduction::L1;
    case Op::ReduceL2: return Reduction::L2;
    case Op::ReduceSumSquare: return Reduction::SumSquare;
    case Op::ReduceLogSum: return Reduction::LogSum;
    case Op::ReduceLogSumExp: return Reduction::LogSumExp;
    default: return std::nullopt;
  }
}

// Of elements that lie `step` apart.
ReduceParams reduce_row(Reduction how, std::int64_t length, std::int64_t step) {
  return {.HOW = field_of(how), .EXTENT = {length, 1, 1, 1}, .STEP = {step}, .LANES = lanes_for(length)};
}

}  // namespace

namespace {

// What cpu-reference makes of no elements: the same in every run.
Status reduce_nothing(Lowering &l, const qir::Node &node) {
  qir::Graph alone;
  qir::Node copy = node;
  const auto take = [&](std::int32_t id) {
    alone.tensors.push_back(l.tensor(id));
    return static_cast<std::int32_t>(alone.tensors.size() - 1);
  };
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == qir::kAbsent) continue;
    copy.inputs.set(i, take(node.inputs[i]));
    alone.tensors.back().is_constant = true;
  }
  const std::int32_t yi = node.outputs[0];
  copy.outputs.set(0, take(yi));
  reference::ReferenceFolder folder;
  Vector<qir::Constant> results;
  if (l.tensor(yi).quant || l.tensor(node.inputs[0]).quant || !folder.fold(alone, copy, l.store(), &results))
    return refuse(ErrorId::backend_limit, node, "found an input without elements");
  l.define(yi, l.constant(results[0].data, l.shape(yi)));
  return {};
}

}  // namespace

Status lower_reduce(Lowering &l, const qir::Node &node) {
  const auto how = reduction_of(node.op);
  if (!how) return refuse(ErrorId::backend_op, node, "found a reduction that kernels do not have");
  const View x = l.view(node.inputs[0]);
  bool reduced[qir::kMaxRank] = {};
  if (node.op == Op::GlobalAveragePool || node.op == Op::GlobalMaxPool) {
    for (std::size_t d = 2; d < x.rank(); ++d) reduced[d] = true;
  } else {
    QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> axes, l.integers(node, 1, "axes"));
    QR_RETURN_IF_ERROR(qir::resolve_reduce(node, axes, x.rank(), &reduced));
  }
  if (strided::count_of(x.dims) == 0) return reduce_nothing(l, node);
  // Axes that go, walked as few as they can be.
  View kept{x.value, x.offset, {}, {}}, gone{x.value, x.offset, {}, {}};
  for (std::size_t d = 0; d < x.rank(); ++d) {
    View &to = reduced[d] ? gone : kept;
    to.dims.push_back(x.dims[d]), to.strides.push_back(x.strides[d]);
  }
  const View *const one[] = {&gone};
  strided::Nest nest;
  strided::make_nest(one, qir::kMaxRank, nest);
  if (nest.dims.size() > 4)
    return refuse(ErrorId::backend_limit, node, format("found %zu axes, expected at most 4", nest.dims.size()));
  ReduceParams p{.HOW = field_of(*how),
                 .EXTENT = {1, 1, 1, 1},
                 .LANES = *how == Reduction::LogSumExp ? 1 : lanes_for(strided::count_of(nest.dims))};
  for (std::size_t i = 0; i < nest.dims.size(); ++i) p.EXTENT[i] = nest.dims[i], p.STEP[i] = nest.strides[0][i];
  FusedExpression elements;
  elements.result = node.outputs[0];
  const Dims dims = kept.dims;
  l.fuse(elements, [&](const View &v) { return strided::reshaped(v, dims).has_value(); });
  for (Arg &operand : elements.operands) operand.view = strided::broadcast(operand.view, l.shape(elements.result));
  const Arg base[] = {{kept, l.dtype(node.inputs[0])}};
  const View y = l.result(elements.result);
  return l.emit(p, dims, base, elements, {y, l.dtype(elements.result)});
}

// The range of x with zero in it, then scale, zero point and x in them: a step each.
Status lower_dynamic_quantize(Lowering &l, const qir::Node &node) {
  const std::int64_t count = strided::count_of(l.shape(node.inputs[0]));
  if (count == 0) return refuse(ErrorId::backend_limit, node, "found an input without elements");
  const View x = l.dense(node.inputs[0]);
  const auto output = [&](std::size_t i, DType dtype) {
    const std::int32_t id = i < node.outputs.size() ? node.outputs[i] : qir::kAbsent;
    return Arg{id == qir::kAbsent ? l.between({}, dtype) : l.result(id), dtype};
  };
  const auto end = [&](Reduction how, Element element, View *out) {
    *out = l.between({}, DType::F32);
    const Arg base[] = {{{x.value, x.offset, {}, {}}, DType::F32}};
    FusedExpression elements;
    elements.at = elements.code.add(element, Code::kValue, elements.code.constant(Number::Float, 0));
    return l.emit(reduce_row(how, count, 1), {}, base, elements, {*out, DType::F32});
  };
  View low, high;
  QR_RETURN_IF_ERROR(end(Reduction::Min, Element::AtMost, &low));
  QR_RETURN_IF_ERROR(end(Reduction::Max, Element::AtLeast, &high));
  const Arg y = output(0, DType::U8), scale = output(1, DType::F32), zero = output(2, DType::U8);
  const auto in_range = [](Code &code, std::uint32_t r) {
    r = code.add(Element::AtLeast, r, code.constant(Number::Float, 0));
    return code.to(Number::Uint, code.add(Element::AtMost, r, code.constant(Number::Float, 255)));
  };
  FusedExpression scaled;
  scaled.operands = {{high, DType::F32}, {low, DType::F32}};
  scaled.at =
      scaled.code.add(Element::Div, scaled.code.add(Element::Sub, 0, 1), scaled.code.constant(Number::Float, 255));
  QR_RETURN_IF_ERROR(l.emit_elements(scaled, scale));
  FusedExpression zeroed;
  zeroed.operands = {{low, DType::F32}, scale};
  const std::uint32_t negative = zeroed.code.add(Element::Div, zeroed.code.add(Element::Neg, 0), 1);
  zeroed.at = in_range(zeroed.code, zeroed.code.add(Element::Round, negative));
  QR_RETURN_IF_ERROR(l.emit_elements(zeroed, zero));
  FusedExpression stored;
  stored.operands = {{x, DType::F32}, scale, zero};
  const std::uint32_t steps = stored.code.add(Element::Round, stored.code.add(Element::Div, 0, 1));
  stored.at = in_range(stored.code, stored.code.add(Element::Add, steps, stored.code.to(Number::Float, 2)));
  return l.emit_elements(stored, y);
}

Status lower_arg_reduce(Lowering &l, const qir::Node &node) {
  const View x = l.view(node.inputs[0]);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 0), x.rank(), &axis));
  if (strided::count_of(x.dims) == 0) return refuse(ErrorId::backend_limit, node, "found an input without elements");
  const AxisRow row = row_of(x, axis);
  const ArgReduceParams p{.GREATEST = node.op == Op::ArgMax,
                          .LAST = node.get_int("select_last_index", 0) != 0,
                          .EXTENT = row.length,
                          .STEP = row.step};
  FusedExpression elements;
  const Arg base[] = {{row.x, l.dtype(node.inputs[0])}};
  const View y = l.result(node.outputs[0]);
  return l.emit(p, row.x.dims, base, elements, {y, l.dtype(node.outputs[0])});
}

Status lower_scan(Lowering &l, const qir::Node &node) {
  const View x = l.view(node.inputs[0]);
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> given, l.integers(node, 1, "an axis"));
  std::size_t axis = 0;
  if (given.size() != 1) return refuse(ErrorId::backend_limit, node, "found no axis");
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, given[0], x.rank(), &axis));
  const View y = l.result(node.outputs[0]);
  const AxisRow from = row_of(x, axis), to = row_of(y, axis);
  const ScanParams p{.PRODUCT = node.op == Op::CumProd,
                     .EXCLUSIVE = node.get_int("exclusive", 0) != 0,
                     .REVERSE = node.get_int("reverse", 0) != 0,
                     .LENGTH = from.length,
                     .X_STEP = from.step,
                     .Y_STEP = to.step};
  const Arg base[] = {{from.x, l.dtype(node.inputs[0])}};
  return l.emit(p, from.x.dims, base, {}, {to.x, l.dtype(node.outputs[0])});
}

// The norm of each row, then the division; a row of zeros stays zeros.
Status lower_lp_normalization(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0];
  const View x = l.view(xi);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", -1), x.rank(), &axis));
  const Number type = *number_of(l.dtype(xi));
  const DType between = type == Number::Double ? DType::F64 : DType::F32;
  Dims dims = x.dims;
  dims[axis] = 1;
  const View norm = l.between(dims, between);
  const AxisRow row = row_of(x, axis);
  const ReduceParams p = reduce_row(node.get_int("p", 2) == 1 ? Reduction::L1 : Reduction::L2, row.length, row.step);
  const Arg base[] = {{row.x, l.dtype(xi)}};
  QR_RETURN_IF_ERROR(l.emit(p, row.x.dims, base, {}, {norm, between}));
  FusedExpression elements;
  elements.operands = {{x, l.dtype(xi)}, {norm, between}};
  const std::uint32_t zero = elements.code.constant(type, 0);
  const std::uint32_t none = elements.code.add(Element::Equal, 1, zero);
  elements.at = elements.code.select(type, none, zero, elements.code.add(Element::Div, 0, 1));
  return l.emit_elements(elements, {l.result(node.outputs[0]), l.dtype(node.outputs[0])});
}

// Indices by the position of each element in order, then the values by the indices.
Status lower_top_k(Lowering &l, const qir::Node &node) {
  const View x = l.view(node.inputs[0]);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", -1), x.rank(), &axis));
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> k, l.integers(node, 1, "k"));
  const std::int32_t vi = node.outputs[0], ii = node.outputs.size() > 1 ? node.outputs[1] : qir::kAbsent;
  if (k.size() != 1 || k[0] < 1 || k[0] > x.dims[axis])
    return refuse(ErrorId::backend_limit, node, "found k that is more than there are");
  Dims dims = x.dims;
  dims[axis] = k[0];
  const View indices = ii == qir::kAbsent ? l.between(dims, DType::I64) : l.result(ii);
  const AxisRow from = row_of(x, axis), to = row_of(indices, axis);
  const RankParams rank{.TOP = k[0], .GREATEST = node.get_int("largest", 1) != 0, .STEP = from.step, .Y_STEP = to.step};
  const auto whole = [](View v, std::int64_t extent, std::int64_t step) {
    v.dims.push_back(extent), v.strides.push_back(step);
    return v;
  };
  const View rows = whole(from.x, from.length, from.step);
  const Arg base[] = {{rows, l.dtype(node.inputs[0])}};
  QR_RETURN_IF_ERROR(l.emit(rank, rows.dims, base, {}, {whole(to.x, from.length, 0), DType::I64}));
  if (vi == qir::kAbsent) return {};
  View rest{x.value, x.offset, dims, x.strides};
  rest.strides[axis] = 0;
  const GatherParams gather{.EXTENT = x.dims[axis], .STEP = x.strides[axis]};
  const Arg taken[] = {{rest, l.dtype(node.inputs[0])}, {indices, DType::I64}};
  return l.emit(gather, dims, taken, {}, {l.result(vi), l.dtype(vi)});
}

Status lower_softmax(Lowering &l, const qir::Node &node) {
  const View x = l.view(node.inputs[0]);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", -1), x.rank(), &axis));
  const View y = l.result(node.outputs[0]);
  const AxisRow from = row_of(x, axis), to = row_of(y, axis);
  const SoftmaxParams p{.LOGARITHM = node.op == Op::LogSoftmax,
                        .LENGTH = from.length,
                        .X_STEP = from.step,
                        .Y_STEP = to.step,
                        .LANES = lanes_for(from.length)};
  const Arg base[] = {{from.x, l.dtype(node.inputs[0])}};
  return l.emit(p, from.x.dims, base, {}, {to.x, l.dtype(node.outputs[0])});
}

namespace {

// A scale or bias that every row of a normalisation shares: along the axes before `axis` it stands still.
bool is_one_row(const View &v, const Dims &dims, std::size_t axis) {
  const View whole = strided::broadcast(v, dims);
  return std::all_of(whole.strides.begin(), whole.strides.begin() + static_cast<std::ptrdiff_t>(axis),
                     [](std::int64_t stride) { return stride == 0; });
}

// The mean and one by the deviation as results of LayerNormalization, which training wants: in steps of their own.
Status emit_moments(Lowering &l, const qir::Node &node, const View &x, std::size_t axis, float epsilon) {
  const std::int32_t mi = node.outputs.size() > 1 ? node.outputs[1] : qir::kAbsent,
                     ii = node.outputs.size() > 2 ? node.outputs[2] : qir::kAbsent;
  if (mi == qir::kAbsent && ii == qir::kAbsent) return {};
  std::int64_t rows = 1, length = 1;
  for (std::size_t d = 0; d < x.rank(); ++d) (d < axis ? rows : length) *= x.dims[d];
  const Dims outer{rows};
  const ReduceParams p = reduce_row(Reduction::Mean, length, 1);
  const auto mean_of = [&](const View &v, DType dtype, const View &to, const FusedExpression &elements, DType result) {
    const Arg base[] = {{{v.value, v.offset, outer, {length}}, dtype}};
    return l.emit(p, outer, base, elements, {to, result});
  };
  const View mean = l.between({rows, 1}, DType::F32);
  QR_RETURN_IF_ERROR(mean_of(x, l.dtype(node.inputs[0]), mean, {}, DType::F32));
  if (mi != qir::kAbsent)
    QR_RETURN_IF_ERROR(l.copy({mean, DType::F32}, {*strided::reshaped(l.result(mi), {rows, 1}), l.dtype(mi)}));
  if (ii == qir::kAbsent) return {};
  const View squares = l.between({rows, length}, DType::F32);
  FusedExpression square;
  square.operands = {{*strided::reshaped(x, {rows, length}), l.dtype(node.inputs[0])}, {mean, DType::F32}};
  const std::uint32_t away = square.code.add(Element::Sub, 0, 1);
  square.at = square.code.add(Element::Mul, away, away);
  QR_RETURN_IF_ERROR(l.emit_elements(square, {squares, DType::F32}));
  FusedExpression root;
  const std::uint32_t wide =
      root.code.add(Element::Add, Code::kValue, root.code.constant(Number::Float, static_cast<double>(epsilon)));
  root.at = root.code.add(Element::Reciprocal, root.code.add(Element::Sqrt, wide));
  return mean_of(squares, DType::F32, l.result(ii), root, l.dtype(ii));
}

// Scale or bias as a row of its own that every row, the axes from `axis` on, shares.
Status as_shared_row(Lowering &l, const Dims &dims, std::size_t axis, DType dtype, View &v) {
  const View whole = strided::broadcast(v, dims);
  const auto from = static_cast<std::ptrdiff_t>(axis);
  const View inner{whole.value, whole.offset, Dims(dims.begin() + from, dims.end()),
                   Dims(whole.strides.begin() + from, whole.strides.end())};
  const Dims row{strided::count_of(inner.dims)};
  auto flat = strided::reshaped(inner, row);
  if (!flat) {
    const View made = l.between(inner.dims, dtype);
    QR_RETURN_IF_ERROR(l.copy({inner, dtype}, {made, dtype}));
    flat = strided::reshaped(made, row);
  }
  v = *flat;
  return {};
}

// Rows of one length, or groups of channels that divide it; each row has one scale and bias.
Status check_normalize(const Lowering &l, const qir::Node &node, std::size_t *axis) {
  const qir::Shape &shape = l.shape(node.inputs[0]);
  const std::size_t rank = shape.size();
  if (node.op == Op::InstanceNormalization || node.op == Op::GroupNormalization) {
    const std::int64_t channels = rank > 1 ? shape[1] : 1,
                       groups = node.op == Op::GroupNormalization ? node.get_int("num_groups", 1) : channels;
    if (rank < 2 || groups < 1 || channels % groups != 0)
      return refuse(ErrorId::backend_limit, node, "found channels that do not divide into groups");
    return {};
  }
  QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", -1), rank, axis));
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
    if (const std::int32_t id = node.inputs[i]; id != qir::kAbsent && !is_one_row(l.layout(id), shape, *axis))
      return refuse(ErrorId::backend_limit, node, "found scales that differ from row to row, expected one for all");
  return {};
}

}  // namespace

Status lower_normalize(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0];
  const qir::Shape &shape = l.shape(xi);
  const std::size_t rank = shape.size();
  const bool by_channel = node.op == Op::InstanceNormalization || node.op == Op::GroupNormalization;
  const std::int64_t channels = rank > 1 ? shape[1] : 1,
                     groups = node.op == Op::GroupNormalization ? node.get_int("num_groups", 1) : channels;
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(check_normalize(l, node, &axis));
  const View x = l.dense(xi);
  const float epsilon = node.get_float("epsilon", 1e-5f);
  if (!by_channel) QR_RETURN_IF_ERROR(emit_moments(l, node, x, axis, epsilon));
  std::int64_t length = 1, rows = 1, piece = 1, scale_step = 1, bias_step = 1;
  Dims dims;
  Dims scale_strides, bias_strides;
  View scale = l.view(node.inputs[1]);
  const std::int32_t bi = node.inputs[2];
  View bias;
  if (bi != qir::kAbsent) bias = l.view(bi);
  if (by_channel) {
    for (std::size_t d = 2; d < rank; ++d) piece *= x.dims[d];
    length = piece * (channels / groups);
    dims = {x.dims[0], groups};
    scale_step = scale.strides[0], bias_step = bias.strides[0];
    scale_strides = {0, scale_step * (channels / groups)}, bias_strides = {0, bias_step * (channels / groups)};
  } else {
    for (std::size_t d = 0; d < rank; ++d) (d < axis ? rows : length) *= x.dims[d];
    dims = {rows};
    QR_RETURN_IF_ERROR(as_shared_row(l, x.dims, axis, l.dtype(node.inputs[1]), scale));
    scale_step = scale.strides[0], scale_strides = {0};
    if (bi != qir::kAbsent) {
      QR_RETURN_IF_ERROR(as_shared_row(l, x.dims, axis, l.dtype(bi), bias));
      bias_step = bias.strides[0], bias_strides = {0};
    }
  }
  DType bias_type = bi == qir::kAbsent ? DType::F32 : l.dtype(bi);
  if (bi == qir::kAbsent) {
    static constexpr float kZero = 0;
    bias = l.constant({&kZero, sizeof kZero}, {1});
    bias_step = 0, bias_strides.assign(dims.size(), 0);
  }
  const NormalizeParams p{
      .HOW = field_of(node.op == Op::RMSNormalization ? Normalization::AroundZero : Normalization::AroundMean),
      .EPSILON = bits(epsilon),
      .LENGTH = length,
      .PIECE = piece,
      .SCALE_STEP = scale_step,
      .BIAS_STEP = bias_step,
      .LANES = lanes_for(length)};
  const View y = l.result(node.outputs[0]);
  Dims starts = strided::row_major(dims);
  for (std::int64_t &stride : starts) stride *= length;
  const Arg base[] = {{{x.value, x.offset, dims, starts}, l.dtype(xi)},
                      {{scale.value, scale.offset, dims, scale_strides}, l.dtype(node.inputs[1])},
                      {{bias.value, bias.offset, dims, bias_strides}, bias_type}};
  return l.emit(p, dims, base, {}, {{y.value, y.offset, dims, starts}, l.dtype(node.outputs[0])});
}

}  // namespace quarry::gpu
