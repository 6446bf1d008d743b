// SPDX-License-Identifier: Apache-2.0
// Convolution of few input channels from planes to planes: vectors of pixels times single weights. And of few output
// channels too, to pixels: rows of planes that are turned; or, where the channels fill a vector, single pixels times
// vectors of weights, read where they lie.
#include "kernels/cpu/contraction/gemm_tile.h"
#include "kernels/cpu/convolution/conv_planes_f32.h"
#include "kernels/cpu/loops/plane_rows.h"
#include "kernels/cpu/loops/prefetch.h"
#include "kernels/cpu/movement/transpose.h"
#include "kernels/cpu/vector/activate.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Channels divide the lanes.
#if defined(__AVX512F__) && QR_ISA_BYTES == 64  // 32 registers
constexpr int kChannels = 8, kVectors = 3;
#else
constexpr int kChannels = 4, kVectors = 2;
#endif
static_assert(kConvPlaneVectors >= kVectors && kLanes % kChannels == 0);

struct Planes {
  const ConvF32 &p;
  const ConvShape &s;
  const float *w, *bias, *r;
  float *y;
  std::int64_t phase, row, channel;  // elements of the copied rows: of a phase, a row, a channel's rows
  std::int64_t out_plane;
};

// Some channels from `oc` on, whose weights of the first tap are at w; N vectors of pixels. `out`: the first pixel in
// its plane, of which `count` exist; `from`: what its first tap sees.
template <int N>
QR_INLINE void tile(const Planes &g, const float *w, std::int64_t width, std::int64_t oc, const float *from,
                    std::int64_t out, std::int64_t count) noexcept {
  const ConvF32 &p = g.p;
  const Window &win = p.window;
  VecF acc[kChannels][N];
  QR_UNROLL for (int i = 0; i < kChannels; ++i) QR_UNROLL for (int v = 0; v < N; ++v) acc[i][v] = VecF{};
  for (std::int64_t ky = 0; ky < win.kh; ++ky) {
    const float *const line = from + ky * win.dh * g.row;
    for (std::int64_t kx = 0, phase = 0, column = 0; kx < win.kw; ++kx) {
      const float *at = line + phase * g.phase + column;
      if (++phase == win.sw) phase = 0, ++column;
      for (std::int64_t c = 0; c < p.ic; ++c, at += g.channel, w += width) {
        VecF in[N];
        QR_UNROLL for (int v = 0; v < N; ++v) in[v] = load(at + v * kLanes);
        QR_UNROLL for (int i = 0; i < kChannels; ++i) {
          const VecF tap = splat(w[i]);
          QR_UNROLL for (int v = 0; v < N; ++v) add_product(acc[i][v], tap, in[v]);
        }
      }
    }
  }
  const VecF low = splat(p.act.a), high = splat(p.act.b);
  const bool clip = p.act.kind == Act::Clip, now = clip || p.act.kind == Act::None;
  QR_UNROLL for (int i = 0; i < kChannels; ++i) {
    if (oc + i >= p.oc) return;
    const VecF bias = splat(g.bias ? g.bias[oc + i] : 0.0f);
    QR_UNROLL for (int v = 0; v < N; ++v) {
      const int there = static_cast<int>(min_of<std::int64_t>(kLanes, count - v * kLanes));
      if (there <= 0) continue;
      const std::int64_t place = (oc + i) * g.out_plane + out + v * kLanes;
      const auto get = [&](const float *q) __attribute__((always_inline)) {
        return there == kLanes ? load(q) : load_part(q, there);
      };
      VecF sum = acc[i][v] + bias;
      if (p.residual == Residual::BeforeAct) sum += get(g.r + place);
      if (clip) sum = clamp(sum, low, high);
      if (p.residual == Residual::AfterAct && now) sum += get(g.r + place);
      if (there == kLanes) store(g.y + place, sum);
      else store_part(g.y + place, sum, there);
    }
  }
}

// A row of output, whose pixels begin at `out` in its planes.
void run_row(const Planes &g, const Threads &threads, const float *rows, std::int64_t out) noexcept {
  const ConvF32 &p = g.p;
  const std::int64_t ow = p.window.ow;
  Asker asker(threads);
  for (std::int64_t ox = 0; ox < ow && !asker.stopped(g.s.taps * g.s.run * p.oc); ox += kVectors * kLanes) {
    const std::int64_t count = min_of<std::int64_t>(kVectors * kLanes, ow - ox);
    for (std::int64_t panel = 0; panel < g.s.panels; ++panel) {
      const std::int64_t begin = g.s.panel_begin(panel) * kLanes, width = g.s.panel_vectors(panel) * kLanes;
      const float *const w = g.w + g.s.weights(0, panel, 0);
      for (std::int64_t i = 0; i < width && begin + i < p.oc; i += kChannels) {
        if (count > (kVectors - 1) * kLanes) tile<kVectors>(g, w + i, width, begin + i, rows + ox, out + ox, count);
        else if (kVectors > 2 && count > kLanes) tile<2>(g, w + i, width, begin + i, rows + ox, out + ox, count);
        else tile<1>(g, w + i, width, begin + i, rows + ox, out + ox, count);
      }
    }
  }
  if (p.act.kind == Act::None || p.act.kind == Act::Clip) return;
  for (std::int64_t c = 0; c < p.oc; ++c) {
    const std::int64_t at = c * g.out_plane + out;
    activate_in_place(p.act, g.y + at, ow);
    if (p.residual == Residual::AfterAct)
      for (std::int64_t i = at; i < at + ow; ++i) g.y[i] += g.r[i];
  }
}

// ---- planes to pixels

#if (defined(__AVX512F__) && QR_ISA_BYTES == 64) || defined(__aarch64__)  // 32 registers
constexpr int kPixels = 16;
#else
constexpr int kPixels = 12;
#endif

// kPixels pixels, of which `count` exist, times a vector of channels. `from`: what the first tap of the first pixel
// sees; rows and planes are as far apart as given. A step of 0 is one that the compiler does not know.
template <int kStep>
QR_INLINE void pixel_tile(const ConvF32 &p, const float *w, const float *bias, const float *from, std::int64_t row,
                          std::int64_t plane, float *y, int count) noexcept {
  const Window &win = p.window;
  const std::int64_t step = kStep > 0 ? kStep : std::int64_t{win.sw}, kw = win.kw, channels = p.ic;
  VecF acc[kPixels];
  QR_UNROLL for (int i = 0; i < kPixels; ++i) acc[i] = VecF{};
  // Images of many pixels are bound by memory: what the next tile writes comes near meanwhile, and what later ones
  // read.
  constexpr std::int64_t kAhead = 4;
  QR_UNROLL for (int i = 0; i < kPixels; ++i) prefetch_write(y + (i + kPixels) * p.y_stride);
  for (std::int64_t ky = 0; ky < win.kh; ++ky, from += row)
    for (std::int64_t kx = 0; kx < kw; ++kx) {
      const float *at = from + kx;
      for (std::int64_t c = 0; c < channels; ++c, at += plane, w += kLanes) {
        const VecF weights = load(w);
        if (kStep > 0 && kx < kStep) prefetch_near(at + kAhead * kPixels * kStep + kx * kPixels);
        QR_UNROLL for (int i = 0; i < kPixels; ++i) acc[i] = fma(splat(at[i * step]), weights, acc[i]);
      }
    }
  const VecF b = bias ? load(bias) : VecF{}, low = splat(p.act.a), high = splat(p.act.b);
  const bool clip = p.act.kind == Act::Clip;
  QR_UNROLL for (int i = 0; i < kPixels; ++i) {
    if (i >= count) return;
    VecF sum = acc[i] + b;
    if (clip) sum = clamp(sum, low, high);
    if (p.oc == kLanes) store(y + i * p.y_stride, sum);
    else store_part(y + i * p.y_stride, sum, p.oc);
  }
}

// A row of output. `room` has as much of the image as a tile sees, where that reaches beyond it.
template <int kStep>
void run_pixels(const ConvF32 &p, const Threads &threads, const float *x, const float *weights, const float *bias,
                std::int64_t oy, float *y, float *room) noexcept {
  const Window &w = p.window;
  const std::int64_t top = oy * w.sh - w.pad_top, plane = std::int64_t{w.ih} * w.iw, dh = w.dh;
  const std::int64_t columns = (kPixels - 1) * std::int64_t{w.sw} + w.kw;
  const bool rows_inside = top >= 0 && top + (w.kh - 1) * dh < w.ih;
  const auto inside = [&](std::int64_t left) __attribute__((always_inline)) {
    return rows_inside && left >= 0 && left + columns <= w.iw;
  };
  Asker asker(threads);
  for (std::int64_t ox = 0; ox < w.ow && !asker.stopped(std::int64_t{w.kh} * w.kw * p.ic); ox += kPixels) {
    // The last ones begin earlier where that keeps them in the image: some pixels are made twice.
    std::int64_t first = ox;
    if (ox > 0 && ox + kPixels > w.ow && inside((w.ow - kPixels) * w.sw - w.pad_left)) first = w.ow - kPixels;
    const std::int64_t left = first * w.sw - w.pad_left;
    float *const to = y + first * p.y_stride;
    const int count = static_cast<int>(min_of<std::int64_t>(kPixels, w.ow - first));
    if (inside(left)) {
      pixel_tile<kStep>(p, weights, bias, x + top * w.iw + left, dh * w.iw, plane, to, count);
      continue;
    }
    float *line = room;
    for (std::int64_t c = 0; c < p.ic; ++c)
      for (std::int64_t ky = 0; ky < w.kh; ++ky, line += columns) {
        const std::int64_t iy = top + ky * dh, begin = min_of(columns, max_of<std::int64_t>(0, -left)),
                           end = iy < 0 || iy >= w.ih ? begin : min_of(columns, max_of(begin, w.iw - left));
        const float *const from = x + c * plane + iy * w.iw + left;
        for (std::int64_t i = 0; i < begin; ++i) line[i] = 0;
        for (std::int64_t i = begin; i < end; ++i) line[i] = from[i];
        for (std::int64_t i = end; i < columns; ++i) line[i] = 0;
      }
    pixel_tile<kStep>(p, weights, bias, room, columns, w.kh * columns, to, count);
  }
  if (p.act.kind != Act::None && p.act.kind != Act::Clip) finish_rows(p.act, y, p.y_stride, w.ow, p.oc, nullptr, 0);
}

void run_to_pixels(const Call &call) noexcept {
  const auto &p = call.as<ConvF32>();
  const Window &w = p.window;
  const float *const x = call.operand<const float>(0), *const weights = call.operand<const float>(1);
  const float *const bias = p.has_bias ? call.operand<const float>(2) : nullptr;
  float *const y = call.operand<float>(p.has_bias ? 3 : 2);
  const double flops = 2.0 * w.ow * static_cast<double>(std::int64_t{w.kh} * w.kw * p.ic) * p.oc;
  call.threads.run(static_cast<std::uint64_t>(std::int64_t{w.n} * w.oh),
                   static_cast<std::uint64_t>(1 + kWorthSharing / flops),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     auto *const room = reinterpret_cast<float *>(call.worker_scratch(worker));
                     for (auto row = static_cast<std::int64_t>(begin); row < static_cast<std::int64_t>(end); ++row) {
                       const float *const image = x + row / w.oh * p.ic * w.ih * w.iw;
                       float *const to = y + row * w.ow * p.y_stride;
                       if (w.sw == 1) run_pixels<1>(p, call.threads, image, weights, bias, row % w.oh, to, room);
                       else if (w.sw == 2) run_pixels<2>(p, call.threads, image, weights, bias, row % w.oh, to, room);
                       else run_pixels<0>(p, call.threads, image, weights, bias, row % w.oh, to, room);
                     }
                   });
}

}  // namespace

void run_conv_planes(const Call &call) noexcept {
  const auto &p = call.as<ConvF32>();
  const Window &w = p.window;
  if (p.y_stride != kPlanes && 2 * p.oc >= kLanes) return run_to_pixels(call);
  const ConvShape s = conv_shape(p, kLanes, kF32Panel);
  const ConvPlanes strips = conv_planes(p, kLanes);
  std::size_t operand = 2;
  const float *const x = call.operand<const float>(0), *const weights = call.operand<const float>(1);
  const float *const bias = p.has_bias ? call.operand<const float>(operand++) : nullptr;
  const float *const r = p.residual != Residual::None ? call.operand<const float>(operand++) : nullptr;
  float *const y = call.operand<float>(operand);
  const std::int64_t in_plane = std::int64_t{w.ih} * w.iw, out_plane = std::int64_t{w.oh} * w.ow,
                     per_image = ceil_div<std::int64_t>(w.oh, strips.rows);
  const double flops = 2.0 * static_cast<double>(strips.rows * w.ow) * static_cast<double>(s.taps * s.run) * p.oc;
  call.threads.run(
      static_cast<std::uint64_t>(w.n * per_image), static_cast<std::uint64_t>(1 + kWorthSharing / flops),
      [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
        auto *const rows = reinterpret_cast<float *>(call.worker_scratch(worker));
        for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end); ++i) {
          const std::int64_t image = i / per_image, first = i % per_image * strips.rows,
                             count = min_of<std::int64_t>(strips.rows, w.oh - first);
          for (std::int64_t c = 0; c < p.ic; ++c)
            copy_plane_rows(w, x + (image * p.ic + c) * in_plane, first, count, strips.phase,
                            rows + c * strips.channel);
          const std::int64_t step = w.sh * strips.row;
          if (p.y_stride == kPlanes) {
            const std::int64_t out = image * p.oc * out_plane;
            const Planes g{
                p,        s, weights, bias, r ? r + out : nullptr, y + out, strips.phase, strips.row, strips.channel,
                out_plane};
            for (std::int64_t oy = 0; oy < count; ++oy) run_row(g, call.threads, rows + oy * step, (first + oy) * w.ow);
          } else {
            float *const row = rows + strips.floats;
            const Planes g{p, s, weights, bias, nullptr, row, strips.phase, strips.row, strips.channel, w.ow};
            for (std::int64_t oy = 0; oy < count; ++oy) {
              run_row(g, call.threads, rows + oy * step, 0);
              float *const to = y + (image * w.oh + first + oy) * w.ow * p.y_stride;
              transpose(4, reinterpret_cast<const std::byte *>(row), reinterpret_cast<std::byte *>(to), p.oc, w.ow,
                        std::int64_t{w.ow} * 4, std::int64_t{p.y_stride} * 4);
            }
          }
        }
      });
}

}  // namespace quarry::kernels::QR_ISA
