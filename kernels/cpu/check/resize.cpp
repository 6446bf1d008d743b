// SPDX-License-Identifier: Apache-2.0
// Checks of kernels on images that have no weights.
#include "kernels/cpu/check/check.h"

#include "base/checked.h"

namespace quarry::kernels {

Status check_PoolF32(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const PoolF32 *>(params);
  const Window &w = p.window;
  QR_RETURN_IF_ERROR(check_window("PoolF32", w));
  if (p.op >= PoolOp::Count) return refuse("PoolF32", "operator", static_cast<std::int64_t>(p.op), "0 to 2");
  if (p.reserved != 0) return refuse("PoolF32", "reserved field", p.reserved, "0");
  if (p.pad_bottom < 0 || p.pad_bottom > 1 << 24)
    return refuse("PoolF32", "rows of padding below", p.pad_bottom, "0 to 16777216");
  if (p.pad_right < 0 || p.pad_right > 1 << 24)
    return refuse("PoolF32", "columns of padding at the right", p.pad_right, "0 to 16777216");
  std::uint64_t x, y;
  if (!image_bytes(w.n, w.ih, w.iw, p.x_stride, p.c, 4, &x))
    return refuse("PoolF32", "input pixel stride", p.x_stride, "the channels or more, within 2^48 elements");
  if (!image_bytes(w.n, w.oh, w.ow, p.y_stride, p.c, 4, &y))
    return refuse("PoolF32", "output pixel stride", p.y_stride, "the channels or more, within 2^48 elements");
  add(needs, x), add(needs, y, true);
  return {};
}

Status check_PoolPlanesF32(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "PoolPlanesF32";
  const auto &p = *static_cast<const PoolPlanesF32 *>(params);
  const Window &w = p.window;
  QR_RETURN_IF_ERROR(check_window(kName, w));
  if (p.op >= PoolOp::Count) return refuse(kName, "operator", static_cast<std::int64_t>(p.op), "0 to 2");
  if (p.reserved != 0) return refuse(kName, "reserved field", p.reserved, "0");
  if (w.n != 1) return refuse(kName, "images", w.n, "1: planes are counted by themselves");
  for (const std::int32_t pad : {p.pad_bottom, p.pad_right, w.pad_top, w.pad_left})
    if (pad < 0 || pad > 1 << 24) return refuse(kName, "padding", pad, "0 to 16777216");
  if (w.pad_left >= padded_width(p)) return refuse(kName, "columns of padding at the left", w.pad_left, "fewer");
  std::uint64_t x, y;
  if (p.planes < 1 || p.planes > INT32_MAX || !image_bytes(p.planes, w.ih, w.iw, 1, 1, 4, &x) ||
      !image_bytes(p.planes, w.oh, w.ow, 1, 1, 4, &y))
    return refuse(kName, "planes", p.planes, "1 or more, within 2^48 elements");
  add(needs, x), add(needs, y, true);
  needs.scratch_bytes = (static_cast<std::uint64_t>(kPoolWorkRows * pool_row_floats(p) + w.ow) * 4 + 63) / 64 * 64;
  return {};
}

Status check_ResizeF32(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const ResizeF32 *>(params);
  if (p.nearest > 1) return refuse("ResizeF32", "nearest", p.nearest, "0 or 1");
  if (p.reserved != 0) return refuse("ResizeF32", "reserved field", p.reserved, "0");
  std::uint64_t x, y;
  if (!image_bytes(p.n, p.ih, p.iw, p.x_stride, p.c, 4, &x))
    return refuse("ResizeF32", "input pixel stride", p.x_stride, "the channels or more, within 2^48 elements");
  if (!image_bytes(p.n, p.oh, p.ow, p.y_stride, p.c, 4, &y))
    return refuse("ResizeF32", "output pixel stride", p.y_stride, "the channels or more, within 2^48 elements");
  add(needs, x), add(needs, static_cast<std::uint64_t>(p.oh) * 12), add(needs, static_cast<std::uint64_t>(p.ow) * 12),
      add(needs, y, true);
  // Few channels: a row that is blended from two, and room for a vector that reaches beyond it; and the columns' table.
  needs.scratch_bytes =
      ((static_cast<std::uint64_t>(p.c) < 16 ? static_cast<std::uint64_t>(p.iw) * static_cast<std::uint64_t>(p.c) * 4
                                             : 0) +
       64 + static_cast<std::uint64_t>(p.ow) * 12 + 63) /
      64 * 64;
  return {};
}

Status check_ResizePlanesF32(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "ResizePlanesF32";
  const auto &p = *static_cast<const ResizePlanesF32 *>(params);
  if (p.nearest > 1) return refuse(kName, "nearest", p.nearest, "0 or 1");
  if (p.reserved != 0) return refuse(kName, "reserved field", p.reserved, "0");
  for (const std::int32_t extent : {p.ih, p.iw, p.oh, p.ow})
    if (extent < 1 || extent > 1 << 24) return refuse(kName, "extent", extent, "1 to 2^24");
  std::uint64_t x, y;
  if (p.planes < 1 || p.planes > INT32_MAX || !image_bytes(p.planes, p.ih, p.iw, 1, 1, 4, &x) ||
      !image_bytes(p.planes, p.oh, p.ow, 1, 1, 4, &y))
    return refuse(kName, "planes", p.planes, "1 or more, within 2^48 elements");
  add(needs, x), add(needs, static_cast<std::uint64_t>(p.oh) * 12), add(needs, static_cast<std::uint64_t>(p.ow) * 12),
      add(needs, y, true);
  needs.scratch_bytes = resize_planes_scratch(p);
  return {};
}

Status check_Col2ImF32(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "Col2ImF32";
  const auto &p = *static_cast<const Col2ImF32 *>(params);
  const Window &w = p.window;
  QR_RETURN_IF_ERROR(check_window(kName, w));
  if (w.n != 1) return refuse(kName, "images", w.n, "1: planes are counted by themselves");
  if (w.sw != 1) return refuse(kName, "columns from place to place", w.sw, "1");
  if (p.reserved != 0) return refuse(kName, "reserved field", p.reserved, "0");
  std::uint64_t x, y;
  const std::int64_t taps = std::int64_t{w.kh} * w.kw;
  if (p.planes < 1 || p.planes > 1 << 24 || !image_bytes(p.planes * taps, w.oh, w.ow, 1, 1, 4, &x) ||
      !image_bytes(p.planes, w.ih, w.iw, 1, 1, 4, &y))
    return refuse(kName, "planes", p.planes, "1 to 2^24, within 2^48 elements");
  add(needs, x), add(needs, y, true);
  needs.scratch_bytes = (static_cast<std::uint64_t>(w.kh) * sizeof(void *) + 63) / 64 * 64;
  return {};
}

Status check_RoiAlignF32(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "RoiAlignF32";
  const auto &p = *static_cast<const RoiAlignF32 *>(params);
  std::uint64_t x, y;
  if (!image_bytes(p.n, p.h, p.w, p.x_stride, p.c, 4, &x))
    return refuse(kName, "input pixel stride", p.x_stride, "the channels or more, within 2^48 elements");
  if (p.regions < 1 || p.regions > 1 << 24) return refuse(kName, "regions", p.regions, "1 to 2^24");
  for (const std::int32_t extent : {p.rows, p.columns})
    if (extent < 1 || extent > 1 << 12) return refuse(kName, "bins", extent, "1 to 4096");
  if (p.ratio < 0 || p.ratio > 1 << 12) return refuse(kName, "samples of a bin", p.ratio, "0 to 4096");
  for (const std::uint32_t flag : {p.half_pixel, p.greatest})
    if (flag > 1) return refuse(kName, "flag", flag, "0 or 1");
  if (p.index_bytes != 4 && p.index_bytes != 8) return refuse(kName, "bytes of an index", p.index_bytes, "4 or 8");
  if (!image_bytes(static_cast<std::int64_t>(p.rows) * p.columns, p.regions, 1, p.c, p.c, 4, &y))
    return refuse(kName, "regions", p.regions, "results within 2^48 elements");
  add(needs, x), add(needs, static_cast<std::uint64_t>(p.regions) * 16),
      add(needs, static_cast<std::uint64_t>(p.regions) * p.index_bytes), add(needs, y, true);
  return {};
}

Status check_GridSampleF32(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "GridSampleF32";
  const auto &p = *static_cast<const GridSampleF32 *>(params);
  if (p.mode >= SampleMode::Count) return refuse(kName, "mode", static_cast<std::int64_t>(p.mode), "0 to 2");
  if (p.padding >= SamplePadding::Count)
    return refuse(kName, "padding", static_cast<std::int64_t>(p.padding), "0 to 2");
  if (p.align_corners > 1) return refuse(kName, "align_corners", p.align_corners, "0 or 1");
  if (p.planes > 1) return refuse(kName, "planes", p.planes, "0 or 1");
  if (p.planes && p.mode == SampleMode::Cubic) return refuse(kName, "planes", p.planes, "0 for this mode");
  if (p.planes && (p.x_stride != p.c || p.y_stride != p.c))
    return refuse(kName, "pixel stride of planes", p.x_stride, "the channels");
  std::uint64_t x, grid, y;
  if (!image_bytes(p.n, p.h, p.w, p.x_stride, p.c, 4, &x))
    return refuse(kName, "input pixel stride", p.x_stride, "the channels or more, within 2^48 elements");
  if (!image_bytes(p.n, p.oh, p.ow, p.y_stride, p.c, 4, &y) || !image_bytes(p.n, p.oh, p.ow, 2, 2, 4, &grid))
    return refuse(kName, "output pixel stride", p.y_stride, "the channels or more, within 2^48 elements");
  if (p.planes && std::int64_t{p.h} * p.w > INT32_MAX) return refuse(kName, "rows of planes", p.h, "fewer");
  add(needs, x), add(needs, grid), add(needs, y, true);
  return {};
}

}  // namespace quarry::kernels
