// SPDX-License-Identifier: Apache-2.0
// Products of integers whose sums stay integers, and quantisation by the values' own range: what dynamically quantised
// models are made of.
#include <algorithm>
#include <array>

#include "backends/cpu/lower/lowering.h"
#include "graph/infer/infer.h"
#include "graph/ops/quantization.h"

namespace quarry::cpu {

using kernels::ElementOp;
using kernels::Kernel;
using qir::Op;

namespace {

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }
bool is_byte(DType dtype) { return dtype == DType::U8 || dtype == DType::I8; }
constexpr std::uint32_t kI32 = static_cast<std::uint32_t>(DType::I32);

}  // namespace

// y = (x - zero_x) * (w - zero_w) for constant w. zero_x may be known at run time only: where nothing is padded it
// comes in behind the product, times the sums of the weights; else it is taken off x before.
Status Lowering::lower_integer_sums(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1], yi = node.outputs[0], x_zero = input(node, 2),
                     w_zero = input(node, 3);
  const qir::Tensor &w = tensor(wi);
  const bool conv = node.op == Op::ConvInteger;
  if (!is_byte(tensor(xi).dtype) || !constant(wi) || !is_byte(w.dtype) || tensor(yi).dtype != DType::I32 ||
      tensor(xi).quant || w.quant || tensor(yi).quant || (w_zero != qir::kAbsent && !constant(w_zero)) ||
      (x_zero != qir::kAbsent && (count_of(tensor(x_zero).shape) != 1 || !is_byte(tensor(x_zero).dtype))))
    return {};
  kernels::ConvInt p;
  kernels::FilterView<std::int32_t> filter{};
  std::int64_t per_channel = 0, weights_step = 0;  // of the weights of a channel; between channels
  bool padded = false;
  if (conv) {
    qir::ConvGeometry g;
    QR_RETURN_IF_ERROR(qir::resolve_conv(node, tensor(xi).shape, w.shape, &g));
    if (!conv_window(g, &p.window) || g.in_channels > 1 << 20 || g.out_channels > 1 << 20) return {};
    for (std::size_t i = 0; i < g.rank; ++i)
      padded |= g.pad_begin[i] != 0 ||
                (g.out[i] - 1) * g.stride[i] + (g.kernel[i] - 1) * g.dilation[i] - g.pad_begin[i] >= g.in[i];
    p.ic = narrow(g.in_channels), p.oc = narrow(g.out_channels), p.groups = narrow(g.group);
    const Dims strides = quarry::cpu::row_major(w.shape);
    filter = {nullptr, strides[0], strides[1], strides.size() == 4 ? strides[2] : 0, strides.back()};
    per_channel = weights_step = strides[0];
  } else {
    if (w.shape.size() != 2 || tensor(xi).shape.size() < 2) return {};
    const std::int64_t k = w.shape[0], n = w.shape[1], m = count_of(tensor(xi).shape) / k;
    if (m > 1 << 24 || k > 1 << 20 || n > 1 << 20) return {};
    p.window.iw = p.window.ow = narrow(m);
    p.ic = p.x_stride = narrow(k), p.oc = p.y_stride = narrow(n);
    filter = {nullptr, 1, n, 0, 0};
    per_channel = k, weights_step = 1;
  }
  const std::size_t channels = static_cast<std::size_t>(p.oc);
  if (w_zero != qir::kAbsent && count_of(tensor(w_zero).shape) != 1 &&
      (count_of(tensor(w_zero).shape) != p.oc || tensor(w_zero).shape.size() != 1))
    return {};

  DType x_type = tensor(xi).dtype;
  bool correct = false;
  View zero;  // as i32 or i16
  View x = conv ? channels_last(xi) : row_major(xi);
  if (x_zero != qir::kAbsent && constant(x_zero)) {
    p.x.zero = narrow(qir::stored_integer(tensor(x_zero).dtype, tensor(x_zero).data.data, 0));
    if (tensor(x_zero).dtype != x_type) return {};
  } else if (x_zero != qir::kAbsent) {
    const auto widened = [&](const View &from, DType dtype, DType to) -> Result<View> {
      View made = new_like(from, dtype_bits(to) / 8);
      const kernels::Cast cast{static_cast<std::uint32_t>(dtype), static_cast<std::uint32_t>(to), count_of(from.dims)};
      QR_RETURN_IF_ERROR(emit_step(Kernel::Cast, cast, {arg(from, 1), arg(made, dtype_bits(to) / 8)}));
      return made;
    };
    correct = !padded;
    QR_ASSIGN_OR_RETURN(zero, widened(dense(x_zero), tensor(x_zero).dtype, correct ? DType::I32 : DType::I16));
    if (padded) {
      QR_ASSIGN_OR_RETURN(x, widened(conv ? channels_last(xi, true) : x, x_type, DType::I16));
      zero.dims = x.dims, zero.strides.assign(x.rank(), 0);
      kernels::Elements sub;
      sub.op = ElementOp::Sub, sub.dtype = static_cast<std::uint32_t>(DType::I16);
      const View y = new_like(x, 2);
      const View *const operands[] = {&x, &zero};
      QR_RETURN_IF_ERROR(emit_elements(sub, operands, y).take_status());
      x = y, x_type = DType::I16;
    }
  }
  p.x.dtype = static_cast<std::uint32_t>(x_type);
  p.y.dtype = kI32, p.mid.dtype = kI32;

  Vector<std::int32_t> weights = qir::stored_integers(w, static_cast<std::uint64_t>(count_of(w.shape)));
  Vector<std::int32_t> sums(channels, 0);
  std::int32_t low = 0, high = 0;
  for (std::size_t c = 0; c < channels; ++c) {
    std::int32_t of_channel = 0;
    if (w_zero != qir::kAbsent)
      of_channel = narrow(qir::stored_integer(tensor(w_zero).dtype, tensor(w_zero).data.data,
                                              count_of(tensor(w_zero).shape) == 1 ? 0 : c));
    for (std::int64_t i = 0; i < per_channel; ++i) {
      const std::int64_t at =
          conv ? static_cast<std::int64_t>(c) * weights_step + i : static_cast<std::int64_t>(c) + i * filter.ic_stride;
      const std::int32_t value = weights[static_cast<std::size_t>(at)] -= of_channel;
      sums[c] += value;
      low = std::min(low, value), high = std::max(high, value);
    }
  }
  p.w_bits = low >= -128 && high <= 127 ? 8 : 9;
  filter.data = weights.data();

  View y;
  if (conv) {
    y = image_output(yi);
    std::int64_t pixel = 0;
    is_channels_last(x, &pixel), p.x_stride = narrow(pixel);
    is_channels_last(y, &pixel), p.y_stride = narrow(pixel);
  } else {
    y = new_row_major(tensor(yi).shape, 4);
    define(yi, y);
  }
  *done = true;
  const Vector<std::int32_t> bias(channels, 0);
  const Vector<float> ones(channels, 1.0f);
  Vector<std::uint8_t> packed, packed_bias, factors;
  QR_RETURN_IF_ERROR(pack_sums(p, filter, bias, ones, &packed, &packed_bias, &factors));
  const std::uint64_t x_width = dtype_bits(x_type) / 8;
  QR_RETURN_IF_ERROR(
      emit_step(Kernel::ConvInt, p,
                {arg(x, x_width), arg(own_constant(std::move(packed))), arg(own_constant(std::move(packed_bias))),
                 arg(own_constant(std::move(factors))), arg(y)}));
  if (!correct) return {};
  // zero * sums of the channels, off every pixel.
  Vector<std::uint8_t> bytes(channels * 4);
  std::memcpy(bytes.data(), sums.data(), bytes.size());
  const View of_weights{static_cast<std::int32_t>(own_constant(std::move(bytes))), 0, {p.oc}, {1}};
  View product = new_row_major({p.oc}, 4);
  zero.dims = {p.oc}, zero.strides = {0};
  kernels::Elements element;
  element.op = ElementOp::Mul, element.dtype = kI32;
  const View *const factors_of[] = {&of_weights, &zero};
  QR_RETURN_IF_ERROR(emit_elements(element, factors_of, product).take_status());
  product.dims = y.dims, product.strides.assign(y.rank(), 0);
  product.strides[conv ? 1 : y.rank() - 1] = 1;
  element.op = ElementOp::Sub;
  const View *const difference[] = {&y, &product};
  return emit_elements(element, difference, y).take_status();
}

Status Lowering::lower_dynamic_quantize(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0];
  if (!is_f32(xi) || node.outputs.size() != 3) return {};
  for (const std::int32_t id : node.outputs)
    if (id != qir::kAbsent && tensor(id).quant) return {};
  const View x = dense(xi), y = new_like(x, 1), scale = new_row_major({}, 4), zero = new_row_major({}, 1);
  const View *const made[] = {&y, &scale, &zero};
  for (std::size_t i = 0; i < 3; ++i)
    if (node.outputs[i] != qir::kAbsent) define(node.outputs[i], *made[i]);
  *done = true;
  return emit_step(Kernel::DynamicQuantize, kernels::DynamicQuantize{count_of(x.dims)},
                   {arg(x), arg(y, 1), arg(scale), arg(zero, 1)});
}

}  // namespace quarry::cpu
