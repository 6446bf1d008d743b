// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/checked.h"
#include "base/text.h"
#include "kernels/cpu/check/check.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/pack/pack.h"
#include "kernels/cpu/shapes/conv_int_shape.h"

namespace quarry::kernels {

namespace {

Status check_quant(std::string_view kernel, std::string_view what, const Quant &q) {
  if (!is_quant_dtype(q.dtype)) return refuse(kernel, format("type of %.*s", what), q.dtype, "u8, i8, u16 or i16");
  if (q.zero < quant_low(q.dtype) || q.zero > quant_high(q.dtype))
    return refuse(kernel, format("zero point of %.*s", what), q.zero, "one that its type can hold");
  if (!(q.scale > 0) || !std::isfinite(q.scale)) {
    return Status::error(ErrorId::backend_bad_blob, format("%.*s: scale of %.*s: found %g, expected a positive number",
                                                           kernel, what, static_cast<double>(q.scale)));
  }
  if (q.reserved != 0) return refuse(kernel, "reserved", q.reserved, "0");
  return {};
}
Status check_limits(std::string_view kernel, std::uint32_t dtype, std::int32_t lo, std::int32_t hi) {
  if (lo < quant_low(dtype) || lo > quant_high(dtype))
    return refuse(kernel, "lower limit", lo, "one that the type can hold");
  if (hi < lo || hi > quant_high(dtype))
    return refuse(kernel, "upper limit", hi, "one that the type can hold, not under the lower");
  return {};
}
Status check_image(std::string_view kernel, std::string_view what, std::int64_t n, std::int64_t h, std::int64_t w,
                   std::int64_t stride, std::int64_t c, std::uint32_t dtype, bool written, Needs &needs) {
  std::uint64_t bytes;
  if (!image_bytes(n, h, w, stride, c, dtype == kI32 ? 4 : static_cast<std::uint64_t>(quant_bytes(dtype)), &bytes))
    return refuse(kernel, format("pixel stride of %.*s", what), stride,
                  "at least the channels, and a size that can be");
  add(needs, bytes, written);
  return {};
}
Status add_elements(std::string_view kernel, std::int64_t count, std::uint64_t width, bool written, Needs &needs) {
  if (count < 0 || count > std::int64_t{1} << 48) return refuse(kernel, "count", count, "0 to 2^48");
  add(needs, static_cast<std::uint64_t>(count) * width, written);
  return {};
}

}  // namespace

Status check_ConvInt(const void *params, const Isa &isa, Needs &needs) {
  constexpr const char *kName = "ConvInt";
  const auto &p = *static_cast<const ConvInt *>(params);
  const Window &w = p.window;
  QR_RETURN_IF_ERROR(check_window(kName, w));
  if (p.ic < 1 || p.ic > 1 << 24) return refuse(kName, "input channels", p.ic, "1 to 2^24");
  if (p.oc < 1 || p.oc > 1 << 24) return refuse(kName, "output channels", p.oc, "1 to 2^24");
  if (p.groups < 1 || p.ic % p.groups != 0 || p.oc % p.groups != 0)
    return refuse(kName, "groups", p.groups, "a divisor of the channels");
  if (p.has_residual > 1) return refuse(kName, "residual", p.has_residual, "0 or 1");
  const bool depthwise = p.groups > 1 && p.groups == p.ic && p.groups == p.oc;
  if (p.w_bits < 8 || p.w_bits > (depthwise ? 16 : 17))
    return refuse(kName, "bits of weights", p.w_bits, depthwise ? "8 to 16" : "8 to 17");
  QR_RETURN_IF_ERROR(check_quant(kName, "x", p.x));
  if (p.y.dtype == kI32) {
    if (p.has_residual) return refuse(kName, "residual of sums", p.has_residual, "0");
  } else {
    QR_RETURN_IF_ERROR(check_quant(kName, "y", p.y));
    QR_RETURN_IF_ERROR(check_limits(kName, p.y.dtype, p.lo, p.hi));
  }
  if (p.has_residual) {
    QR_RETURN_IF_ERROR(check_quant(kName, "r", p.r));
    QR_RETURN_IF_ERROR(check_quant(kName, "mid", p.mid));
    QR_RETURN_IF_ERROR(check_limits(kName, p.mid.dtype, p.mid_lo, p.mid_hi));
  }
  if (std::int64_t{w.kh} * w.kw * (p.ic / p.groups) > 1 << 26)
    return refuse(kName, "products of a sum", std::int64_t{w.kh} * w.kw * (p.ic / p.groups), "at most 2^26");
  if (p.form > IntForm::BytePairs2) return refuse(kName, "form", static_cast<std::int64_t>(p.form), "0, 1 or 2");
  if (p.form != IntForm::Plain && !may_pair_bytes(p, isa))
    return refuse(kName, "form", static_cast<std::int64_t>(p.form), "0 for these parameters and this instruction set");
  const ConvIntShape s =
      conv_int_shape(p, static_cast<std::int32_t>(isa.f32_lanes), static_cast<std::int32_t>(isa.f32_panel),
                     static_cast<std::int32_t>(isa.int_group));
  QR_RETURN_IF_ERROR(check_image(kName, "x", w.n, w.ih, w.iw, p.x_stride, p.ic, p.x.dtype, false, needs));
  std::uint64_t weights = static_cast<std::uint64_t>(s.group_weights);
  if (!s.depthwise && !checked_mul(weights, static_cast<std::uint64_t>(p.groups), &weights))
    return refuse(kName, "groups", p.groups, "weights of a size that can be");
  add(needs, weights);
  add(needs, static_cast<std::uint64_t>(s.channels) * 12);
  add(needs, static_cast<std::uint64_t>(s.channels) * 4);
  if (p.has_residual)
    QR_RETURN_IF_ERROR(check_image(kName, "r", w.n, w.oh, w.ow, p.r_stride, p.oc, p.r.dtype, false, needs));
  QR_RETURN_IF_ERROR(check_image(kName, "y", w.n, w.oh, w.ow, p.y_stride, p.oc, p.y.dtype, true, needs));
  if (s.depthwise) {
    const DepthwiseStrip strip = depthwise_strip(p, s.lanes);
    if (strip.bytes > std::int64_t{1} << 32)
      return refuse(kName, "column dilation", w.dw, "one whose window fits memory");
    needs.scratch_bytes = static_cast<std::uint64_t>(strip.bytes);
  } else if (s.winograd) {
    needs.scratch_bytes = static_cast<std::uint64_t>(winograd_int_blocks(p, s.panel).bytes);
  } else {
    needs.scratch_bytes = static_cast<std::uint64_t>(s.scratch);
  }
  return {};
}

Status check_BinaryInt(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "BinaryInt";
  const auto &p = *static_cast<const BinaryInt *>(params);
  if (p.op > BinaryOp::Mul) return refuse(kName, "operation", static_cast<std::int64_t>(p.op), "Add, Sub or Mul");
  if (p.rank < 1 || p.rank > kLoopRank) return refuse(kName, "rank", p.rank, "1 to 6");
  QR_RETURN_IF_ERROR(check_quant(kName, "a", p.qa));
  QR_RETURN_IF_ERROR(check_quant(kName, "b", p.qb));
  QR_RETURN_IF_ERROR(check_quant(kName, "y", p.qy));
  QR_RETURN_IF_ERROR(check_limits(kName, p.qy.dtype, p.lo, p.hi));
  std::int64_t dense[kLoopRank], count = 1;
  for (std::size_t i = p.rank; i-- > 0;) {
    dense[i] = count;
    if (p.dims[i] < 0 || !checked_mul(count, p.dims[i] < 1 ? std::int64_t{1} : p.dims[i], &count))
      return refuse(kName, "extent", p.dims[i], "a size that can be");
  }
  const struct {
    const std::int64_t *strides;
    const Quant &quant;
    bool written;
  } operands[] = {{p.a, p.qa, false}, {p.b, p.qb, false}, {dense, p.qy, true}};
  for (const auto &operand : operands) {
    std::uint64_t elements;
    if (!nest_extent(p.dims, operand.strides, p.rank, &elements))
      return refuse(kName, "strides of operand", &operand - operands, "none negative, a size that can be");
    add(needs, elements * static_cast<std::uint64_t>(quant_bytes(operand.quant.dtype)), operand.written);
  }
  return {};
}

Status check_Lookup8(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const Lookup8 *>(params);
  QR_RETURN_IF_ERROR(add_elements("Lookup8", p.count, 1, false, needs));
  add(needs, 256);
  return add_elements("Lookup8", p.count, 1, true, needs);
}

Status check_PoolInt(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "PoolInt";
  const auto &p = *static_cast<const PoolInt *>(params);
  QR_RETURN_IF_ERROR(check_window(kName, p.window));
  if (p.op >= PoolOp::Count) return refuse(kName, "operation", static_cast<std::int64_t>(p.op), "one of PoolOp");
  if (p.reserved != 0) return refuse(kName, "reserved", p.reserved, "0");
  if (p.pad_bottom < 0 || p.pad_bottom > 1 << 24) return refuse(kName, "rows of padding", p.pad_bottom, "0 to 2^24");
  if (p.pad_right < 0 || p.pad_right > 1 << 24) return refuse(kName, "columns of padding", p.pad_right, "0 to 2^24");
  if (std::int64_t{p.window.kh} * p.window.kw > 1 << 15)
    return refuse(kName, "taps", std::int64_t{p.window.kh} * p.window.kw, "at most 32768, so that i32 holds their sum");
  QR_RETURN_IF_ERROR(check_quant(kName, "x", p.x));
  QR_RETURN_IF_ERROR(check_quant(kName, "y", p.y));
  if (p.op == PoolOp::Max && (p.x.dtype != p.y.dtype || p.x.zero != p.y.zero || p.x.scale != p.y.scale))
    return refuse(kName, "type of y", p.y.dtype, "that of x, and its parameters");
  QR_RETURN_IF_ERROR(
      check_image(kName, "x", p.window.n, p.window.ih, p.window.iw, p.x_stride, p.c, p.x.dtype, false, needs));
  return check_image(kName, "y", p.window.n, p.window.oh, p.window.ow, p.y_stride, p.c, p.y.dtype, true, needs);
}

Status check_MeanInt(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "MeanInt";
  const auto &p = *static_cast<const MeanInt *>(params);
  QR_RETURN_IF_ERROR(check_quant(kName, "x", p.x));
  QR_RETURN_IF_ERROR(check_quant(kName, "y", p.y));
  if (p.reduced < 1 || p.reduced > std::int64_t{1} << 40)
    return refuse(kName, "size of the mean", p.reduced, "1 to 2^40");
  const std::int64_t dims[3] = {p.outer, p.reduced, p.inner};
  std::int64_t strides[3] = {0, p.inner, 1};
  std::uint64_t x, y;
  if (p.outer < 0 || p.inner < 0 || !checked_mul(p.reduced, p.inner, &strides[0]) || !nest_extent(dims, strides, 3, &x))
    return refuse(kName, "extents", p.outer, "a size that can be");
  const std::int64_t y_dims[2] = {p.outer, p.inner}, y_strides[2] = {p.inner, 1};
  if (!nest_extent(y_dims, y_strides, 2, &y)) return refuse(kName, "extents", p.outer, "a size that can be");
  add(needs, x * static_cast<std::uint64_t>(quant_bytes(p.x.dtype)));
  add(needs, y * static_cast<std::uint64_t>(quant_bytes(p.y.dtype)), true);
  return {};
}

Status check_Quantize(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const Quantize *>(params);
  QR_RETURN_IF_ERROR(check_quant("Quantize", "y", p.y));
  QR_RETURN_IF_ERROR(add_elements("Quantize", p.count, 4, false, needs));
  return add_elements("Quantize", p.count, static_cast<std::uint64_t>(quant_bytes(p.y.dtype)), true, needs);
}
Status check_UnaryInt(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const UnaryInt *>(params);
  QR_RETURN_IF_ERROR(check_quant("UnaryInt", "x", p.x));
  QR_RETURN_IF_ERROR(check_quant("UnaryInt", "y", p.y));
  QR_RETURN_IF_ERROR(check_act("UnaryInt", p.act));
  QR_RETURN_IF_ERROR(
      add_elements("UnaryInt", p.count, static_cast<std::uint64_t>(quant_bytes(p.x.dtype)), false, needs));
  return add_elements("UnaryInt", p.count, static_cast<std::uint64_t>(quant_bytes(p.y.dtype)), true, needs);
}
Status check_DynamicQuantize(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const DynamicQuantize *>(params);
  QR_RETURN_IF_ERROR(add_elements("DynamicQuantize", p.count, 4, false, needs));
  QR_RETURN_IF_ERROR(add_elements("DynamicQuantize", p.count, 1, true, needs));
  add(needs, 4, true), add(needs, 1, true);
  needs.scratch_bytes = 64;  // what a worker found the least and the most
  return {};
}
Status check_Dequantize(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const Dequantize *>(params);
  QR_RETURN_IF_ERROR(check_quant("Dequantize", "x", p.x));
  QR_RETURN_IF_ERROR(
      add_elements("Dequantize", p.count, static_cast<std::uint64_t>(quant_bytes(p.x.dtype)), false, needs));
  return add_elements("Dequantize", p.count, 4, true, needs);
}
namespace {

Status check_rows(std::string_view kernel, const QuantizeRows &p, bool to_int, Needs &needs) {
  const bool wide = p.dtype == kI32;
  if (!is_quant_dtype(p.dtype) && (to_int || !wide))
    return refuse(kernel, "type of integers", p.dtype, to_int ? "u8, i8, u16 or i16" : "u8, i8, u16, i16 or i32");
  if (p.each > 1) return refuse(kernel, "each", p.each, "0 or 1");
  if (p.has_zeros > (wide ? 0 : 1)) return refuse(kernel, "has_zeros", p.has_zeros, wide ? "0" : "0 or 1");
  if (p.reserved != 0) return refuse(kernel, "reserved", p.reserved, "0");
  if (p.repeat < 1) return refuse(kernel, "repeat", p.repeat, "at least 1");
  const std::int64_t dims[2] = {p.rows, p.length}, entry_dims[2] = {p.groups, p.each ? p.length : 1};
  const auto count = element_count(dims, 2), entries = element_count(entry_dims, 2);
  if (!count || *count > std::int64_t{1} << 48)
    return refuse(kernel, "rows", p.rows, "no negative sizes, and at most 2^48 elements");
  if (p.groups < 1 || !entries || *entries > std::int64_t{1} << 48)
    return refuse(kernel, "groups", p.groups, "at least 1, and at most 2^48 scales");
  const auto each = static_cast<std::uint64_t>(wide ? 4 : quant_bytes(p.dtype));
  QR_RETURN_IF_ERROR(add_elements(kernel, *count, to_int ? 4 : each, false, needs));
  QR_RETURN_IF_ERROR(add_elements(kernel, *entries, 4, false, needs));
  if (p.has_zeros) QR_RETURN_IF_ERROR(add_elements(kernel, *entries, each, false, needs));
  return add_elements(kernel, *count, to_int ? each : 4, true, needs);
}

}  // namespace

Status check_QuantizeRows(const void *params, const Isa &, Needs &needs) {
  return check_rows("QuantizeRows", *static_cast<const QuantizeRows *>(params), true, needs);
}
Status check_DequantizeRows(const void *params, const Isa &, Needs &needs) {
  return check_rows("DequantizeRows", *static_cast<const QuantizeRows *>(params), false, needs);
}
Status check_Requantize(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "Requantize";
  const auto &p = *static_cast<const Requantize *>(params);
  QR_RETURN_IF_ERROR(check_quant(kName, "x", p.x));
  QR_RETURN_IF_ERROR(check_quant(kName, "y", p.y));
  QR_RETURN_IF_ERROR(check_limits(kName, p.y.dtype, p.lo, p.hi));
  QR_RETURN_IF_ERROR(add_elements(kName, p.count, static_cast<std::uint64_t>(quant_bytes(p.x.dtype)), false, needs));
  return add_elements(kName, p.count, static_cast<std::uint64_t>(quant_bytes(p.y.dtype)), true, needs);
}

}  // namespace quarry::kernels
