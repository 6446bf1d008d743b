// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/kernels/bounds.h"

#include <algorithm>

#include "backends/gpu/kernels/params.h"

namespace quarry::gpu {

namespace {

constexpr std::int64_t kGroup = 64;  // work items of a group, where none needs another

// `count` items along the first dimension, rounded up to groups.
void items(Bounds &out, std::int64_t count, std::int64_t y = 1, std::int64_t z = 1) {
  std::int64_t group = kGroup;
  while (group > 1 && group / 2 >= count) group /= 2;
  out.local[0] = static_cast<std::uint64_t>(group);
  out.global[0] = static_cast<std::uint64_t>((count + group - 1) / group * group);
  out.global[1] = static_cast<std::uint64_t>(y);
  out.global[2] = static_cast<std::uint64_t>(z);
}

// A row by each item, or by a group of LANES.
Status rows_by_items(const Form &form, Bounds &out, std::int64_t lanes, std::int64_t count) {
  if (lanes != 1 && lanes != kGroup) return bad_form(form, "a group that is none");
  items(out, count);
  if (lanes > 1) out.local[0] = kGroup, out.global[0] = static_cast<std::uint64_t>(count * kGroup);
  return {};
}

std::int64_t count_of(const Form &form, std::uint32_t first, std::uint32_t end) {
  std::int64_t count = 1;
  for (std::uint32_t d = first; d < end; ++d) count *= form.nest.dims[d];
  return count;
}

// Counts and distances that coordinates are computed with.
bool is_small(std::int64_t count) { return count >= 1 && count <= (1 << 28); }

// Along an axis that the kernel walks by itself.
Status touch_row(const Form &form, Bounds &out, std::size_t operand, std::int64_t count, std::int64_t step) {
  if (count < 1) return bad_form(form, "a dimension that is none");
  add_distance(out.ranges[operand], count, step);
  return {};
}

}  // namespace

// What windows of an image may touch: the kernel leaves out positions outside it.
Status window_bounds(const Form &form, Bounds &out, const WindowParams &w) {
  for (const auto &list : {w.IN, w.OUT, w.KERNEL, w.STRIDE, w.DILATION})
    if (!std::all_of(list, list + 3, is_small)) return bad_form(form, "a window that is none");
  if (w.OUT[0] * w.OUT[1] > INT32_MAX || w.OUT[0] * w.OUT[1] * w.OUT[2] != form.nest.dims[form.nest.rank - 1])
    return bad_form(form, "a window that is none");
  for (std::size_t i = 0; i < 3; ++i) {
    add_distance(out.ranges[0], w.IN[i], w.X[i]);
    // Coordinates stay far below 2^31.
    if (w.PAD[i] < -(1 << 28) || w.PAD[i] > (1 << 28) ||
        w.KERNEL[i] * w.DILATION[i] + w.OUT[i] * w.STRIDE[i] > (1 << 29))
      return bad_form(form, "a window that is none");
  }
  return {};
}

Status bounds_elementwise(const Form &form, Bounds &out) {
  items(out, count_of(form, 0, form.nest.rank));
  return nest_bounds(form, out);
}

Status bounds_matmul(const Form &form, Bounds &out) {
  const auto f = read_params<MatMulParams>(form);
  const std::uint32_t rank = form.nest.rank;
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.K, f.A_K));
  QR_RETURN_IF_ERROR(touch_row(form, out, 1, f.K, f.B_K));
  items(out, form.nest.dims[rank - 1], (form.nest.dims[rank - 2] + kTile - 1) / kTile, count_of(form, 0, rank - 2));
  return {};
}

Status bounds_conv(const Form &form, Bounds &out) {
  const auto f = read_params<ConvParams>(form);
  const std::uint32_t rank = form.nest.rank;
  QR_RETURN_IF_ERROR(window_bounds(form, out, f.window));
  // The nest says where batch and group begin; what the kernel finds by channel and pixel comes on top.
  const std::int64_t tile = f.TILE, channels = form.nest.dims[rank - 2];
  if (tile < 1 || tile > kTile) return bad_form(form, "a tile that is none");
  const std::int64_t blocks = (channels + tile - 1) / tile;
  for (std::size_t o = 0; o < form.operands.size(); ++o)
    for (std::uint32_t d = 0; d < rank; ++d)
      if (o > 1 || d + 2 < rank) add_distance(out.ranges[o], form.nest.dims[d], form.nest.strides[o][d]);
  QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.CHANNELS, f.X_CHANNEL));
  const std::int64_t taps = f.window.KERNEL[0] * f.window.KERNEL[1] * f.window.KERNEL[2];
  if (taps > INT32_MAX || f.CHANNELS > INT32_MAX / taps) return bad_form(form, "a window that is none");
  add_distance(out.ranges[1], f.CHANNELS * taps * (f.PACKED ? blocks * tile : channels), 1);
  items(out, form.nest.dims[rank - 1], blocks, count_of(form, 0, rank - 2));
  return {};
}

// Zero points and products of 16 bits; the dimensions keep sums in the integers that WIDE says, or they wrap around.
Status bounds_conv_integer(const Form &form, Bounds &out) {
  const auto f = read_params<ConvIntegerParams>(form);
  const std::uint32_t rank = form.nest.rank;
  if (rank < 2) return bad_form(form, "too few coordinates");
  QR_RETURN_IF_ERROR(window_bounds(form, out, f.window));
  const std::int64_t blocks = (form.nest.dims[rank - 2] + kTile - 1) / kTile;
  for (std::size_t o = 0; o < form.operands.size(); ++o)
    for (std::uint32_t d = 0; d < rank; ++d)
      if (o > 1 || d + 2 < rank) add_distance(out.ranges[o], form.nest.dims[d], form.nest.strides[o][d]);
  QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.CHANNELS, f.X_CHANNEL));
  std::int64_t taps = f.window.KERNEL[0] * f.window.KERNEL[1];
  if (taps > INT32_MAX || (taps *= f.window.KERNEL[2]) > INT32_MAX || f.CHANNELS > INT32_MAX / taps)
    return bad_form(form, "a window that is none");
  add_distance(out.ranges[1], f.CHANNELS * taps * blocks * kTile, 1);
  items(out, form.nest.dims[rank - 1], blocks, count_of(form, 0, rank - 2));
  return {};
}

Status bounds_matmul_integer(const Form &form, Bounds &out) {
  const auto f = read_params<MatMulIntegerParams>(form);
  const std::uint32_t rank = form.nest.rank;
  if (rank < 2) return bad_form(form, "too few coordinates");
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.K, f.A_K));
  QR_RETURN_IF_ERROR(touch_row(form, out, 1, f.K, f.B_K));
  items(out, form.nest.dims[rank - 1], (form.nest.dims[rank - 2] + kTile - 1) / kTile, count_of(form, 0, rank - 2));
  return {};
}

namespace {

template <class Params>
Status transpose_bounds(const Form &form, Bounds &out) {
  const auto f = read_params<Params>(form);
  const std::uint32_t rank = form.nest.rank;
  QR_RETURN_IF_ERROR(window_bounds(form, out, f.window));
  for (std::size_t o = 0; o < form.operands.size(); ++o)
    for (std::uint32_t d = 0; d < rank; ++d)
      if (o > 1 || d + 2 < rank) add_distance(out.ranges[o], form.nest.dims[d], form.nest.strides[o][d]);
  QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.CHANNELS, f.X_CHANNEL));
  QR_RETURN_IF_ERROR(touch_row(form, out, 1, f.CHANNELS, f.W_CHANNEL));
  QR_RETURN_IF_ERROR(touch_row(form, out, 1, form.nest.dims[rank - 2], f.W_OUT));
  const std::int64_t taps = f.window.KERNEL[0] * f.window.KERNEL[1];
  if (taps > INT32_MAX || taps * f.window.KERNEL[2] > INT32_MAX) return bad_form(form, "a window that is none");
  add_distance(out.ranges[1], taps * f.window.KERNEL[2], 1);
  items(out, form.nest.dims[rank - 1], form.nest.dims[rank - 2], count_of(form, 0, rank - 2));
  return {};
}

}  // namespace

Status bounds_conv_transpose(const Form &form, Bounds &out) {
  return form.kernel == Kernel::ConvTranspose ? transpose_bounds<ConvTransposeParams>(form, out)
                                              : transpose_bounds<ConvTransposeIntegerParams>(form, out);
}

Status bounds_pool(const Form &form, Bounds &out) {
  const auto f = read_params<PoolParams>(form);
  if (!is_one_of<Pooling>(f.HOW)) return bad_form(form, "a pool that is not known");
  const std::uint32_t rank = form.nest.rank;
  QR_RETURN_IF_ERROR(window_bounds(form, out, f.window));
  for (std::size_t o = 0; o < form.operands.size(); ++o)
    for (std::uint32_t d = 0; d < rank; ++d)
      if (o > 0 || d + 1 < rank) add_distance(out.ranges[o], form.nest.dims[d], form.nest.strides[o][d]);
  items(out, form.nest.dims[rank - 1], count_of(form, 0, rank - 1));
  return {};
}

Status bounds_reduce(const Form &form, Bounds &out) {
  const auto f = read_params<ReduceParams>(form);
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  for (std::size_t i = 0; i < 4; ++i) QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.EXTENT[i], f.STEP[i]));
  std::int64_t total = 1;
  for (std::size_t i = 0; i < 4; ++i)
    if (__builtin_mul_overflow(total, f.EXTENT[i], &total) || total > INT32_MAX)
      return bad_form(form, "a dimension that is none");
  if (!is_one_of<Reduction>(f.HOW)) return bad_form(form, "a reduction that is not known");
  if (f.HOW == field_of(Reduction::LogSumExp) && f.LANES != 1) return bad_form(form, "a group that is none");
  return rows_by_items(form, out, f.LANES, count_of(form, 0, form.nest.rank));
}

Status bounds_arg_reduce(const Form &form, Bounds &out) {
  const auto f = read_params<ArgReduceParams>(form);
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.EXTENT, f.STEP));
  items(out, count_of(form, 0, form.nest.rank));
  return {};
}

Status bounds_distance(const Form &form, Bounds &out) {
  const auto f = read_params<DistanceParams>(form);
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.K, f.A_K));
  QR_RETURN_IF_ERROR(touch_row(form, out, 1, f.K, f.B_K));
  items(out, count_of(form, 0, form.nest.rank));
  return {};
}

Status bounds_softmax(const Form &form, Bounds &out) {
  const auto f = read_params<SoftmaxParams>(form);
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.LENGTH, f.X_STEP));
  QR_RETURN_IF_ERROR(touch_row(form, out, 1, f.LENGTH, f.Y_STEP));
  return rows_by_items(form, out, f.LANES, count_of(form, 0, form.nest.rank));
}

Status bounds_normalize(const Form &form, Bounds &out) {
  const auto f = read_params<NormalizeParams>(form);
  if (!is_one_of<Normalization>(f.HOW)) return bad_form(form, "a normalisation that is not known");
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  if (f.PIECE < 1 || f.LENGTH < 1) return bad_form(form, "a dimension that is none");
  QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.LENGTH, 1));
  QR_RETURN_IF_ERROR(touch_row(form, out, 1, (f.LENGTH + f.PIECE - 1) / f.PIECE, f.SCALE_STEP));
  QR_RETURN_IF_ERROR(touch_row(form, out, 2, (f.LENGTH + f.PIECE - 1) / f.PIECE, f.BIAS_STEP));
  QR_RETURN_IF_ERROR(touch_row(form, out, 3, f.LENGTH, 1));
  return rows_by_items(form, out, f.LANES, count_of(form, 0, form.nest.rank));
}

Status bounds_gather(const Form &form, Bounds &out) {
  const auto f = read_params<GatherParams>(form);
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.EXTENT, f.STEP));  // the kernel keeps indices inside
  items(out, count_of(form, 0, form.nest.rank));
  return {};
}

Status bounds_gather_nd(const Form &form, Bounds &out) {
  const auto f = read_params<GatherNDParams>(form);
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  if (f.COUNT_OF < 1 || f.COUNT_OF > 8) return bad_form(form, "a number of axes");
  QR_RETURN_IF_ERROR(touch_row(form, out, 1, f.COUNT_OF, f.I_STEP));
  for (std::size_t i = 0; i < 8; ++i) QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.EXTENT[i], f.STEP[i]));
  items(out, count_of(form, 0, form.nest.rank));
  return {};
}

Status bounds_scatter(const Form &form, Bounds &out) {
  const auto f = read_params<ScatterParams>(form);
  if (!is_one_of<Scattering>(f.HOW)) return bad_form(form, "a reduction that is not known");
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  if (f.COUNT_OF < 1 || f.COUNT_OF > 8 || f.AXIS < 0 || f.AXIS + f.COUNT_OF > form.nest.rank)
    return bad_form(form, "a number of axes");
  for (std::int64_t d = 0; d < f.COUNT_OF; ++d)
    if (f.EXTENT[index_of(d)] != form.nest.dims[f.AXIS + d])
      return bad_form(form, "dimensions that are not those of the nest");
  QR_RETURN_IF_ERROR(touch_row(form, out, 1, f.UPDATES, f.I_STEP));
  QR_RETURN_IF_ERROR(touch_row(form, out, 1, f.COUNT_OF, f.TUPLE_STEP));
  QR_RETURN_IF_ERROR(touch_row(form, out, 2, f.UPDATES, f.U_STEP));
  items(out, count_of(form, 0, form.nest.rank));
  return {};
}

Status bounds_scatter_winner(const Form &form, Bounds &out) {
  const auto f = read_params<ScatterWinnerParams>(form);
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  if (f.COUNT_OF < 1 || f.COUNT_OF > 8 || f.AXIS < 0 || f.AXIS >= form.nest.rank)
    return bad_form(form, "a number of axes");
  if (form.operands.size() != 2 || form.operands[1].dtype != DType::I32 || !form.code.empty())
    return bad_form(form, "winners that are not i32");
  QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.COUNT_OF, f.TUPLE_STEP));
  for (std::size_t i = 0; i < 8; ++i) QR_RETURN_IF_ERROR(touch_row(form, out, 1, f.EXTENT[i], f.STEP[i]));
  items(out, count_of(form, 0, form.nest.rank));
  return {};
}

Status bounds_scatter_take(const Form &form, Bounds &out) {
  const auto f = read_params<ScatterTakeParams>(form);
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  if (form.operands[1].dtype != DType::I32) return bad_form(form, "winners that are not i32");
  QR_RETURN_IF_ERROR(touch_row(form, out, 2, f.UPDATES, f.U_STEP));  // the kernel looks at each winner
  items(out, count_of(form, 0, form.nest.rank));
  return {};
}

Status bounds_roi_align(const Form &form, Bounds &out) {
  const auto f = read_params<RoiAlignParams>(form);
  if (!is_one_of<RoiMode>(f.HOW)) return bad_form(form, "a mode that is not known");
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  if (form.nest.rank != 4 || f.RATIO < 0 || f.RATIO > 4096) return bad_form(form, "regions that are none");
  QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.IMAGES, f.X_IMAGE));
  for (std::size_t i = 0; i < 2; ++i) QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.IN[i], f.X[i]));
  QR_RETURN_IF_ERROR(touch_row(form, out, 1, 4, f.ROI_STEP));
  items(out, count_of(form, 0, 4));
  return {};
}

Status bounds_pad(const Form &form, Bounds &out) {
  const auto f = read_params<PadParams>(form);
  if (!is_one_of<Padding>(f.MODE)) return bad_form(form, "a mode that is not known");
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  out.ranges[0] = {};
  for (std::uint32_t d = 0; d < form.nest.rank; ++d) QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.IN[d], f.X[d]));
  items(out, count_of(form, 0, form.nest.rank));
  return {};
}

Status bounds_resize(const Form &form, Bounds &out) {
  const auto f = read_params<ResizeParams>(form);
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  for (std::size_t i = 0; i < 4; ++i) {
    QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.IN[i], f.STEP[i]));  // indices of the table are kept inside
    if (f.TAPS[i] < 1 || f.TAPS[i] > (1 << 16) || f.TABLE[i] < 0 || f.AXIS[i] < 0 || f.AXIS[i] >= form.nest.rank)
      return bad_form(form, "a table that is none");
    const std::int64_t end = f.TABLE[i] + f.TAPS[i] * form.nest.dims[f.AXIS[i]] - 1;
    out.ranges[1].high = std::max(out.ranges[1].high, end);
    out.ranges[2].high = std::max(out.ranges[2].high, end);
  }
  items(out, count_of(form, 0, form.nest.rank));
  return {};
}

Status bounds_lrn(const Form &form, Bounds &out) {
  const auto f = read_params<LrnParams>(form);
  if (form.nest.rank < 2 || form.nest.dims[1] != f.CHANNELS || f.SIZE < 1 || f.STEP != form.nest.strides[0][1])
    return bad_form(form, "channels that are not those of the nest");
  items(out, count_of(form, 0, form.nest.rank));
  return nest_bounds(form, out);
}

Status bounds_rank(const Form &form, Bounds &out) {
  const auto f = read_params<RankParams>(form);
  const std::uint32_t last = form.nest.rank - 1;
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  if (f.TOP < 1 || f.TOP > form.nest.dims[last] || form.nest.strides[0][last] != f.STEP)
    return bad_form(form, "a rank beyond the elements");
  QR_RETURN_IF_ERROR(touch_row(form, out, 1, f.TOP, f.Y_STEP));
  items(out, form.nest.dims[last], count_of(form, 0, last));
  return {};
}

Status bounds_grid_sample(const Form &form, Bounds &out) {
  const auto f = read_params<GridSampleParams>(form);
  if (!is_one_of<GridMode>(f.MODE) || !is_one_of<GridPadding>(f.PADDING))
    return bad_form(form, "a mode that is not known");
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  if (f.SPACE < 1 || f.SPACE > 3) return bad_form(form, "a number of axes");
  for (std::size_t i = 0; i < 3; ++i) QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.IN[i], f.X[i]));
  QR_RETURN_IF_ERROR(touch_row(form, out, 1, f.SPACE, f.GRID_STEP));
  items(out, count_of(form, 0, form.nest.rank));
  return {};
}

Status bounds_scan(const Form &form, Bounds &out) {
  const auto f = read_params<ScanParams>(form);
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  QR_RETURN_IF_ERROR(touch_row(form, out, 0, f.LENGTH, f.X_STEP));
  QR_RETURN_IF_ERROR(touch_row(form, out, 1, f.LENGTH, f.Y_STEP));
  items(out, count_of(form, 0, form.nest.rank));
  return {};
}

}  // namespace quarry::gpu
