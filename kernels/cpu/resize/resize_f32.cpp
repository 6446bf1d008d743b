// SPDX-License-Identifier: Apache-2.0
// Resizing by tables of rows and columns; the channels of a pixel are vectors.
#include "kernels/cpu/resize/resize_tap.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

// y = blend(channel, lanes), a vector of channels after the other.
template <class Blend>
QR_INLINE void blend_channels(float *y, std::int64_t c, Blend &&blend) noexcept {
  std::int64_t i = 0;
  for (; i + kLanes <= c; i += kLanes) store(y + i, blend(i, kLanes));
  if (i == c) return;
  if (c >= kLanes) return store(y + c - kLanes, blend(c - kLanes, kLanes));  // some of it once more
  store_part(y, blend(0, static_cast<int>(c)), static_cast<int>(c));
}
// What has a weight of 0 is not looked at: it may be an infinity.
QR_INLINE void blend_pixel(const float *const corners[4], float *y, std::int64_t c, float row_weight,
                           float column_weight) noexcept {
  const auto of = [&](int k, std::int64_t i, int lanes) __attribute__((always_inline)) {
    return lanes == kLanes ? load(corners[k] + i) : load_part(corners[k] + i, lanes);
  };
  const VecF v = splat(row_weight), u = splat(1.0f - row_weight), h = splat(column_weight),
             g = splat(1.0f - column_weight);
  if (row_weight != 0 && column_weight != 0)
    return blend_channels(
        y, c, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
          return u * (g * of(0, i, lanes) + h * of(1, i, lanes)) + v * (g * of(2, i, lanes) + h * of(3, i, lanes));
        });
  if (row_weight != 0)
    return blend_channels(
        y, c, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
          return u * of(0, i, lanes) + v * of(2, i, lanes);
        });
  if (column_weight != 0)
    return blend_channels(
        y, c, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
          return g * of(0, i, lanes) + h * of(1, i, lanes);
        });
  blend_channels(
      y, c, [&](std::int64_t i, int lanes) __attribute__((always_inline)) { return of(0, i, lanes); });
}

// Fewer channels than a vector has lanes, pixels adjacent: two rows are blended as a whole, then columns, each by a
// vector that reaches into the pixels to come.
void blend_narrow(const float *low, const float *high, float *row, std::int64_t in_width, float row_weight,
                  const Tap *taps, std::int64_t width, std::int64_t c, float *y) noexcept {
  const VecF v = splat(row_weight), u = splat(1.0f - row_weight);
  std::int64_t i = 0;
  if (row_weight == 0) std::memcpy(row, low, bytes_of<float>(i = in_width * c));
  for (; i + kLanes <= in_width * c; i += kLanes) store(row + i, u * load(low + i) + v * load(high + i));
  if (const int rest = static_cast<int>(in_width * c - i); rest > 0)
    store_part(row + i, u * load_part(low + i, rest) + v * load_part(high + i, rest), rest);
  std::int64_t x = 0;
  const auto pixel = [&](std::int64_t at) __attribute__((always_inline)) {
    const Tap &tap = taps[at];
    if (tap.weight == 0) return load(row + tap.low * c);
    return splat(1.0f - tap.weight) * load(row + tap.low * c) + splat(tap.weight) * load(row + tap.high * c);
  };
  for (; x * c + kLanes <= width * c; ++x) store(y + x * c, pixel(x));
  for (; x < width; ++x) store_part(y + x * c, pixel(x), static_cast<int>(c));
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
  const bool narrow = !p.nearest && p.c < kLanes && p.x_stride == p.c && p.y_stride == p.c;
  const std::int64_t grain = max_of<std::int64_t>(1, 16384 / (std::int64_t{p.ow} * p.c));
  call.threads.run(static_cast<std::uint64_t>(std::int64_t{p.n} * p.oh), static_cast<std::uint64_t>(grain),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     // Scratch: a blended row with room for a vector after it, and the table of columns.
                     float *const blended = reinterpret_cast<float *>(call.worker_scratch(worker));
                     const std::int64_t row_floats = p.c < 16 ? std::int64_t{p.iw} * p.c : 0;
                     Tap *const taps = reinterpret_cast<Tap *>(blended + row_floats + 16);
                     for (std::int64_t ox = 0; ox < p.ow; ++ox) taps[ox] = tap_at(columns, ox, p.iw);
                     for (std::int64_t i = 0; i < 16; ++i) blended[row_floats + i] = 0;
                     for (auto row = static_cast<std::int64_t>(begin); row < static_cast<std::int64_t>(end); ++row) {
                       const Tap v = tap_at(rows, row % p.oh, p.ih);
                       const float *image = x + row / p.oh * p.ih * p.iw * p.x_stride;
                       const float *low = image + std::int64_t{v.low} * p.iw * p.x_stride,
                                   *high = image + std::int64_t{v.high} * p.iw * p.x_stride;
                       float *to = y + row * p.ow * p.y_stride;
                       if (narrow) {
                         blend_narrow(low, high, blended, p.iw, v.weight, taps, p.ow, p.c, to);
                         continue;
                       }
                       for (std::int64_t ox = 0; ox < p.ow; ++ox, to += p.y_stride) {
                         const Tap h = taps[ox];
                         const std::int64_t left = std::int64_t{h.low} * p.x_stride,
                                            right = std::int64_t{h.high} * p.x_stride;
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
