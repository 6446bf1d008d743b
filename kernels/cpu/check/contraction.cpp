// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"
#include "base/dtype.h"
#include "kernels/cpu/check/check.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/shapes/conv_int_shape.h"
#include "kernels/cpu/shapes/conv_shape.h"
#include "kernels/cpu/shapes/matmul_shape.h"
#include "kernels/cpu/shapes/split_shape.h"

namespace quarry::kernels {

namespace {

constexpr std::int64_t kMostChannels = 1 << 24;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 48;

// Bytes of f32 elements: a * b * c * d * 4, in whole cache lines.
bool float_bytes(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d, std::uint64_t *out) noexcept {
  std::uint64_t bytes = 4;
  for (const std::int64_t factor : {a, b, c, d})
    if (factor < 0 || !checked_mul(bytes, static_cast<std::uint64_t>(factor), &bytes) || bytes > kMostBytes)
      return false;
  *out = (bytes + 63) / 64 * 64;
  return true;
}
Status too_large(std::string_view kernel, std::string_view what) {
  return refuse(kernel, what, -1, "a dimension whose bytes are less than 2^48");
}

// Operands of a convolution after x and w: bias, residual, y. `vectors_end` is where reads of whole vectors of bias
// end.
Status add_outputs(std::string_view kernel, const Window &w, std::int64_t c, std::int64_t bias_floats,
                   std::uint32_t has_bias, Residual residual, std::int32_t r_stride, std::int32_t y_stride,
                   Needs &needs) {
  if (has_bias > 1) return refuse(kernel, "has_bias", has_bias, "0 or 1");
  if (residual >= Residual::Count) return refuse(kernel, "residual", static_cast<std::int64_t>(residual), "0 to 2");
  if (has_bias) add(needs, static_cast<std::uint64_t>(bias_floats) * 4);
  std::uint64_t bytes;
  if (residual != Residual::None) {
    if (!image_bytes(w.n, w.oh, w.ow, r_stride, c, 4, &bytes))
      return refuse(kernel, "elements from one pixel of r to the next", r_stride, "at least the output channels");
    add(needs, bytes);
  }
  if (!image_bytes(w.n, w.oh, w.ow, y_stride, c, 4, &bytes))
    return refuse(kernel, "elements from one pixel of y to the next", y_stride, "at least the output channels");
  add(needs, bytes, true);
  return {};
}

// Weights, scratch and what follows them, of each algorithm of ConvF32.
Status add_planes(const ConvF32 &p, const Isa &isa, Needs &needs) {
  if (!writes_planes(p, isa.f32_lanes, isa.f32_panel) || p.r_stride != kPlanes)
    return refuse("ConvF32", "elements from one pixel of y to the next", p.y_stride, "at least the output channels");
  const ConvShape s = conv_shape(p, isa.f32_lanes, isa.f32_panel);
  std::uint64_t bytes;
  if (!float_bytes(s.taps, s.run, s.vectors, s.lanes, &bytes)) return too_large("ConvF32", "packed weights");
  add(needs, bytes);
  if (!float_bytes(conv_planes(p, isa.f32_lanes).floats, 1, 1, 1, &needs.scratch_bytes))
    return too_large("ConvF32", "scratch");
  return add_outputs("ConvF32", p.window, p.oc, s.vectors * s.lanes, p.has_bias, p.residual, p.oc, p.oc, needs);
}
Status add_winograd(const ConvF32 &p, const Isa &isa, Needs &needs) {
  if (!winograd_possible(p))
    return refuse("ConvF32", "algorithm", static_cast<std::int64_t>(p.algorithm),
                  "0 where the window is not 3x3 with steps of 1 and dilations up to 256");
  const WinogradShape s = winograd_shape(p, isa.f32_lanes, isa.f32_panel);
  // (Below 2^60: at most 36 * 2^24 groups.)
  std::uint64_t bytes, in, out;
  if (!float_bytes(s.points * p.groups, s.vectors, s.lanes, s.group_inputs, &bytes))
    return too_large("ConvF32", "packed weights");
  add(needs, bytes);
  if (!float_bytes(s.points, s.in_plane, 1, 1, &in) || !float_bytes(s.points, s.out_plane, 1, 1, &out))
    return too_large("ConvF32", "scratch");
  needs.scratch_bytes = static_cast<std::uint64_t>(s.in_step) * 4 + in + out;
  return add_outputs("ConvF32", p.window, p.oc, conv_ceil_div(p.oc, s.lanes) * s.lanes, p.has_bias, p.residual,
                     p.r_stride, p.y_stride, needs);
}
Status add_split(const ConvF32 &p, const Isa &isa, Needs &needs) {
  if (!isa.splits_f32 || !split_possible(p))
    return refuse("ConvF32", "algorithm", 2,
                  "0 or 1 where the product is not of whole pixels, or the instruction set not amx");
  // Channels are less than 2^25: below 2^60.
  const SplitShape s = split_shape(p);
  std::uint64_t bytes;
  if (!float_bytes(s.pairs, s.pair_bytes / 4, 1, 1, &bytes)) return too_large("ConvF32", "packed weights");
  add(needs, bytes);
  if (!float_bytes(s.scratch / 4, 1, 1, 1, &needs.scratch_bytes)) return too_large("ConvF32", "scratch");
  return add_outputs("ConvF32", p.window, p.oc, s.pairs * kSplitColumns, p.has_bias, p.residual, p.r_stride, p.y_stride,
                     needs);
}
Status add_groups(const ConvF32 &p, const Isa &isa, Needs &needs) {
  if (!groups_possible(p, isa.f32_lanes))
    return refuse("ConvF32", "algorithm", static_cast<std::int64_t>(p.algorithm),
                  "0 where groups have not 2, 4, 8 or 16 channels, as many outputs as inputs, that a vector holds");
  const std::int64_t vectors = conv_ceil_div(p.ic, isa.f32_lanes);
  std::uint64_t bytes;
  if (!float_bytes(vectors * isa.f32_lanes, p.ic / p.groups, p.window.kh, p.window.kw, &bytes))
    return too_large("ConvF32", "packed weights");
  add(needs, bytes);
  return add_outputs("ConvF32", p.window, p.oc, vectors * isa.f32_lanes, p.has_bias, p.residual, p.r_stride, p.y_stride,
                     needs);
}
Status add_direct(const ConvF32 &p, const Isa &isa, bool planes, Needs &needs) {
  const ConvShape s = conv_shape(p, isa.f32_lanes, isa.f32_panel);
  std::uint64_t bytes, group_bytes;
  if (!float_bytes(s.taps, s.run, s.vectors, s.lanes, &group_bytes) ||
      !float_bytes(p.groups, s.taps * s.run, s.vectors, s.lanes, &bytes))
    return too_large("ConvF32", "packed weights");
  add(needs, p.weights == WeightType::F32 ? bytes : (bytes / 2 + 63) / 64 * 64);
  std::uint64_t extra, widened;
  if (!float_bytes(s.extra_floats, 1, 1, 1, &extra) || !float_bytes(s.panel_floats, 1, 1, 1, &widened))
    return too_large("ConvF32", "scratch");
  needs.scratch_bytes = static_cast<std::uint64_t>(s.table_bytes) + extra + widened;
  if (planes && turns_planes(p, isa.f32_lanes, isa.f32_panel) &&
      !float_bytes(conv_planes(p, isa.f32_lanes).floats + conv_ceil_div(std::int64_t{p.oc} * p.window.ow, 16) * 16, 1,
                   1, 1, &needs.scratch_bytes))
    return too_large("ConvF32", "scratch");
  return add_outputs("ConvF32", p.window, p.oc, std::int64_t{p.oc} - s.group_outputs + s.vectors * s.lanes, p.has_bias,
                     p.residual, p.r_stride, p.y_stride, needs);
}

}  // namespace

Status check_ConvF32(const void *params, const Isa &isa, Needs &needs) {
  const auto &p = *static_cast<const ConvF32 *>(params);
  const Window &w = p.window;
  if (Status status = check_window("ConvF32", w); !status.ok()) return status;
  if (p.ic < 1 || p.ic > kMostChannels) return refuse("ConvF32", "input channels", p.ic, "1 to 2^24");
  if (p.oc < 1 || p.oc > kMostChannels) return refuse("ConvF32", "output channels", p.oc, "1 to 2^24");
  if (p.groups < 1 || p.ic % p.groups != 0 || p.oc % p.groups != 0)
    return refuse("ConvF32", "groups", p.groups, "a divisor of input and output channels");
  if (p.algorithm >= ConvAlgorithm::Count)
    return refuse("ConvF32", "algorithm", static_cast<std::int64_t>(p.algorithm), "0 to 4");
  if (p.weights >= WeightType::Count || (p.weights != WeightType::F32 && p.algorithm != ConvAlgorithm::Direct))
    return refuse("ConvF32", "type of the weights", static_cast<std::int64_t>(p.weights),
                  "0 to 2, and 0 for all algorithms but the direct one");
  if (!valid(p.act)) return refuse("ConvF32", "activation", static_cast<std::int64_t>(p.act.kind), "a known one");
  std::uint64_t bytes, y_bytes;
  const bool planes = p.x_stride == kPlanes && reads_planes(p) && p.algorithm == ConvAlgorithm::Direct,
             planes_out = planes && p.y_stride == kPlanes;
  if (!image_bytes(w.n, w.ih, w.iw, planes ? p.ic : p.x_stride, p.ic, 4, &bytes))
    return refuse("ConvF32", "elements from one pixel of x to the next", p.x_stride, "at least the input channels");
  if (!planes_out && !image_bytes(w.n, w.oh, w.ow, p.y_stride, p.oc, 4, &y_bytes))
    return refuse("ConvF32", "elements from one pixel of y to the next", p.y_stride, "at least the output channels");
  add(needs, bytes);
  if (planes_out) return add_planes(p, isa, needs);
  if (is_winograd(p.algorithm)) return add_winograd(p, isa, needs);
  if (p.algorithm == ConvAlgorithm::Split) return add_split(p, isa, needs);
  if (p.algorithm == ConvAlgorithm::Groups) return add_groups(p, isa, needs);
  return add_direct(p, isa, planes, needs);
}

Status check_DepthwiseF32(const void *params, const Isa &isa, Needs &needs) {
  const auto &p = *static_cast<const DepthwiseF32 *>(params);
  const Window &w = p.window;
  if (Status status = check_window("DepthwiseF32", w); !status.ok()) return status;
  if (p.c < 1 || p.c > kMostChannels) return refuse("DepthwiseF32", "channels", p.c, "1 to 2^24");
  if (!valid(p.act)) return refuse("DepthwiseF32", "activation", static_cast<std::int64_t>(p.act.kind), "a known one");
  std::uint64_t bytes;
  const bool planes = p.x_stride == kPlanes && depthwise_in_planes(p);
  if (planes) {
    if (p.y_stride != kPlanes || p.r_stride != kPlanes)
      return refuse("DepthwiseF32", "elements from one pixel of y to the next", p.y_stride, "planes, as x");
    if (!float_bytes(depthwise_planes(p, isa.f32_lanes).floats, 1, 1, 1, &needs.scratch_bytes))
      return too_large("DepthwiseF32", "scratch");
  } else if (p.residual != Residual::None) {  // two rows
    if (!float_bytes(2, w.ow, p.y_stride, 1, &needs.scratch_bytes)) return too_large("DepthwiseF32", "scratch");
  }
  if (!image_bytes(w.n, w.ih, w.iw, planes ? p.c : p.x_stride, p.c, 4, &bytes))
    return refuse("DepthwiseF32", "elements from one pixel of x to the next", p.x_stride, "at least the channels");
  add(needs, bytes);
  const std::int64_t padded = (std::int64_t{p.c} + isa.f32_lanes - 1) / isa.f32_lanes * isa.f32_lanes;
  add(needs,
      static_cast<std::uint64_t>(padded) * static_cast<std::uint64_t>(std::int64_t{w.kh} * w.kw) * 4);  // below 2^43
  return add_outputs("DepthwiseF32", w, p.c, padded, p.has_bias, p.residual, planes ? p.c : p.r_stride,
                     planes ? p.c : p.y_stride, needs);
}

Status check_PackF32(const void *params, const Isa &isa, Needs &needs) {
  const auto &p = *static_cast<const PackF32 *>(params);
  const ConvF32 &c = p.conv;
  if (p.kind >= PackKind::Count) return refuse("PackF32", "kind", static_cast<std::int64_t>(p.kind), "0 or 1");
  if (p.lanes != isa.f32_lanes || p.panel != isa.f32_panel)
    return refuse("PackF32", "elements of a vector", p.lanes, "those of the instruction set, and its panel");
  // What the step behind needs of its weights.
  Needs behind;
  if (p.kind == PackKind::Depthwise) {
    if (c.ic != c.oc || c.groups != c.oc) return refuse("PackF32", "groups", c.groups, "as many as channels");
    DepthwiseF32 d;
    d.window = c.window, d.c = d.x_stride = d.y_stride = d.r_stride = c.oc;
    QR_RETURN_IF_ERROR(check_DepthwiseF32(&d, isa, behind));
  } else {
    QR_RETURN_IF_ERROR(check_ConvF32(&c, isa, behind));
    if (c.weights != WeightType::F32 || (c.algorithm != ConvAlgorithm::Direct && c.algorithm != ConvAlgorithm::Groups))
      return refuse("PackF32", "algorithm", static_cast<std::int64_t>(c.algorithm), "0 or 4, of weights of f32");
  }
  const std::int64_t dims[] = {c.oc, c.ic / c.groups, c.window.kh, c.window.kw};
  std::int64_t distances[4];
  for (int i = 0; i < 4; ++i) {
    if (p.strides[i] < -kMostElements) return refuse("PackF32", "stride", p.strides[i], "at most 2^48 elements");
    distances[i] = p.strides[i] < 0 ? -p.strides[i] : p.strides[i];
  }
  std::uint64_t extent;
  if (!nest_extent(dims, distances, 4, &extent))
    return refuse("PackF32", "stride", p.strides[0], "weights within 2^48 elements");
  add(needs, extent * 4), add(needs, behind.operand_bytes[1], true);
  return {};
}

Status check_BlockF32(const void *params, const Isa &isa, Needs &needs) {
  const auto &p = *static_cast<const BlockF32 *>(params);
  const Window &e = p.expand.window, &d = p.depthwise.window, &o = p.project.window;
  Needs expand, depthwise, project;
  QR_RETURN_IF_ERROR(check_ConvF32(&p.expand, isa, expand));
  QR_RETURN_IF_ERROR(check_DepthwiseF32(&p.depthwise, isa, depthwise));
  QR_RETURN_IF_ERROR(check_ConvF32(&p.project, isa, project));
  if (!conv_shape(p.expand, isa.f32_lanes, isa.f32_panel).dense || p.expand.algorithm != ConvAlgorithm::Direct ||
      p.expand.groups != 1)
    return refuse("BlockF32", "taps of the first convolution", e.kh * e.kw, "1, with steps of 1");
  if (!conv_shape(p.project, isa.f32_lanes, isa.f32_panel).dense || p.project.algorithm != ConvAlgorithm::Direct ||
      p.project.groups != 1)
    return refuse("BlockF32", "taps of the last convolution", o.kh * o.kw, "1, with steps of 1");
  if (e.n != d.n || e.oh != d.ih || e.ow != d.iw || d.n != o.n || d.oh != o.ih || d.ow != o.iw)
    return refuse("BlockF32", "rows between the convolutions", d.ih, "those of the one before");
  const std::int32_t c = p.expand.oc;
  if (p.depthwise.c != c || p.project.ic != c || p.expand.y_stride != c || p.depthwise.x_stride != c ||
      p.depthwise.y_stride != c || p.project.x_stride != c)
    return refuse("BlockF32", "channels between the convolutions", p.depthwise.c, "those of the one before");
  if (p.expand.residual != Residual::None || p.depthwise.residual != Residual::None)
    return refuse("BlockF32", "residual", 1, "one of the last convolution only");
  if (d.dh != 1) return refuse("BlockF32", "row dilation", d.dh, "1");
  // All but what lies between them.
  for (std::size_t i = 0; i + 1 < expand.operand_count; ++i) add(needs, expand.operand_bytes[i]);
  for (std::size_t i = 1; i + 1 < depthwise.operand_count; ++i) add(needs, depthwise.operand_bytes[i]);
  for (std::size_t i = 1; i < project.operand_count; ++i) add(needs, project.operand_bytes[i], project.written[i]);
  const BlockShape s = block_shape(p);
  std::uint64_t before, after;
  if (!float_bytes(s.rows_in, e.ow, c, 1, &before) || !float_bytes(s.rows, d.ow, c, 1, &after))
    return too_large("BlockF32", "rows between the convolutions");
  needs.scratch_bytes = kBlockRowsBytes + before + after +
                        (expand.scratch_bytes > project.scratch_bytes ? expand.scratch_bytes : project.scratch_bytes);
  return {};
}

namespace {

// Dimensions and strides of batched matrix multiplications, elements of `width` bytes; bytes: of a, b and y.
template <class P>
Status check_gemm(const char *kernel, const P &p, std::uint64_t width, std::uint64_t (&bytes)[3]) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (p.m < 0 || p.m > kMost) return refuse(kernel, "rows", p.m, "0 to 2^31");
  if (p.n < 0 || p.n > kMost) return refuse(kernel, "columns", p.n, "0 to 2^31");
  if (p.k < 0 || p.k > kMost) return refuse(kernel, "length of the sums", p.k, "0 to 2^31");
  if (p.m > 1 && p.y_row < p.n)
    return refuse(kernel, "elements from one row of y to the next", p.y_row, "at least the columns");
  std::int64_t dims[kBatchRank + 2], a[kBatchRank + 2], b[kBatchRank + 2], y[kBatchRank + 2];
  std::int64_t batches = 1;
  for (int i = 0; i < kBatchRank; ++i) {
    dims[i] = p.batch[i], a[i] = p.a_batch[i], b[i] = p.b_batch[i], y[i] = p.y_batch[i];
    if (dims[i] < 0 || !checked_mul(batches, dims[i], &batches) || batches > std::int64_t{1} << 40)
      return refuse(kernel, "matrices", dims[i], "0 to 2^40 in all");
    if (dims[i] > 1 && y[i] == 0) return refuse(kernel, "elements from one matrix of y to the next", 0, "at least 1");
  }
  const auto matrix = [&](std::int64_t *strides, std::int64_t rows, std::int64_t columns, std::int64_t row_step,
                          std::int64_t column_step, std::uint64_t *to) {
    dims[kBatchRank] = rows, dims[kBatchRank + 1] = columns;
    strides[kBatchRank] = row_step, strides[kBatchRank + 1] = column_step;
    std::uint64_t elements;
    if (!nest_extent(dims, strides, kBatchRank + 2, &elements)) return false;
    *to = elements * width;
    return true;
  };
  if (!matrix(a, p.m, p.k, p.a_row, p.a_col, &bytes[0])) return too_large(kernel, "a");
  if (!matrix(b, p.k, p.n, p.b_row, p.b_col, &bytes[1])) return too_large(kernel, "b");
  if (!matrix(y, p.m, p.n, p.y_row, 1, &bytes[2])) return too_large(kernel, "y");
  return {};
}

}  // namespace

Status check_MatMulF32(const void *params, const Isa &isa, Needs &needs) {
  const auto &p = *static_cast<const MatMulF32 *>(params);
  if (!valid(p.act)) return refuse("MatMulF32", "activation", static_cast<std::int64_t>(p.act.kind), "a known one");
  if (p.has_bias > kBiasPerRow) return refuse("MatMulF32", "has_bias", p.has_bias, "0 to 2");
  if (p.residual >= Residual::Count)
    return refuse("MatMulF32", "residual", static_cast<std::int64_t>(p.residual), "0 to 2");
  std::uint64_t bytes[3] = {};
  QR_RETURN_IF_ERROR(check_gemm("MatMulF32", p, 4, bytes));
  add(needs, bytes[0]);
  add(needs, bytes[1]);
  if (p.has_bias) add(needs, bytes[2] > 0 ? static_cast<std::uint64_t>(p.has_bias == kBiasPerRow ? p.m : p.n) * 4 : 0);
  if (p.residual != Residual::None) add(needs, bytes[2]);
  add(needs, bytes[2], true);
  const MatMulShape s = matmul_shape(p, isa.f32_lanes, isa.f32_panel);
  needs.scratch_bytes = static_cast<std::uint64_t>(s.panel_floats + s.bias_floats + s.a_floats) * 4;
  return {};
}

Status check_MatMulWide(const void *params, const Isa &isa, Needs &needs) {
  const auto &p = *static_cast<const MatMulWide *>(params);
  const auto dtype = static_cast<DType>(p.dtype);
  if (p.dtype > 255 ||
      (dtype != DType::F64 && dtype != DType::I32 && dtype != DType::U32 && dtype != DType::I64 && dtype != DType::U64))
    return refuse("MatMulWide", "dtype", p.dtype, "f64, i32, u32, i64 or u64");
  if (p.reserved != 0) return refuse("MatMulWide", "reserved field", p.reserved, "0");
  std::uint64_t bytes[3] = {};
  QR_RETURN_IF_ERROR(check_gemm("MatMulWide", p, dtype_bits(dtype) / 8, bytes));
  add(needs, bytes[0]), add(needs, bytes[1]), add(needs, bytes[2], true);
  needs.scratch_bytes = std::uint64_t{isa.f32_lanes} * 4 * 2 * kWideDepth;  // two vectors of columns
  return {};
}

Status check_MatMulInt(const void *params, const Isa &isa, Needs &needs) {
  const auto &p = *static_cast<const MatMulInt *>(params);
  for (const std::uint32_t dtype : {p.a_dtype, p.b_dtype})
    if (dtype != kU8 && dtype != kI8) return refuse("MatMulInt", "dtype", dtype, "u8 or i8");
  for (const ByteZeros zeros : {p.a_zeros, p.b_zeros})
    if (zeros >= ByteZeros::Count)
      return refuse("MatMulInt", "zero points", static_cast<std::int64_t>(zeros), "none, one or one each");
  std::uint64_t bytes[3] = {};
  QR_RETURN_IF_ERROR(check_gemm("MatMulInt", p, 1, bytes));
  add(needs, bytes[0]), add(needs, bytes[1]);
  if (p.a_zeros != ByteZeros::None) add(needs, static_cast<std::uint64_t>(p.a_zeros == ByteZeros::One ? 1 : p.m));
  if (p.b_zeros != ByteZeros::None) add(needs, static_cast<std::uint64_t>(p.b_zeros == ByteZeros::One ? 1 : p.n));
  add(needs, bytes[2] * 4, true);
  needs.scratch_bytes = static_cast<std::uint64_t>(
      matmul_int_scratch(matmul_int_shape(p, isa.f32_lanes, isa.f32_panel, isa.int_group, dot_takes(p.a_dtype))));
  return {};
}

Status check_DistanceF32(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const DistanceF32 *>(params);
  if (p.root > 1) return refuse("DistanceF32", "root", p.root, "0 or 1");
  if (p.reserved != 0) return refuse("DistanceF32", "reserved field", p.reserved, "0");
  const struct { std::int64_t rows, columns; } operands[] = {{p.m, p.k}, {p.n, p.k}, {p.m, p.n}};
  for (const auto &operand : operands) {
    std::uint64_t bytes;
    if (operand.rows < 1 || operand.columns < 1 ||
        !image_bytes(operand.rows, 1, 1, operand.columns, operand.columns, 4, &bytes))
      return refuse("DistanceF32", "elements of a row", operand.columns, "1 or more, within 2^48 of the matrix");
    add(needs, bytes, needs.operand_count == 2);
  }
  return {};
}

Status check_AttentionF32(const void *params, const Isa &isa, Needs &needs) {
  const auto &p = *static_cast<const AttentionF32 *>(params);
  constexpr std::int64_t kMost = 1 << 30;
  const struct {
    const char *what;
    std::int64_t value;
  } extents[] = {{"batches", p.batches},         {"heads", p.heads},
                 {"rows of queries", p.q_rows},  {"rows of keys", p.kv_rows},
                 {"columns of keys", p.qk_cols}, {"columns of values", p.v_cols}};
  for (const auto &extent : extents)
    if (extent.value < 1 || extent.value > kMost) return refuse("AttentionF32", extent.what, extent.value, "1 to 2^30");
  if (p.has_mask > 1) return refuse("AttentionF32", "has_mask", p.has_mask, "0 or 1");
  if (p.has_valid > 1) return refuse("AttentionF32", "has_valid", p.has_valid, "0 or 1");
  if (p.kept >= KeptType::Count)
    return refuse("AttentionF32", "type of keys and values", static_cast<std::int64_t>(p.kept),
                  "f32, f16, bf16 or rows of bytes");
  if (p.group < 1 || p.heads % p.group != 0)
    return refuse("AttentionF32", "heads of a group", p.group, "1 or more, which divide all heads");
  for (const std::int64_t limit : {p.left, p.right})
    if (limit < -1 || limit > kMost) return refuse("AttentionF32", "columns that a row sees", limit, "-1 to 2^30");
  if (p.first < -kMost || p.first > kMost) return refuse("AttentionF32", "first", p.first, "-2^30 to 2^30");
  if (p.masked_nan > 1) return refuse("AttentionF32", "masked_nan", p.masked_nan, "0 or 1");
  if (p.q_rows > 1 && p.y[2] < p.v_cols)
    return refuse("AttentionF32", "elements from one row of y to the next", p.y[2], "at least the columns of values");
  const auto extent = [&](const std::int64_t strides[3], std::int64_t rows, std::int64_t columns,
                          std::int64_t column_step, std::uint64_t *bytes, std::int64_t group = 1,
                          std::uint64_t width = 4) {
    const std::int64_t dims[4] = {p.batches, p.heads / group, rows, columns},
                       steps[4] = {strides[0], strides[1], strides[2], column_step};
    std::uint64_t elements;
    if (!nest_extent(dims, steps, 4, &elements)) return false;
    *bytes = elements * width;
    return true;
  };
  const bool of_rows = p.kept == KeptType::Rows;
  const std::uint64_t width = p.kept == KeptType::F32 ? 4 : of_rows ? 1 : 2;
  std::uint64_t q, k, v, y, mask = 0, k_scales = 0, v_scales = 0;
  if (!extent(p.q, p.q_rows, p.qk_cols, 1, &q)) return too_large("AttentionF32", "q");
  if (!extent(p.k, p.kv_rows, p.qk_cols, 1, &k, p.group, width)) return too_large("AttentionF32", "k");
  if (!extent(p.v, p.kv_rows, p.v_cols, 1, &v, p.group, width)) return too_large("AttentionF32", "v");
  if (of_rows && !extent(p.k_scales, p.kv_rows, 1, 1, &k_scales, p.group))
    return too_large("AttentionF32", "numbers of k's rows");
  if (of_rows && !extent(p.v_scales, p.kv_rows, 1, 1, &v_scales, p.group))
    return too_large("AttentionF32", "numbers of v's rows");
  if (!extent(p.y, p.q_rows, p.v_cols, 1, &y)) return too_large("AttentionF32", "y");
  if (p.has_mask && !extent(p.mask, p.q_rows, p.kv_rows, p.mask[3], &mask)) return too_large("AttentionF32", "mask");
  add(needs, q);
  add(needs, k);
  add(needs, v);
  if (p.has_mask) add(needs, mask);
  if (p.has_valid) add(needs, static_cast<std::uint64_t>(p.batches) * 8);
  if (of_rows) add(needs, k_scales), add(needs, v_scales);
  add(needs, y, true);
  const AttentionShape s =
      attention_shape(p, isa.f32_lanes, isa.f32_panel);  // a block is small, or as narrow as a panel
  needs.scratch_bytes =
      static_cast<std::uint64_t>(s.k_floats + s.v_floats + s.s_floats + 2 * s.row_floats + s.wide_floats) * 4;
  needs.scratch_bytes = (needs.scratch_bytes + 63) / 64 * 64;
  return {};
}

}  // namespace quarry::kernels
