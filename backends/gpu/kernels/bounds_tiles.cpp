// SPDX-License-Identifier: Apache-2.0
// Products in tiles: a work item has ROWS rows and a vector of COLS columns, a group GROUP_X * GROUP_Y work items.
#include "backends/gpu/kernels/bounds.h"
#include "backends/gpu/kernels/params.h"

namespace quarry::gpu {

namespace {

constexpr std::int64_t kMostLocal = 2048;  // elements, of at most 8 bytes

bool is_power(std::int64_t n, std::int64_t least, std::int64_t most) {
  return n >= least && n <= most && (n & (n - 1)) == 0;
}

Status reals(const Form &form) {
  return is_real(*number_of(form.operands[0].dtype)) && form.operands[0].dtype == form.operands[1].dtype
             ? Status()
             : bad_form(form, "operands that are no reals of one type");
}

// What a group brings into the 16 KB of local memory that every device has: so much of each step. And sums of f16.
Status nearby(const Form &form, std::int64_t local, std::int64_t float16_steps, std::int64_t of_a_step) {
  if (local != 0 && (!is_power(local, 4, 32) || of_a_step < 2 || of_a_step > kMostLocal / local))
    return bad_form(form, "a tile that is none");
  return float16_steps == 0 || (is_power(float16_steps, 4, 64) && form.operands[0].dtype == DType::F16)
             ? Status()
             : bad_form(form, "sums of 16 bits of what is not");
}

// Of integers of 8 bits; what is read as numbers of 32 bits lies as such do.
Status dots(const Form &form) {
  const DType first = form.operands[0].dtype;
  if ((first != DType::I8 && first != DType::U8) || form.operands[1].dtype != DType::I8)
    return bad_form(form, "operands that are no integers of 8 bits");
  bool aligned = form.operands[1].offset % 4 == 0;
  for (std::uint32_t d = 0; d < form.nest.rank; ++d) aligned &= form.nest.strides[1][d] % 4 == 0;
  return aligned ? Status() : bad_form(form, "weights that do not lie by fours");
}

Status tiles(const Form &form, const TileParams &f, Bounds &out, std::int64_t across, std::int64_t down) {
  if (!is_power(f.ROWS, 1, 16) || !is_power(f.COLS, 2, kPanel) || !is_power(f.GROUP_X, 1, kMostInGroup) ||
      !is_power(f.GROUP_Y, 1, kMostInGroup) || f.GROUP_X * f.GROUP_Y > kMostInGroup)
    return bad_form(form, "a tile that is none");
  const std::int64_t outer = form.nest.rank - 2;
  std::int64_t batch = 1;
  for (std::int64_t d = 0; d < outer; ++d) batch *= form.nest.dims[d];
  const auto rounded = [](std::int64_t count, std::int64_t group) { return (count + group - 1) / group * group; };
  out.local[0] = static_cast<std::uint64_t>(f.GROUP_X), out.local[1] = static_cast<std::uint64_t>(f.GROUP_Y);
  out.global[0] = static_cast<std::uint64_t>(rounded(across, f.GROUP_X));
  out.global[1] = static_cast<std::uint64_t>(rounded(down, f.GROUP_Y));
  out.global[2] = static_cast<std::uint64_t>(batch);
  return {};
}

// Operands that are read as images: each coordinate moves by whole rows, panels or texels. `steps`: of the sum;
// `product`: of a matrix multiplication, else null.
Status images(const Form &form, std::int64_t layouts, std::int64_t local, std::int64_t cols,
              const MatMulTileParams *product, Bounds &out, std::int64_t steps) {
  if (layouts == 0) return {};
  const bool is_matmul = product != nullptr;
  const DType dtype = form.operands[0].dtype;
  if ((layouts & ~(is_matmul ? kConstantImages | kRowImages : kPanelsOfRight)) != 0 || local != 0 ||
      (dtype != DType::F32 && dtype != DType::F16))
    return bad_form(form, "images of what can be none");
  for (std::size_t o = 0; o < 2; ++o) {
    const std::int64_t layout = layouts & images_of_operand(o);
    if (layout == 0) continue;
    const std::int64_t elements = out.ranges[o].high + 1;
    const std::int64_t unit = layout == kRowsOfLeft ? steps : layout == kPanelsOfRight ? steps * kPanel : 4;
    bool fits =
        (layout & (layout - 1)) == 0 && form.operands[o].offset == 0 && out.ranges[o].low == 0 && elements <= INT32_MAX;
    if (o == 0) fits = fits && product->A_K == 1 && (layout == kRowsOfLeft || steps % 4 == 0);
    else fits = fits && cols >= 4 && (!is_matmul || layout == kRightAsRows || product->PANEL == kPanel);
    std::uint32_t rank = form.nest.rank;
    if (o == 1 && is_matmul && product->PANEL == 0) {
      // Its columns lie side by side, and the last vector of them begins at a whole texel.
      fits = fits && product->B_K % 4 == 0 && form.nest.dims[rank - 1] % 4 == 0;
      --rank;
    }
    for (std::uint32_t d = 0; d < rank; ++d)
      fits = fits && (form.nest.dims[d] == 1 || form.nest.strides[o][d] % unit == 0);
    if (!fits) return bad_form(form, "images of what does not lie so");
    if (layout == kRowsOfLeft) out.images[o] = {(steps + 3) / 4, elements / steps};
    else if (layout == kPanelsOfRight) out.images[o] = {elements / unit * (kPanel / 4), steps};
    else out.images[o] = {kRowTexels, (elements + kRowTexels * 4 - 1) / (kRowTexels * 4)};
  }
  return {};
}

}  // namespace

Status bounds_matmul_tile(const Form &form, Bounds &out) {
  const auto f = read_params<MatMulTileParams>(form);
  const std::uint32_t rank = form.nest.rank;
  const std::int64_t rows = form.nest.dims[rank - 2], columns = form.nest.dims[rank - 1], cols = f.tile.COLS;
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  if (f.K < 1) return bad_form(form, "a dimension that is none");
  add_distance(out.ranges[0], f.K, f.A_K);
  if (f.PANEL == kPanel) {
    if (form.nest.strides[1][rank - 1] != 0 || f.B_K != kPanel) return bad_form(form, "panels that are none");
    add_distance(out.ranges[1], (columns + kPanel - 1) / kPanel * kPanel, f.K);
    add_distance(out.ranges[1], f.K, 1);
  } else {
    if (f.PANEL != 0 || form.nest.strides[1][rank - 1] != 1 || cols > columns)
      return bad_form(form, "columns that do not lie side by side");
    add_distance(out.ranges[1], f.K, f.B_K);
  }
  const std::int64_t tile_rows = f.tile.ROWS;
  if (cols < 1 || tile_rows < 1) return bad_form(form, "a tile that is none");
  QR_RETURN_IF_ERROR(reals(form));
  QR_RETURN_IF_ERROR(nearby(form, f.LOCAL, f.FLOAT16_STEPS, f.tile.GROUP_X * cols + f.tile.GROUP_Y * tile_rows));
  QR_RETURN_IF_ERROR(images(form, f.IMAGES, f.LOCAL, cols, &f, out, f.K));
  return tiles(form, f.tile, out, (columns + cols - 1) / cols, (rows + tile_rows - 1) / tile_rows);
}

namespace {

// A convolution whose weights are panels of 16 channels; `row`: what a panel has of each.
Status conv_panels(const Form &form, const TileParams &f, std::int64_t inputs, std::int64_t x_channel, Bounds &out,
                   std::int64_t row) {
  const std::uint32_t rank = form.nest.rank;
  for (std::size_t o = 0; o < form.operands.size(); ++o)
    for (std::uint32_t d = 0; d < rank; ++d)
      if (o > 1 || d + 2 < rank) add_distance(out.ranges[o], form.nest.dims[d], form.nest.strides[o][d]);
  for (std::size_t o = 0; o < 2; ++o)
    if (form.nest.strides[o][rank - 1] != 0 || form.nest.strides[o][rank - 2] != 0)
      return bad_form(form, "an operand that moves with the result");
  if (f.ROWS < 1 || f.COLS < 1) return bad_form(form, "a dimension that is none");
  add_distance(out.ranges[0], inputs, x_channel);
  const std::int64_t channels = form.nest.dims[rank - 2], pixels = form.nest.dims[rank - 1];
  add_distance(out.ranges[1], (channels + kPanel - 1) / kPanel * kPanel, row);
  add_distance(out.ranges[1], row, 1);
  return tiles(form, f, out, (pixels + f.ROWS - 1) / f.ROWS, (channels + f.COLS - 1) / f.COLS);
}

// Of a window, times channels of the input; far less than 2^40.
Status taps_of(const Form &form, const WindowParams &w, std::int64_t channels, std::int64_t &out) {
  out = w.KERNEL[0] * w.KERNEL[1];
  if (channels < 1 || out > INT32_MAX || (out *= w.KERNEL[2]) > INT32_MAX || channels > INT32_MAX / out)
    return bad_form(form, "a window that is none");
  return {};
}

}  // namespace

Status bounds_conv_tile(const Form &form, Bounds &out) {
  const auto f = read_params<ConvTileParams>(form);
  std::int64_t taps = 0;
  QR_RETURN_IF_ERROR(window_bounds(form, out, f.window));
  QR_RETURN_IF_ERROR(taps_of(form, f.window, f.CHANNELS, taps));
  QR_RETURN_IF_ERROR(reals(form));
  QR_RETURN_IF_ERROR(
      nearby(form, f.LOCAL, f.FLOAT16_STEPS, f.tile.GROUP_X * f.tile.ROWS + f.tile.GROUP_Y * f.tile.COLS));
  QR_RETURN_IF_ERROR(conv_panels(form, f.tile, f.CHANNELS, f.X_CHANNEL, out, f.CHANNELS * taps));
  return images(form, f.IMAGES, f.LOCAL, f.tile.COLS, nullptr, out, f.CHANNELS * taps);
}

Status bounds_conv_dot(const Form &form, Bounds &out) {
  const auto f = read_params<ConvDotParams>(form);
  std::int64_t taps = 0;
  QR_RETURN_IF_ERROR(window_bounds(form, out, f.window));
  QR_RETURN_IF_ERROR(taps_of(form, f.window, f.CHANNELS, taps));
  QR_RETURN_IF_ERROR(dots(form));
  return conv_panels(form, f.tile, f.CHANNELS, f.X_CHANNEL, out, ((f.CHANNELS + 3) / 4 * taps + 1) * 4);
}

Status bounds_matmul_dot(const Form &form, Bounds &out) {
  const auto f = read_params<MatMulDotParams>(form);
  const std::uint32_t rank = form.nest.rank;
  const std::int64_t rows = form.nest.dims[rank - 2], columns = form.nest.dims[rank - 1], k = f.K;
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  QR_RETURN_IF_ERROR(dots(form));
  if (k < 1 || f.tile.ROWS < 1 || f.tile.COLS < 1 || form.nest.strides[1][rank - 1] != 0 ||
      form.nest.strides[1][rank - 2] != 0)
    return bad_form(form, "a dimension that is none");
  add_distance(out.ranges[0], k, 1);
  const std::int64_t row = ((k + 3) / 4 + 1) * 4;
  add_distance(out.ranges[1], (columns + kPanel - 1) / kPanel * kPanel, row);
  add_distance(out.ranges[1], row, 1);
  return tiles(form, f.tile, out, (columns + f.tile.COLS - 1) / f.tile.COLS, (rows + f.tile.ROWS - 1) / f.tile.ROWS);
}

// Patches of the result's pixels: [numbers of a patch][panels of 16 patches][channels][16], as one row.
Status bounds_winograd_input(const Form &form, Bounds &out) {
  const auto f = read_params<WinogradInputParams>(form);
  if (form.nest.rank != 3) return bad_form(form, "a number of coordinates");
  QR_RETURN_IF_ERROR(window_bounds(form, out, f.window));
  const std::int64_t step = f.window.STRIDE[1], side = step + 2, batch = form.nest.dims[0],
                     channels = form.nest.dims[1];
  bool fits = (step == 2 || step == 4) && f.window.STRIDE[2] == step && f.window.IN[0] == 1 && f.window.OUT[0] == 1 &&
              f.window.KERNEL[1] == side && f.window.KERNEL[2] == side && form.nest.strides[0][2] == 0;
  for (std::size_t o = 0; o < 2; ++o)
    fits &= form.operands[o].dtype == DType::F32 || form.operands[o].dtype == DType::F64;
  for (std::uint32_t d = 0; d < 3; ++d) fits &= form.nest.strides[1][d] == 0;
  if (!fits) return bad_form(form, "patches that are none");
  add_distance(out.ranges[0], batch, form.nest.strides[0][0]);
  add_distance(out.ranges[0], channels, form.nest.strides[0][1]);
  const std::int64_t panels = (batch * form.nest.dims[2] + kPanel - 1) / kPanel;
  add_distance(out.ranges[1], panels * channels * kPanel, 1);
  add_distance(out.ranges[1], side * side, panels * channels * kPanel);
  out.local[0] = kPanel;
  out.global[0] = static_cast<std::uint64_t>(panels * kPanel), out.global[1] = static_cast<std::uint64_t>(channels);
  return {};
}

Status bounds_winograd_output(const Form &form, Bounds &out) {
  const auto f = read_params<WinogradOutputParams>(form);
  const std::uint32_t rank = form.nest.rank;
  if (rank != 4 || form.nest.dims[1] != 1) return bad_form(form, "a number of coordinates");
  const std::int64_t step = f.STEP, side = step + 2, batch = form.nest.dims[0], channels = form.nest.dims[2],
                     pixels = form.nest.dims[3];
  bool fits = (step == 2 || step == 4) && f.OUT[0] >= 1 && f.OUT[1] >= 1 && f.OUT[0] * f.OUT[1] == pixels;
  for (std::size_t i = 0; i < 2; ++i) fits = fits && f.PATCHES[i] == (f.OUT[i] + step - 1) / step;
  for (std::uint32_t d = 0; d < rank; ++d)
    fits &= form.nest.strides[0][d] == 0 && form.nest.strides[2][d] == 0 && (d == 0 || form.nest.strides[1][d] == 0);
  for (std::size_t i = 0; i < 2; ++i) fits = fits && f.IN[i] >= 1 && f.PAD[i] >= 0 && f.PAD[i] < 3;
  const std::int64_t inputs = f.CHANNELS;
  fits = fits && inputs >= 1 && inputs <= INT32_MAX / 9;
  for (std::size_t o = 0; o < 3; ++o) fits = fits && is_real(*number_of(form.operands[o].dtype));
  if (!fits) return bad_form(form, "patches that are none");
  QR_RETURN_IF_ERROR(nest_bounds(form, out));
  add_distance(out.ranges[1], inputs, f.X_CHANNEL);
  for (std::size_t i = 0; i < 2; ++i) add_distance(out.ranges[1], f.IN[i], f.X[i]);
  add_distance(out.ranges[2], side * side * channels * inputs, 1);
  const std::int64_t patches = f.PATCHES[0] * f.PATCHES[1];
  add_distance(out.ranges[0], channels * batch * patches, 1);
  add_distance(out.ranges[0], side * side, channels * batch * patches);
  std::int64_t group = kMostInGroup;
  while (group > 1 && group / 2 >= patches) group /= 2;
  out.local[0] = static_cast<std::uint64_t>(group);
  out.global[0] = static_cast<std::uint64_t>((patches + group - 1) / group * group);
  out.global[1] = static_cast<std::uint64_t>(channels), out.global[2] = static_cast<std::uint64_t>(batch);
  return {};
}

}  // namespace quarry::gpu
