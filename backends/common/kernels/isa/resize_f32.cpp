// SPDX-License-Identifier: Apache-2.0
// Resizing by tables of rows and columns; the channels of a pixel are vectors.
#include "backends/common/kernels/isa/kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

// What the planner's tables hold for each output row or column. They come from files: indices are brought inside.
struct Tap {
  std::int32_t low, high;
  float weight;  // of high
};
Tap tap_at(const std::byte *table, std::int64_t index, std::int32_t size) noexcept {
  Tap tap;
  std::memcpy(&tap, table + index * 12, 12);
  tap.low = max_of(0, min_of(tap.low, size - 1));
  tap.high = max_of(0, min_of(tap.high, size - 1));
  return tap;
}

QR_INLINE void blend_pixel(const float *const corners[4], float *y, std::int64_t c, float row_weight, float column_weight) noexcept {
  const VecF v = splat(row_weight), u = splat(1.0f - row_weight), h = splat(column_weight), g = splat(1.0f - column_weight);
  const auto blend = [&](VecF a, VecF b, VecF d, VecF e) __attribute__((always_inline)) { return u * (g * a + h * b) + v * (g * d + h * e); };
  std::int64_t i = 0;
  for (; i + kLanes <= c; i += kLanes) store(y + i, blend(load(corners[0] + i), load(corners[1] + i), load(corners[2] + i), load(corners[3] + i)));
  if (const int rest = static_cast<int>(c - i); rest > 0)
    store_part(y + i, blend(load_part(corners[0] + i, rest), load_part(corners[1] + i, rest), load_part(corners[2] + i, rest), load_part(corners[3] + i, rest)), rest);
}
QR_INLINE void copy_pixel(const float *x, float *y, std::int64_t c) noexcept {
  std::int64_t i = 0;
  for (; i + kLanes <= c; i += kLanes) store(y + i, load(x + i));
  if (i < c) store_part(y + i, load_part(x + i, static_cast<int>(c - i)), static_cast<int>(c - i));
}

}  // namespace

void run_ResizeF32(const Call &call) {
  const auto &p = call.as<ResizeF32>();
  const float *x = call.operand<const float>(0);
  const std::byte *rows = call.operands[1], *columns = call.operands[2];
  float *y = call.operand<float>(3);
  const std::int64_t grain = max_of<std::int64_t>(1, 16384 / (std::int64_t{p.ow} * p.c));
  call.threads.run(static_cast<std::uint64_t>(std::int64_t{p.n} * p.oh), static_cast<std::uint64_t>(grain), [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
    for (auto row = static_cast<std::int64_t>(begin); row < static_cast<std::int64_t>(end); ++row) {
      const Tap v = tap_at(rows, row % p.oh, p.ih);
      const float *image = x + row / p.oh * p.ih * p.iw * p.x_stride;
      const float *low = image + std::int64_t{v.low} * p.iw * p.x_stride, *high = image + std::int64_t{v.high} * p.iw * p.x_stride;
      float *to = y + row * p.ow * p.y_stride;
      for (std::int64_t ox = 0; ox < p.ow; ++ox, to += p.y_stride) {
        const Tap h = tap_at(columns, ox, p.iw);
        const std::int64_t left = std::int64_t{h.low} * p.x_stride, right = std::int64_t{h.high} * p.x_stride;
        if (p.nearest) {
          copy_pixel(low + left, to, p.c);
        } else {
          const float *const corners[4] = {low + left, low + right, high + left, high + right};
          blend_pixel(corners, to, p.c, v.weight, h.weight);
        }
      }
    }
  });
}

}  // namespace quarry::kernels::QR_ISA
