// SPDX-License-Identifier: Apache-2.0
// Checks of kernels on images that have no weights.
#include "backends/common/kernels/check.h"

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

}  // namespace quarry::kernels
