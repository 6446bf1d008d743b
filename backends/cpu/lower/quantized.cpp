// SPDX-License-Identifier: Apache-2.0
// Quantised operators in integers. What is not done here was taken apart into floats by rewrite.h before.
#include <algorithm>
#include <cmath>

#include "backends/cpu-reference/interpreter.h"
#include "backends/cpu/lower/lowering.h"
#include "backends/cpu/lower/quantized_nodes.h"
#include "graph/infer/infer.h"
#include "kernels/cpu/pack/pack.h"

namespace quarry::cpu {

using kernels::BinaryOp;
using kernels::Kernel;
using kernels::Quant;
using qir::Op;

namespace {

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

Quant quant_of(const qir::Tensor &tensor) {
  return {static_cast<std::uint32_t>(tensor.dtype), tensor.quant->zero_points[0], tensor.quant->scales[0], 0};
}

struct Range {
  std::int32_t low, high;
};
Range range_of(DType dtype) {
  const qir::IntegerRange range = qir::integer_range(dtype);
  return {narrow(range.low), narrow(range.high)};
}

}  // namespace

bool Lowering::requantizable(std::int32_t from, std::int32_t to) const {
  return quantized_activation(tensor(from)) && quantized_activation(tensor(to));
}

Status Lowering::requantized(std::int32_t from, std::int32_t to, View *out) {
  const View x = dense(from);
  *out = new_like(x, width(to));
  const Range range = range_of(tensor(to).dtype);
  const kernels::Requantize p{count_of(x.dims), quant_of(tensor(from)), quant_of(tensor(to)), range.low, range.high};
  return emit_step(Kernel::Requantize, p, {arg(x, width(from)), arg(*out, width(to))});
}

Status Lowering::lower_int(const Group &group, bool *done) {
  const qir::Node &node = *current_;
  const std::int32_t xi = node.inputs.empty() ? qir::kAbsent : node.inputs[0], yi = node.outputs[0];
  if (xi == qir::kAbsent) return {};
  if (node.op == Op::QuantizeLinear || node.op == Op::DequantizeLinear) return lower_quantize(node, done);
  if (!integer_way(graph_, node)) return {};
  const Quant qx = quant_of(tensor(xi)), qy = quant_of(tensor(yi));
  const Range range = range_of(tensor(yi).dtype);
  switch (node.op) {
    case Op::Conv:
    case Op::Gemm:
    case Op::MatMul: return lower_conv_int(group, done);
    case Op::Add:
    case Op::Sub:
    case Op::Mul: {
      const View y = elementwise_output(tensor(yi).shape, node.inputs, width(yi));
      const View a = beside(xi, y), b = beside(node.inputs[1], y);
      const View *const views[] = {&y, &a, &b};
      Nest nest;
      if (!make_nest(views, kernels::kLoopRank, nest)) return {};
      define(yi, y);
      kernels::BinaryInt p;
      p.op = node.op == Op::Add ? BinaryOp::Add : node.op == Op::Sub ? BinaryOp::Sub : BinaryOp::Mul;
      p.rank = static_cast<std::uint32_t>(nest.dims.size());
      std::copy(nest.dims.begin(), nest.dims.end(), p.dims);
      std::copy(nest.strides[1].begin(), nest.strides[1].end(), p.a);
      std::copy(nest.strides[2].begin(), nest.strides[2].end(), p.b);
      p.qa = qx, p.qb = quant_of(tensor(node.inputs[1])), p.qy = qy, p.lo = range.low, p.hi = range.high;
      *done = true;
      return emit_step(Kernel::BinaryInt, p, {arg(a, width(xi)), arg(b, width(node.inputs[1])), arg(y, width(yi))});
    }
    case Op::MaxPool:
    case Op::AveragePool: {
      kernels::PoolInt p;
      if (!pool_window(node, &p.window, &p.pad_bottom, &p.pad_right, &p.op)) return {};
      const View x = channels_last(xi), y = image_output(yi);
      std::int64_t x_pixel = 0, y_pixel = 0;
      is_channels_last(x, &x_pixel), is_channels_last(y, &y_pixel);
      p.c = narrow(x.dims[1]), p.x_stride = narrow(x_pixel), p.y_stride = narrow(y_pixel);
      p.x = qx, p.y = qy;
      *done = true;
      return emit_step(Kernel::PoolInt, p, {arg(x, width(xi)), arg(y, width(yi))});
    }
    case Op::GlobalAveragePool: {
      // As it lies; images that lie otherwise are brought into the order of their neighbours.
      const View first = any(xi);
      std::int64_t pixel;
      const bool planes = is_row_major(first) && !is_channels_last(first, &pixel);
      const View x = planes ? first : channels_last(xi, true);
      kernels::MeanInt p;
      p.outer = x.dims[0] * (planes ? x.dims[1] : 1), p.inner = planes ? 1 : x.dims[1];
      p.reduced = count_of(x.dims) / (x.dims[0] * x.dims[1]);
      p.x = qx, p.y = qy;
      const View y = new_row_major(tensor(yi).shape, width(yi));
      define(yi, y);
      *done = true;
      return emit_step(Kernel::MeanInt, p, {arg(x, width(xi)), arg(y, width(yi))});
    }
    default: break;
  }
  if (!byte_function(graph_, node)) return {};
  // A function of one byte: cpu-reference says what it gives for each.
  const qir::Tensor &x = tensor(xi), &y = tensor(yi);
  Vector<std::uint8_t> all(256);
  for (std::size_t i = 0; i < 256; ++i) all[i] = static_cast<std::uint8_t>(i);
  Vector<reference::ConstView> inputs{{true, x.dtype, {256}, &x.quant, all.data()}};
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == qir::kAbsent) {
      inputs.push_back({});
      continue;
    }
    const qir::Tensor &other = tensor(node.inputs[i]);
    inputs.push_back({true, other.dtype, other.shape, &other.quant, other.data.data});
  }
  const Vector<reference::OutputType> types{{y.dtype, y.quant}};
  Vector<reference::OwnedTensor> results;
  QR_RETURN_IF_ERROR(reference::run_node(node, inputs, results, &types));
  const View from = dense(xi), to = new_like(from, 1);
  define(yi, to);
  *done = true;
  return emit_step(Kernel::Lookup8, kernels::Lookup8{count_of(from.dims)},
                   {arg(from, 1), arg(own_constant(std::move(results[0].data))), arg(to, 1)});
}

Status Lowering::lower_quantize(const qir::Node &node, bool *done) {
  const bool to_int = node.op == Op::QuantizeLinear;
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0], integer = to_int ? yi : xi, real = to_int ? xi : yi;
  const auto scale = scalar(node.inputs[1]);
  const std::int64_t precision = node.get_int("precision", 0);  // of the quotient
  if (!is_f32(real) || (precision != 0 && precision != static_cast<std::int64_t>(DType::F32))) return {};
  // Any other scale is cpu-reference's to give meaning to, and only rows divide by what they are given.
  if (!scale || !(*scale > 0) || !std::isfinite(*scale) || !integer_dtype(tensor(integer).dtype) ||
      node.get_int("block_size", 0) != 0)
    return lower_quantize_rows(node, done);
  Quant q{static_cast<std::uint32_t>(tensor(integer).dtype), 0, *scale, 0};
  if (const std::int32_t zero = input(node, 2); zero != qir::kAbsent) {
    if (!constant(zero)) return lower_quantize_rows(node, done);
    if (count_of(tensor(zero).shape) != 1 || tensor(zero).dtype != tensor(integer).dtype) return {};
    q.zero = narrow(qir::stored_integer(tensor(zero).dtype, tensor(zero).data.data, 0));
  }
  const View x = dense(xi), y = new_like(x, width(yi));
  define(yi, y);
  *done = true;
  if (to_int)
    return emit_step(Kernel::Quantize, kernels::Quantize{count_of(x.dims), q}, {arg(x, width(xi)), arg(y, width(yi))});
  return emit_step(Kernel::Dequantize, kernels::Dequantize{count_of(x.dims), q},
                   {arg(x, width(xi)), arg(y, width(yi))});
}

// Scales and zero points along an axis, of blocks, or not known before the run; dequantised integers of 32 bits.
Status Lowering::lower_quantize_rows(const qir::Node &node, bool *done) {
  const bool to_int = node.op == Op::QuantizeLinear;
  const std::int32_t xi = node.inputs[0], si = node.inputs[1], yi = node.outputs[0], integer = to_int ? yi : xi;
  std::int32_t zi = input(node, 2);
  const DType dtype = tensor(integer).dtype;
  if (!is_f32(si)) return {};
  if (zi != qir::kAbsent && (tensor(zi).dtype != dtype || tensor(zi).shape != tensor(si).shape)) return {};
  if (zi != qir::kAbsent && dtype == DType::I32 && constant(zi)) {
    const auto zeros = qir::stored_integers(tensor(zi), static_cast<std::uint64_t>(count_of(tensor(zi).shape)));
    if (std::ranges::all_of(zeros, [](std::int32_t zero) { return zero == 0; })) zi = qir::kAbsent;
  }
  const qir::Shape &shape = tensor(xi).shape;
  const std::int64_t block = node.get_int("block_size", 0), scales = count_of(tensor(si).shape);
  kernels::QuantizeRows p;
  p.dtype = static_cast<std::uint32_t>(dtype), p.has_zeros = zi != qir::kAbsent;
  if (scales == 1 && block == 0) {
    p.rows = 1, p.length = count_of(shape);
  } else {
    std::size_t axis;
    QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 1), shape.size(), &axis));
    const std::int64_t n = shape[axis];
    std::int64_t outer = 1, inner = 1;
    for (std::size_t d = 0; d < axis; ++d) outer *= shape[d];
    for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
    if (block < 0 || (block != 0 && n % block != 0)) return {};
    if (block == 0 && inner == 1) p.rows = outer, p.length = n, p.repeat = outer, p.each = 1;
    else if (block == 0) p.rows = outer * n, p.length = inner, p.groups = n;
    else if (inner == 1) p.rows = p.groups = outer * (n / block), p.length = block;
    else p.rows = outer * n, p.length = inner, p.repeat = block, p.groups = outer * (n / block), p.each = 1;
  }
  if (scales != p.groups * (p.each ? p.length : 1)) return {};  // cpu-reference says what is wrong
  kernels::Needs needs;
  const Kernel kernel = to_int ? Kernel::QuantizeRows : Kernel::DequantizeRows;
  if (!kernels::kernel_row(kernel).check(&p, *plan_.isa, needs).ok()) return {};
  const View x = row_major(xi), scale = row_major(si), zeros = p.has_zeros ? row_major(zi) : View{},
             y = new_row_major(shape, width(yi));
  define(yi, y);
  Vector<Arg> args{arg(x, width(xi)), arg(scale)};
  if (p.has_zeros) args.push_back(arg(zeros, width(zi)));
  args.push_back(arg(y, width(yi)));
  *done = true;
  return emit(kernel, &p, args);
}

// Weights without their zero points, as the quickest form of ConvInt that holds them.
Status Lowering::pack_sums(kernels::ConvInt &p, const kernels::FilterView<std::int32_t> &weights,
                           const Vector<std::int32_t> &bias, const Vector<float> &multiplier,
                           Vector<std::uint8_t> *packed, Vector<std::uint8_t> *packed_bias,
                           Vector<std::uint8_t> *factors) const {
  kernels::Needs needs;
  if (kernels::may_pair_bytes(p, *plan_.isa)) p.form = kernels::IntForm::BytePairs2;
  for (;;) {
    needs = {};
    QR_RETURN_IF_ERROR(check(Kernel::ConvInt, &p, &needs));
    packed->resize(needs.operand_bytes[1]), packed_bias->resize(needs.operand_bytes[2]);
    if (kernels::pack_conv_int(p, *plan_.isa, weights, bias.data(), packed->data(), packed_bias->data())) break;
    if (p.form != kernels::IntForm::Plain) {
      p.form = p.form == kernels::IntForm::BytePairs2 ? kernels::IntForm::BytePairs1 : kernels::IntForm::Plain;
    } else if (p.w_bits < 16) {
      p.w_bits = 16;
    } else {
      return Status::error(ErrorId::internal, format("plan: the weights of node '%s' do not fit 16 bits",
                                                     printable(current_->name).c_str()));
    }
  }
  factors->resize(needs.operand_bytes[3]);
  kernels::pack_channels(multiplier.data(), p.oc, factors->data(), factors->size());
  return {};
}

Status Lowering::lower_conv_int(const Group &group, bool *done) {
  const qir::Node &node = *current_;
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1], bi = input(node, 2), yi = group.output;
  const qir::Tensor &w = tensor(wi);
  const bool conv = node.op == Op::Conv;
  kernels::ConvInt p;
  std::int64_t oc_stride, ic_stride, kh_stride = 0, kw_stride = 0, taps = 1;
  View x, y, r;
  const bool residual = group.residual != qir::kAbsent;
  if (residual && !quantized_activation(tensor(group.residual))) return {};
  if (conv) {
    qir::ConvGeometry geometry;
    QR_RETURN_IF_ERROR(qir::resolve_conv(node, tensor(xi).shape, w.shape, &geometry));
    if (!conv_window(geometry, &p.window)) return {};
    p.ic = narrow(geometry.in_channels), p.oc = narrow(geometry.out_channels), p.groups = narrow(geometry.group);
    const Dims strides = quarry::cpu::row_major(w.shape);
    oc_stride = strides[0], ic_stride = strides[1], kh_stride = strides.size() == 4 ? strides[2] : 0,
    kw_stride = strides.back();
    taps = count_of(w.shape) / (w.shape[0] * w.shape[1]);
    x = channels_last(xi);
    if (residual) r = channels_last(group.residual);
    y = image_output(yi);
    std::int64_t pixel = 0;
    is_channels_last(x, &pixel), p.x_stride = narrow(pixel);
    is_channels_last(y, &pixel), p.y_stride = narrow(pixel);
    if (residual) is_channels_last(r, &pixel), p.r_stride = narrow(pixel);
  } else {
    const bool transposed_b = node.get_int("transB", 0) != 0;
    const std::int64_t k = w.shape[transposed_b ? 1 : 0], n = w.shape[transposed_b ? 0 : 1],
                       m = count_of(tensor(xi).shape) / k;
    if (m > 1 << 24 || k > 1 << 20 || n > 1 << 20) return {};
    oc_stride = transposed_b ? k : 1, ic_stride = transposed_b ? 1 : n;
    p.window.iw = p.window.ow = narrow(m);
    p.ic = p.x_stride = narrow(k), p.oc = p.y_stride = narrow(n);
    x = row_major(xi);
    if (residual) r = row_major(group.residual), p.r_stride = narrow(n);
    y = new_row_major(tensor(yi).shape, width(yi));
    define(yi, y);
  }
  const qir::Tensor &first = tensor(residual ? group.mid : yi);  // what the sums are rounded to
  p.x = quant_of(tensor(xi)), p.y = quant_of(tensor(yi)), p.mid = quant_of(first);
  p.has_residual = residual;
  if (residual) p.r = quant_of(tensor(group.residual));
  const Range y_range = range_of(tensor(yi).dtype), mid_range = range_of(first.dtype);
  p.lo = y_range.low, p.hi = y_range.high, p.mid_lo = mid_range.low, p.mid_hi = mid_range.high;
  kernels::Needs needs;
  const auto finish = [&](Vector<Arg> args) {
    if (residual) args.push_back(arg(r, width(group.residual)));
    args.push_back(arg(y, width(yi)));
    *done = true;
    return emit(Kernel::ConvInt, &p, args);
  };
  if (look_only_) {
    p.w_bits = dtype_bits(w.dtype);
    QR_RETURN_IF_ERROR(check(Kernel::ConvInt, &p, &needs));
    Vector<Arg> args{arg(x, width(xi))};
    for (std::size_t i = 1; i <= 3; ++i) args.push_back(arg(packed_constant(needs.operand_bytes[i], [](auto &) {})));
    return finish(std::move(args));
  }
  // Weights without their zero points, and the factor from sums of products to what is stored first.
  const std::int64_t per_group = p.ic / p.groups, channels = p.oc;
  const qir::Quantization &wq = *w.quant;
  Vector<std::int32_t> weights = qir::stored_integers(w, static_cast<std::uint64_t>(count_of(w.shape)));
  std::int32_t low = 0, high = 0;
  for (std::int64_t c = 0; c < channels; ++c) {
    const std::int32_t zero = wq.zero_points[wq.per_tensor() ? 0 : static_cast<std::size_t>(c)];
    for (std::int64_t i = 0; i < per_group; ++i) {
      for (std::int64_t t = 0; t < taps; ++t) {
        const std::int64_t at = conv ? c * oc_stride + i * ic_stride + t : c * oc_stride + i * ic_stride;
        const std::int32_t value = weights[static_cast<std::size_t>(at)] -= zero;
        low = std::min(low, value), high = std::max(high, value);
      }
    }
  }
  p.w_bits = low >= -128 && high <= 127 ? 8 : low >= -256 && high <= 255 ? 9 : low >= -32767 && high <= 32767 ? 16 : 17;
  Vector<float> multiplier(static_cast<std::size_t>(channels));
  for (std::size_t c = 0; c < multiplier.size(); ++c)
    multiplier[c] =
        static_cast<float>(static_cast<double>(p.x.scale) * static_cast<double>(wq.scales[wq.per_tensor() ? 0 : c]) /
                           static_cast<double>(p.mid.scale));
  Vector<std::int32_t> bias(static_cast<std::size_t>(channels), 0);
  if (bi != qir::kAbsent) {
    const qir::Tensor &b = tensor(bi);
    const std::int64_t count = count_of(b.shape);
    for (std::size_t c = 0; c < bias.size(); ++c)
      bias[c] = static_cast<const std::int32_t *>(b.data.data)[count == 1 ? 0 : c];
  }
  Vector<std::uint8_t> packed, packed_bias, factors;
  QR_RETURN_IF_ERROR(pack_sums(p, {weights.data(), oc_stride, ic_stride, kh_stride, kw_stride}, bias, multiplier,
                               &packed, &packed_bias, &factors));
  Vector<Arg> args{arg(x, width(xi)), arg(own_constant(std::move(packed))), arg(own_constant(std::move(packed_bias))),
                   arg(own_constant(std::move(factors)))};
  return finish(std::move(args));
}

}  // namespace quarry::cpu
