// SPDX-License-Identifier: Apache-2.0
// Pools over f32 images, channels last: vectors of channels, the taps of a window one after the other.
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

// The taps of one axis that hit the image, and how many hit it or its padding.
struct Taps {
  std::int64_t first, last, padded;
};
Taps taps_of(std::int64_t start, std::int64_t step, std::int64_t taps, std::int64_t size,
             std::int64_t pad_end) noexcept {
  if (start >= 0 && start + (taps - 1) * step < size) return {0, taps, taps};  // nearly always; saves the divisions
  const auto below = [&](std::int64_t end) { return end <= start ? 0 : min_of(taps, (end - start + step - 1) / step); };
  const Taps t{start < 0 ? below(0) : 0, below(size), below(size + pad_end)};
  return {min_of(t.first, t.last), t.last, t.padded};
}

// A window of one output pixel: rows x columns of taps from `x`, in elements.
struct Patch {
  const float *x;
  std::int64_t rows, columns, row_step, column_step;
  bool goes_on = false;  // y holds what an earlier part of the window came to
};

// Short sums make up long ones, so that rounding errors do not grow with the window.
constexpr std::int64_t kShortSum = 16;

// The greatest of a row of taps, by pairs, joined to acc.
template <int count, class At>
QR_INLINE void max_row(const float *from, const Patch &p, At at, VecF (&acc)[count], NanSeen (&nan)[count]) noexcept {
  std::int64_t j = 0;
  for (; j + 2 <= p.columns; j += 2, from += 2 * p.column_step) QR_UNROLL for (int k = 0; k < count; ++k) {
      const VecF v = at(from, k), w = at(from + p.column_step, k);
      nan[k].see(v, w);
      acc[k] = max(v, max(w, acc[k]));
    }
  if (j < p.columns) QR_UNROLL for (int k = 0; k < count; ++k) {
      const VecF v = at(from, k);
      nan[k].see(v, v);
      acc[k] = max(v, acc[k]);
    }
}
// The sum of a row of taps, added to acc.
template <int count, class At>
QR_INLINE void sum_row(const float *from, const Patch &p, At at, VecF (&acc)[count]) noexcept {
  for (std::int64_t j = 0; j < p.columns;) {
    VecF part[count] = {};
    for (const std::int64_t end = min_of(p.columns, j + kShortSum); j < end; ++j, from += p.column_step)
      QR_UNROLL for (int k = 0; k < count; ++k) part[k] += at(from, k);
    QR_UNROLL for (int k = 0; k < count; ++k) acc[k] += part[k];
  }
}

// `count` vectors of channels; the last has `lanes`.
template <bool max_pool, int count>
QR_INLINE void pool_vectors(const Patch &p, std::int64_t channel, float *y, VecF divisor, int lanes) noexcept {
  const auto at = [&](const float *from, int k) __attribute__((always_inline)) {
    return lanes == kLanes || k < count - 1 ? load(from + k * kLanes) : load_part(from + k * kLanes, lanes);
  };
  VecF acc[count];
  NanSeen nan[count] = {};
  QR_UNROLL for (int k = 0; k < count; ++k) acc[k] = max_pool ? splat(-__builtin_inff()) : VecF{};
  if (__builtin_expect(p.goes_on, false)) QR_UNROLL for (int k = 0; k < count; ++k) {
      acc[k] = at(y + channel, k);
      if constexpr (max_pool) nan[k].see(acc[k], acc[k]);
    }
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const float *from = p.x + i * p.row_step + channel;
    if constexpr (max_pool) max_row(from, p, at, acc, nan);
    else sum_row(from, p, at, acc);
  }
  QR_UNROLL for (int k = 0; k < count; ++k) {
    const VecF v = max_pool ? nan[k].put(acc[k]) : acc[k] / divisor;
    if (lanes == kLanes || k < count - 1) store(y + channel + k * kLanes, v);
    else store_part(y + channel + k * kLanes, v, lanes);
  }
}

// The channels [begin, end) of one output pixel.
template <bool max_pool>
void pool_pixel(const Patch &p, std::int64_t begin, std::int64_t end, float *y, VecF divisor) noexcept {
  std::int64_t c = begin;
  for (; c + 4 * kLanes <= end; c += 4 * kLanes) pool_vectors<max_pool, 4>(p, c, y, divisor, kLanes);
  if (c + 2 * kLanes <= end) {
    pool_vectors<max_pool, 2>(p, c, y, divisor, kLanes);
    c += 2 * kLanes;
  }
  if (c + kLanes <= end) {
    pool_vectors<max_pool, 1>(p, c, y, divisor, kLanes);
    c += kLanes;
  }
  if (c < end) pool_vectors<max_pool, 1>(p, c, y, divisor, static_cast<int>(end - c));
}

// A window of a great many taps in slices, between which it is asked whether to stop.
template <bool max_pool>
__attribute__((noinline)) void pool_giant(const Threads &threads, Patch p, std::int64_t begin, std::int64_t end,
                                          float *y, VecF divisor) noexcept {
  const std::int64_t taps = max_of(kShortSum, Parts::kElements / (end - begin) / kShortSum * kShortSum),
                     columns = min_of(p.columns, taps), rows = max_of<std::int64_t>(1, taps / columns);
  Patch slice = p;
  for (std::int64_t i = 0; i < p.rows; i += rows)
    for (std::int64_t j = 0; j < p.columns; j += columns) {
      slice.x = p.x + i * p.row_step + j * p.column_step;
      slice.rows = min_of(rows, p.rows - i), slice.columns = min_of(columns, p.columns - j);
      const bool last = i + rows >= p.rows && j + columns >= p.columns;
      pool_pixel<max_pool>(slice, begin, end, y, last ? divisor : splat(1.0f));
      slice.goes_on = true;
      if (threads.stopped()) return;
    }
}

// The taps of an output pixel that lie inside. v, h: those of its row and its column.
struct PixelTaps {
  Patch patch;
  bool empty;
  std::int64_t count;  // what an average divides by
};
QR_INLINE PixelTaps pixel_taps(const PoolF32 &p, const float *image, std::int64_t top, const Taps &v,
                               std::int64_t ox) noexcept {
  const Window &w = p.window;
  const std::int64_t left = ox * w.sw - w.pad_left;
  const Taps h = taps_of(left, w.dw, w.kw, w.iw, p.pad_right);
  Patch patch{image, v.last - v.first, h.last - h.first, std::int64_t{w.dh} * w.iw * p.x_stride,
              std::int64_t{w.dw} * p.x_stride};
  const bool empty = patch.rows <= 0 || patch.columns <= 0;
  if (empty) patch.rows = patch.columns = 0;
  else patch.x += ((top + v.first * w.dh) * w.iw + left + h.first * w.dw) * p.x_stride;
  return {patch, empty, p.op == PoolOp::AverageIncludePad ? v.padded * h.padded : patch.rows * patch.columns};
}

// Channels [channel, stop) of a row of output, `pixels` of them between two questions whether to stop.
void pool_row(const Call &call, const PoolF32 &p, std::int64_t row, std::int64_t channel, std::int64_t stop,
              std::int64_t pixels, bool is_giant) noexcept {
  const Window &w = p.window;
  const std::int64_t top = row % w.oh * w.sh - w.pad_top;
  const Taps v = taps_of(top, w.dh, w.kh, w.ih, p.pad_bottom);
  const float *const image = call.operand<const float>(0) + row / w.oh * w.ih * w.iw * p.x_stride;
  float *to = call.operand<float>(1) + row * w.ow * p.y_stride;
  for (Parts part(call.threads, w.ow, pixels); part.next();)
    for (std::int64_t ox = part.begin; ox < part.end; ++ox, to += p.y_stride) {
      const PixelTaps taps = pixel_taps(p, image, top, v, ox);
      const bool in_slices = is_giant && !taps.empty;
      if (p.op == PoolOp::Max) {
        if (in_slices) pool_giant<true>(call.threads, taps.patch, channel, stop, to, VecF{});
        else pool_pixel<true>(taps.patch, channel, stop, to, VecF{});
      } else {
        const VecF divisor = splat(static_cast<float>(max_of<std::int64_t>(1, taps.count)));
        if (in_slices) pool_giant<false>(call.threads, taps.patch, channel, stop, to, divisor);
        else pool_pixel<false>(taps.patch, channel, stop, to, divisor);
      }
    }
}

}  // namespace

void run_PoolF32(const Call &call) {
  const auto &p = call.as<PoolF32>();
  const Window &w = p.window;
  // A task is a row of output; or, where there are few and they are dear, some channels of one.
  const std::int64_t rows = std::int64_t{w.n} * w.oh, work = std::int64_t{w.ow} * w.kh * w.kw;  // of a channel of a row
  const std::int64_t block = rows >= 8 ? p.c : min_of<std::int64_t>(p.c, 16 * kLanes),
                     blocks = ceil_div<std::int64_t>(p.c, block);
  const std::int64_t grain = max_of<std::int64_t>(1, 32768 / (work * block));
  const std::int64_t window_work = std::int64_t{w.kh} * w.kw * block,
                     pixels = max_of<std::int64_t>(1, Parts::kElements / window_work);
  const bool is_giant = window_work > 2 * Parts::kElements;
  call.threads.run(static_cast<std::uint64_t>(rows * blocks), static_cast<std::uint64_t>(grain),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                       const std::int64_t channel = task % blocks * block;
                       pool_row(call, p, task / blocks, channel, min_of<std::int64_t>(p.c, channel + block), pixels,
                                is_giant);
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
