// SPDX-License-Identifier: Apache-2.0
// Images of the places of a window: each pixel is the sum of what those places have for it that see it, in the order of
// the window's taps.
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

// A row of pixels; `rows[r]` has, for each tap of a row of the window, the places that add to it, `tap_step` apart.
struct Sum {
  const float *const *rows;
  std::int64_t count, taps, tap_step, dilation, before, places;

  // The pixels from x on, which all taps see.
  template <class Load>
  QR_INLINE VecF inside(const Sum &s, std::int64_t x, Load &&load_at) noexcept {
    VecF acc{};
    for (std::int64_t r = 0; r < s.count; ++r)
      for (std::int64_t k = 0; k < s.taps; ++k)
        acc += load_at(s.rows[r] + k * s.tap_step + x - k * s.dilation + s.before);
    return acc;
  }
  float at_edge(std::int64_t x) const noexcept {
    // The taps whose place there is one.
    const std::int64_t last = x + before, beyond = last - places + 1;
    const std::int64_t stop = min_of(taps, (dilation == 1 ? last : last / dilation) + 1),
                       start = beyond <= 0     ? 0
                               : dilation == 1 ? beyond
                                               : ceil_div(beyond, dilation);
    float sum = 0;
    for (std::int64_t r = 0; r < count; ++r)
      for (std::int64_t k = start; k < stop; ++k) sum += rows[r][k * tap_step + last - k * dilation];
    return sum;
  }
  void run(float *y, std::int64_t width) const noexcept {
    const std::int64_t begin = min_of(width, max_of<std::int64_t>(0, (taps - 1) * dilation - before)),
                       end = max_of(begin, min_of(width, places - before));
    for (std::int64_t x = 0; x < begin; ++x) y[x] = at_edge(x);
    std::int64_t x = begin;
    const auto whole = [](const float *p) __attribute__((always_inline)) { return load(p); };
    for (; x + kLanes <= end; x += kLanes) store(y + x, inside(*this, x, whole));
    if (x < end && end - begin >= kLanes) {  // some of them once more
      store(y + end - kLanes, inside(*this, end - kLanes, whole));
    } else if (x < end) {
      const int rest = static_cast<int>(end - x);
      store_part(y + x,
                 inside(
                     *this, x, [rest](const float *p) __attribute__((always_inline)) { return load_part(p, rest); }),
                 rest);
    }
    for (x = end; x < width; ++x) y[x] = at_edge(x);
  }
};

}  // namespace

void run_Col2ImF32(const Call &call) {
  const auto &p = call.as<Col2ImF32>();
  const Window &w = p.window;
  const float *const x = call.operand<const float>(0);
  float *const y = call.operand<float>(1);
  const std::int64_t places = std::int64_t{w.oh} * w.ow, grain = 8192 / (std::int64_t{w.iw} * w.kw) + 1;
  call.threads.run(static_cast<std::uint64_t>(p.planes * w.ih), static_cast<std::uint64_t>(grain),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     auto *const rows = reinterpret_cast<const float **>(call.worker_scratch(worker));
                     auto row = static_cast<std::int64_t>(begin);
                     std::int64_t plane = row / w.ih, iy = row % w.ih;
                     for (; row < static_cast<std::int64_t>(end); ++row) {
                       Sum sum{rows, 0, w.kw, places, w.dw, w.pad_left, w.ow};
                       for (std::int64_t ky = 0; ky < w.kh; ++ky) {
                         const std::int64_t place = iy + w.pad_top - ky * w.dh;
                         const std::int64_t line = w.sh == 1 ? place : place / w.sh;
                         if (place < 0 || line * w.sh != place || line >= w.oh) continue;
                         rows[sum.count++] = x + (plane * w.kh + ky) * w.kw * places + line * w.ow;
                       }
                       sum.run(y + row * w.iw, w.iw);
                       if (++iy == w.ih) iy = 0, ++plane;
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
