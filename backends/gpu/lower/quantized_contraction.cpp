// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/gpu/kernels/bounds.h"
#include "backends/gpu/lower/quantized.h"
#include "backends/gpu/lower/rules.h"
#include "graph/infer/infer.h"
#include "graph/ops/quantization.h"

namespace quarry::gpu {

using qir::Op;

namespace {

// Integers of whole bytes, at most 16 bits, one scale or one for each index of an axis.
bool is_taken(const qir::Tensor &t) {
  return t.quant && number_of(t.dtype) && dtype_bits(t.dtype) <= 16 && t.quant->block_size == 0;
}
bool is_plain(const qir::Tensor &t) { return is_taken(t) && t.quant->per_tensor(); }

const qir::Tensor *tensor_of(const qir::Graph &graph, const Vector<std::int32_t> &list, std::size_t i) {
  return i < list.size() && list[i] != qir::kAbsent ? &qir::at(graph, list[i]) : nullptr;
}

bool every(const qir::Graph &graph, const Vector<std::int32_t> &list, bool (*test)(const qir::Tensor &)) {
  return std::ranges::all_of(list, [&](std::int32_t id) { return id == qir::kAbsent || test(qir::at(graph, id)); });
}

// Stored integers go where they are wanted, and mean there what they meant.
bool moves_stored(const qir::Graph &graph, const qir::Node &node) {
  switch (node.op) {
    case Op::ReduceMax:
    case Op::ReduceMin:
    case Op::GlobalMaxPool: break;
    case Op::Resize:
      if (node.get_string("mode", "nearest") != "nearest") return false;
      break;
    default:
      if (!qir::moves_real_values(graph, node)) return false;
  }
  if (is_rewritten(node.op)) return false;
  const qir::Tensor *const first = tensor_of(graph, node.inputs, 0);
  if (!first || !is_plain(*first)) return false;
  for (const std::int32_t id : node.outputs) {
    if (id == qir::kAbsent) continue;
    const qir::Tensor &t = qir::at(graph, id);
    // Parts of a Concat are converted on their way.
    if (!is_plain(t) || (node.op != Op::Concat && (t.dtype != first->dtype || *t.quant != *first->quant))) return false;
  }
  for (std::size_t i = 0; i < qir::moved_inputs(node); ++i)
    if (const qir::Tensor *const t = tensor_of(graph, node.inputs, i); !t || !is_plain(*t)) return false;
  return true;
}

bool is_contraction(const qir::Graph &graph, const qir::Node &node) {
  if (node.op != Op::Conv && node.op != Op::ConvTranspose && node.op != Op::MatMul && node.op != Op::Gemm) return false;
  const qir::Tensor *const x = tensor_of(graph, node.inputs, 0), *const w = tensor_of(graph, node.inputs, 1),
                           *const bias = tensor_of(graph, node.inputs, 2), *const y = tensor_of(graph, node.outputs, 0);
  if (!x || !w || !y || !is_plain(*x) || !is_taken(*w)) return false;
  if (y->quant ? !is_plain(*y) : y->dtype != DType::F32) return false;
  if (bias && !qir::bias_counts_products(node, *x, *w, *bias) && (bias->quant || bias->dtype != DType::F32))
    return false;
  if (!w->quant->per_tensor()) {
    const auto axis = qir::channel_axis(node, w->shape.size());
    if (!axis || w->quant->axis != static_cast<std::int32_t>(*axis)) return false;
  }
  if (node.op == Op::Conv) return w->is_constant && x->shape.size() <= 5;
  // One scale for a channel of each group: channels of the result that share them are not distinguished.
  if (node.op == Op::ConvTranspose)
    return w->is_constant && x->shape.size() <= 5 && (w->quant->per_tensor() || node.get_int("group", 1) == 1);
  if (node.op == Op::Gemm && (node.get_float("alpha", 1) != 1 || node.get_float("beta", 1) != 1)) return false;
  return std::ranges::all_of(w->quant->zero_points, [&](std::int32_t z) { return z == w->quant->zero_points[0]; });
}

View constant_floats(Lowering &l, const Vector<float> &values) {
  return l.constant(l.store().copy(values.data(), values.size() * sizeof(float)),
                    {static_cast<std::int64_t>(values.size())});
}

// A vector seen along an axis of a tensor of `rank`.
View along_axis(const View &vector, std::size_t rank, std::size_t axis) {
  View out{vector.value, vector.offset, Dims(rank, 1), Dims(rank, 0)};
  out.dims[axis] = vector.dims[0], out.strides[axis] = vector.strides[0];
  return out;
}

std::uint32_t add_operand(FusedExpression &elements, View view, DType dtype) {
  elements.operands.push_back({std::move(view), dtype});
  elements.tensors.push_back(qir::kAbsent);
  return static_cast<std::uint32_t>(elements.operands.size() - 1);
}

}  // namespace

bool scales_stored(const qir::Graph &graph, const qir::Node &node) {
  switch (node.op) {
    case Op::AveragePool:
    case Op::GlobalAveragePool:
    case Op::GridSample:
    case Op::GroupNormalization:
    case Op::InstanceNormalization:
    case Op::LRN:
    case Op::LayerNormalization:
    case Op::LogSoftmax:
    case Op::LpPool:
    case Op::RMSNormalization:
    case Op::ReduceL1:
    case Op::ReduceL2:
    case Op::ReduceLogSum:
    case Op::ReduceLogSumExp:
    case Op::ReduceMean:
    case Op::ReduceProd:
    case Op::ReduceSum:
    case Op::ReduceSumSquare:
    case Op::Resize:
    case Op::Softmax: break;
    default: return false;
  }
  if (moves_stored(graph, node) || node.outputs.size() != 1) return false;
  const qir::Tensor *const x = tensor_of(graph, node.inputs, 0), *const y = tensor_of(graph, node.outputs, 0);
  const auto is_real = [](const qir::Tensor &t) { return !t.quant && t.dtype == DType::F32; };
  if (!x || !y || (!x->quant && !y->quant) || !(is_plain(*x) || is_real(*x)) || !(is_plain(*y) || is_real(*y)))
    return false;
  // Scales and biases, grids; of Resize and Reduce numbers that are no tensor of the model's.
  return every(graph, node.inputs, [](const qir::Tensor &t) { return !t.quant || is_plain(t); });
}

bool computes_quantized(const qir::Graph &graph, const qir::Node &node) {
  if (is_contraction(graph, node) || moves_stored(graph, node) || scales_stored(graph, node)) return true;
  if (!is_elementwise(node.op) || node.op == Op::Cast || node.outputs.size() != 1) return false;
  // Its parameters are seen along the channels, not as they lie.
  if (node.op == Op::BatchNormalization &&
      !every(graph, node.inputs, [](const qir::Tensor &t) { return !t.quant || is_plain(t); }))
    return false;
  return every(graph, node.inputs,
               [](const qir::Tensor &t) {
                 return t.quant ? is_taken(t) : t.dtype == DType::F32 || t.dtype == DType::Bool;
               }) &&
         every(graph, node.outputs, [](const qir::Tensor &t) { return !t.quant || is_plain(t); });
}

std::uint32_t real_of(Lowering &l, FusedExpression &elements, const qir::Tensor &tensor, std::uint32_t r) {
  const qir::Quantization &quant = *tensor.quant;
  Code &code = elements.code;
  const bool has_zero = std::ranges::any_of(quant.zero_points, [](std::int32_t zero) { return zero != 0; });
  r = code.to(Number::Float, r);
  if (quant.per_tensor()) {
    if (has_zero) r = code.add(Element::Sub, r, code.constant(Number::Float, quant.zero_points[0]));
    return code.add(Element::Mul, r, code.constant(Number::Float, static_cast<double>(quant.scales[0])));
  }
  const auto vector = [&](const Vector<float> &values) {
    return add_operand(elements, along_axis(constant_floats(l, values), tensor.shape.size(), index_of(quant.axis)),
                       DType::F32);
  };
  if (has_zero)
    r = code.add(Element::Sub, r, vector(Vector<float>(quant.zero_points.begin(), quant.zero_points.end())));
  return code.add(Element::Mul, r, vector(quant.scales));
}

std::uint32_t stored_of(Code &code, const qir::Tensor &tensor, std::uint32_t r) {
  return stored_steps(
      code, tensor,
      code.add(Element::Div, r, code.constant(Number::Float, static_cast<double>(tensor.quant->scales[0]))));
}

std::uint32_t stored_steps(Code &code, const qir::Tensor &tensor, std::uint32_t r) {
  const qir::IntegerRange range = qir::integer_range(tensor.dtype);
  const std::int32_t zero = tensor.quant->zero_points[0];
  r = code.add(Element::Round, r);
  r = code.add(Element::AtLeast, r, code.constant(Number::Float, static_cast<double>(range.low - zero)));
  r = code.add(Element::AtMost, r, code.constant(Number::Float, static_cast<double>(range.high - zero)));
  r = code.to(Number::Int, r);  // NaN: the zero point
  if (zero != 0) r = code.add(Element::Add, r, code.constant(Number::Int, zero));
  const Number number = *number_of(tensor.dtype);
  return number == Number::Int ? r : code.to(number, r);
}

// ---- products -----------------------------------------------------------------------------------

bool is_integer_contraction(const Lowering &l, const qir::Node &node) { return is_contraction(l.graph(), node); }

namespace {

// Sums of `count` products that no 32 bits hold.
bool sums_are_wide(const qir::Tensor &x, const qir::Tensor &w, std::int64_t count) {
  const auto farthest = [](const qir::Tensor &t) {
    const qir::IntegerRange range = qir::integer_range(t.dtype);
    std::int64_t most = 0;
    for (const std::int32_t zero : t.quant->zero_points) most = std::max({most, range.high - zero, zero - range.low});
    return most;
  };
  return farthest(x) * farthest(w) > INT32_MAX / std::max<std::int64_t>(count, 1);
}

// The code behind a sum: bias, the real number that it means, and how that is stored. `axis`: channels of the result.
void finish_contraction(Lowering &l, const qir::Node &node, std::size_t axis, FusedExpression &elements) {
  const qir::Tensor &x = l.tensor(node.inputs[0]), &w = l.tensor(node.inputs[1]), &y = l.tensor(node.outputs[0]);
  const std::int32_t bi = node.inputs[2];
  Code &code = elements.code;
  std::uint32_t r = Code::kValue;
  // A bias has its channels last, but for convolutions.
  const auto bias = [&] {
    const View v = l.view(bi);
    return add_operand(elements,
                       node.op == Op::Conv || node.op == Op::ConvTranspose ? along_axis(v, y.shape.size(), axis)
                                                                           : strided::broadcast(v, y.shape),
                       l.dtype(bi));
  };
  const bool counted = bi != qir::kAbsent && qir::bias_counts_products(node, x, w, l.tensor(bi));
  if (counted) r = code.add(Element::Add, code.to(Number::Long, r), code.to(Number::Long, bias()));
  r = code.to(Number::Float, r);
  // Where the sum is stored at once its unit is that of the result: one factor, as ONNX Runtime has it.
  const bool at_once = y.quant && (bi == qir::kAbsent || counted);
  Vector<float> units;
  for (const float scale : w.quant->scales)
    units.push_back(at_once ? x.quant->scales[0] * scale / y.quant->scales[0] : x.quant->scales[0] * scale);
  r = code.add(Element::Mul, r,
               units.size() == 1
                   ? code.constant(Number::Float, static_cast<double>(units[0]))
                   : add_operand(elements, along_axis(constant_floats(l, units), y.shape.size(), axis), DType::F32));
  if (bi != qir::kAbsent && !counted) r = code.add(Element::Add, r, bias());
  elements.at = at_once ? stored_steps(code, y, r) : y.quant ? stored_of(code, y, r) : r;
  elements.result = node.outputs[0];
  for (Arg &operand : elements.operands) operand.view = strided::broadcast(operand.view, y.shape);
}

// Weights [M, C/group, taps] without their zero points, as [group][block of channels][C/group * taps][kTile].
template <class T>
View packed_integers(Lowering &l, const qir::Tensor &w, std::int64_t groups, std::int64_t channels, std::int64_t row) {
  const std::int64_t blocks = (channels + kTile - 1) / kTile, count = groups * blocks * row * kTile;
  const auto bytes = static_cast<std::uint64_t>(count) * sizeof(T);
  auto *const to = static_cast<T *>(l.store().allocate(bytes));
  std::fill_n(to, count, T{0});
  const Vector<std::int32_t> &zeros = w.quant->zero_points;
  for (std::int64_t m = 0; m < groups * channels; ++m) {
    const std::int32_t zero = zeros[zeros.size() == 1 ? 0 : index_of(m)];
    T *const block = to + (m / channels * blocks + m % channels / kTile) * row * kTile + m % channels % kTile;
    for (std::int64_t i = 0; i < row; ++i)
      block[i * kTile] =
          static_cast<T>(qir::stored_integer(w.dtype, w.data.data, static_cast<std::uint64_t>(m * row + i)) - zero);
  }
  return l.constant({to, bytes}, {count});
}

// By fours (conv_dot.cl, matmul_dot.cl): [group][panel of 16 channels][inner][fours of `outer`][16][4], and behind each
// panel what the zero point of the other operand `x` adds. `at(channel, outer, inner)`: a weight without its zero
// point.
template <class At>
View packed_fours(Lowering &l, std::int64_t groups, std::int64_t channels, std::int64_t outer, std::int64_t inner,
                  const qir::Tensor &x, const At &at) {
  const std::int32_t zero = x.quant->zero_points[0] - (x.dtype == DType::U8 ? 128 : 0);  // of what kernels multiply
  const std::int64_t panels = (channels + kPanel - 1) / kPanel, fours = (outer + 3) / 4,
                     panel = (fours * inner + 1) * kPanel * 4, count = groups * panels * panel;
  auto *const to = static_cast<std::int8_t *>(l.store().allocate(static_cast<std::uint64_t>(count)));
  std::fill_n(to, count, std::int8_t{0});
  for (std::int64_t m = 0; m < groups * channels; ++m) {
    std::int8_t *const column =
        to + (m / channels * panels + m % channels / kPanel) * panel + m % channels % kPanel * 4;
    std::uint32_t sum = 0;
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t i = 0; i < inner; ++i) {
        const std::int32_t weight = at(m, o, i);
        column[(i * fours + o / 4) * kPanel * 4 + o % 4] = static_cast<std::int8_t>(weight);
        sum += static_cast<std::uint32_t>(weight);
      }
    sum *= static_cast<std::uint32_t>(zero);
    std::memcpy(column + fours * inner * kPanel * 4, &sum, sizeof sum);
  }
  return l.constant({to, static_cast<std::uint64_t>(count)}, {count});
}

// Whether weights fit in 8 bits without their zero points, and the other operand is of 8 bits.
bool is_of_bytes(const qir::Tensor &x, const qir::Tensor &w) {
  const qir::IntegerRange range = qir::integer_range(w.dtype);
  const auto [least, most] = std::ranges::minmax(w.quant->zero_points);
  return dtype_bits(x.dtype) == 8 && range.low - most >= INT8_MIN && range.high - least <= INT8_MAX;
}

constexpr TileParams kTileOfDots{.ROWS = 2, .COLS = 8, .GROUP_X = 16, .GROUP_Y = 1};  // tune.cpp fits it to the device

// Weights [C, M/group, taps] without their zero points, as they lie.
template <class T>
View plain_integers(Lowering &l, const qir::Tensor &w, std::int64_t channels, std::int64_t taps) {
  const std::int64_t count = strided::count_of(w.shape);
  const auto bytes = static_cast<std::uint64_t>(count) * sizeof(T);
  auto *const to = static_cast<T *>(l.store().allocate(bytes));
  const Vector<std::int32_t> &zeros = w.quant->zero_points;
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = static_cast<T>(qir::stored_integer(w.dtype, w.data.data, static_cast<std::uint64_t>(i)) -
                           zeros[zeros.size() == 1 ? 0 : index_of(i / taps % channels)]);
  return l.constant({to, bytes}, {count});
}

// In the smallest type that holds them without their zero points.
template <class Pack>
std::pair<View, DType> narrowest(const qir::Tensor &w, Pack &&pack) {
  const qir::IntegerRange range = qir::integer_range(w.dtype);
  const auto [least, most] = std::ranges::minmax(w.quant->zero_points);
  const std::int64_t low = range.low - most, high = range.high - least;
  if (low >= INT8_MIN && high <= INT8_MAX) return {pack(std::int8_t{}), DType::I8};
  if (low >= INT16_MIN && high <= INT16_MAX) return {pack(std::int16_t{}), DType::I16};
  return {pack(std::int32_t{}), DType::I32};
}

Status lower_integer_conv(Lowering &l, const qir::Node &node) {
  const bool transposed = node.op == Op::ConvTranspose;
  const std::int32_t xi = node.inputs[0];
  const qir::Tensor &x_tensor = l.tensor(xi), &w_tensor = l.tensor(node.inputs[1]);
  qir::ConvGeometry c;
  QR_RETURN_IF_ERROR(transposed ? qir::resolve_conv_transpose(node, x_tensor.shape, w_tensor.shape, &c)
                                : qir::resolve_conv(node, x_tensor.shape, w_tensor.shape, &c));
  const View x = l.view(xi);
  if (strided::count_of(x.dims) == 0) return refuse(ErrorId::backend_limit, node, "found an input without elements");
  const WindowParams window = window_of(c, x);
  std::int64_t taps = 1, pixels = 1;
  for (std::uint32_t i = 0; i < c.rank; ++i) taps *= c.kernel[i], pixels *= c.out[i];
  const std::int64_t per_in = c.in_channels / c.group, per_out = c.out_channels / c.group, row = per_in * taps;
  const bool wide = sums_are_wide(x_tensor, w_tensor, row);
  const bool by_fours = l.target().dots && !transposed && per_in >= 4 && !wide && is_of_bytes(x_tensor, w_tensor);
  const Dims dims{c.batch, c.group, per_out, pixels};
  const std::int64_t x_zero = x_tensor.quant->zero_points[0];
  FusedExpression elements;
  finish_contraction(l, node, 1, elements);
  l.fuse(elements, Reshapes{dims});
  for (Arg &operand : elements.operands) operand.view = strided::broadcast(operand.view, l.shape(elements.result));
  const View y = l.result(elements.result);
  const Arg images{{x.value, x.offset, dims, {x.strides[0], x.strides[1] * per_in, 0, 0}}, x_tensor.dtype};
  if (by_fours) {
    const Vector<std::int32_t> &zeros = w_tensor.quant->zero_points;
    const View w = packed_fours(
        l, c.group, per_out, per_in, taps, x_tensor, [&](std::int64_t m, std::int64_t channel, std::int64_t tap) {
          return qir::stored_integer(w_tensor.dtype, w_tensor.data.data,
                                     static_cast<std::uint64_t>(m * row + channel * taps + tap)) -
                 zeros[zeros.size() == 1 ? 0 : index_of(m)];
        });
    const Arg base[] = {images, {{w.value, 0, dims, {0, w.dims[0] / c.group, 0, 0}}, DType::I8}};
    const ConvDotParams p{
        .X_ZERO = x_zero, .CHANNELS = per_in, .X_CHANNEL = x.strides[1], .window = window, .tile = kTileOfDots};
    return l.emit(p, dims, base, elements, {y, l.dtype(elements.result)});
  }
  const auto [w, packed] = narrowest(w_tensor, [&](auto zero) {
    using T = decltype(zero);
    return transposed ? plain_integers<T>(l, w_tensor, per_out, taps)
                      : packed_integers<T>(l, w_tensor, c.group, per_out, row);
  });
  const std::int64_t per_group = transposed ? row * per_out : (per_out + kTile - 1) / kTile * row * kTile;
  const Arg base[] = {images, {{w.value, w.offset, dims, {0, per_group, 0, 0}}, packed}};
  const Arg to{y, l.dtype(elements.result)};
  if (!transposed)
    return l.emit(
        ConvIntegerParams{
            .WIDE = wide, .X_ZERO = x_zero, .CHANNELS = per_in, .X_CHANNEL = x.strides[1], .window = window},
        dims, base, elements, to);
  return l.emit(ConvTransposeIntegerParams{.WIDE = wide,
                                           .X_ZERO = x_zero,
                                           .CHANNELS = per_in,
                                           .X_CHANNEL = x.strides[1],
                                           .W_CHANNEL = per_out * taps,
                                           .W_OUT = taps,
                                           .window = window},
                dims, base, elements, to);
}

// y[batch, m, n] as lower_matmul and lower_gemm have it, with the distance along k beside the views.
Status lower_integer_matmul(Lowering &l, const qir::Node &node) {
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1];
  View a = l.view(ai), b = l.view(bi);
  Dims dims;
  std::int64_t k = 0, a_k = 0, b_k = 0;
  if (node.op == Op::Gemm) {
    if (node.get_int("transA", 0) != 0) a = strided::transposed(a, Vector<std::int64_t>{1, 0});
    if (node.get_int("transB", 0) != 0) b = strided::transposed(b, Vector<std::int64_t>{1, 0});
    dims = {a.dims[0], b.dims[1]}, k = a.dims[1];
  } else {
    qir::MatMulGeometry g;
    QR_RETURN_IF_ERROR(qir::resolve_matmul(node, l.shape(ai), l.shape(bi), &g));
    if (a.rank() == 1) a.dims.insert(a.dims.begin(), 1), a.strides.insert(a.strides.begin(), 0);
    if (b.rank() == 1) b.dims.push_back(1), b.strides.push_back(0);
    dims.assign(g.batch, g.batch + g.batch_rank);
    dims.push_back(g.m), dims.push_back(g.n), k = g.k;
  }
  if (k == 0) return refuse(ErrorId::backend_limit, node, "found sums of nothing");
  if (dims.size() > kMaxRank) return refuse(ErrorId::backend_limit, node, "found more than 8 axes");
  // Seen in the coordinates of the result: the axis of k goes, and what is broadcast stands still.
  const auto in = [&](const View &v, bool left, std::int64_t &along_k) {
    View out{v.value, v.offset, dims, Dims(dims.size(), 0)};
    const std::size_t shift = dims.size() - v.rank();
    for (std::size_t d = 0; d + 2 < v.rank(); ++d) out.strides[shift + d] = v.dims[d] == 1 ? 0 : v.strides[d];
    along_k = v.strides[v.rank() - (left ? 1 : 2)];
    out.strides[dims.size() - (left ? 2 : 1)] = v.strides[v.rank() - (left ? 2 : 1)];
    return out;
  };
  const View av = in(a, true, a_k), bv = in(b, false, b_k);
  const qir::Tensor &a_tensor = l.tensor(ai), &b_tensor = l.tensor(bi);
  FusedExpression elements;
  const std::size_t rank = l.shape(node.outputs[0]).size();
  finish_contraction(l, node, rank == 0 ? 0 : rank - 1, elements);
  l.fuse(elements, Reshapes{dims});
  for (Arg &operand : elements.operands) operand.view = strided::broadcast(operand.view, l.shape(elements.result));
  const bool wide = sums_are_wide(a_tensor, b_tensor, k);
  const View y = l.result(elements.result);
  const Arg left{av, a_tensor.dtype};
  // Weights that are the same for all of the batch, by rows that lie side by side.
  if (l.target().dots && b_tensor.is_constant && a_k == 1 && !wide && is_of_bytes(a_tensor, b_tensor) &&
      std::all_of(bv.strides.begin(), bv.strides.end() - 1, [](auto step) { return step == 0; })) {
    const std::int64_t n_step = bv.strides.back();
    const View w =
        packed_fours(l, 1, dims.back(), k, 1, a_tensor, [&](std::int64_t column, std::int64_t i, std::int64_t) {
          return qir::stored_integer(b_tensor.dtype, b_tensor.data.data,
                                     static_cast<std::uint64_t>(bv.offset + column * n_step + i * b_k)) -
                 b_tensor.quant->zero_points[0];
        });
    const Arg base[] = {left, {{w.value, 0, dims, Dims(dims.size(), 0)}, DType::I8}};
    return l.emit(MatMulDotParams{.K = k, .tile = kTileOfDots}, dims, base, elements, {y, l.dtype(elements.result)});
  }
  const MatMulIntegerParams p{.WIDE = wide,
                              .K = k,
                              .A_K = a_k,
                              .B_K = b_k,
                              .A_ZERO = a_tensor.quant->zero_points[0],
                              .B_ZERO = b_tensor.quant->zero_points[0]};
  const Arg base[] = {left, {bv, b_tensor.dtype}};
  return l.emit(p, dims, base, elements, {y, l.dtype(elements.result)});
}

}  // namespace

Status lower_integer_contraction(Lowering &l, const qir::Node &node) {
  return node.op == Op::Conv || node.op == Op::ConvTranspose ? lower_integer_conv(l, node)
                                                             : lower_integer_matmul(l, node);
}

}  // namespace quarry::gpu
