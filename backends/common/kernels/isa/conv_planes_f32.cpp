// SPDX-License-Identifier: Apache-2.0
// Convolution of few input channels from planes to planes: vectors of pixels times single weights. And of few output
// channels too, to pixels: rows of planes that are turned.
#include "backends/common/kernels/isa/activate.h"
#include "backends/common/kernels/isa/conv_planes_f32.h"
#include "backends/common/kernels/isa/plane_rows.h"
#include "backends/common/kernels/isa/transpose.h"

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
void run_row(const Planes &g, const float *rows, std::int64_t out) noexcept {
  const ConvF32 &p = g.p;
  const std::int64_t ow = p.window.ow;
  for (std::int64_t ox = 0; ox < ow; ox += kVectors * kLanes) {
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

}  // namespace

void run_conv_planes(const Call &call) noexcept {
  const auto &p = call.as<ConvF32>();
  const Window &w = p.window;
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
            for (std::int64_t oy = 0; oy < count; ++oy) run_row(g, rows + oy * step, (first + oy) * w.ow);
          } else {
            float *const row = rows + strips.floats;
            const Planes g{p, s, weights, bias, nullptr, row, strips.phase, strips.row, strips.channel, w.ow};
            for (std::int64_t oy = 0; oy < count; ++oy) {
              run_row(g, rows + oy * step, 0);
              float *const to = y + (image * w.oh + first + oy) * w.ow * p.y_stride;
              transpose(4, reinterpret_cast<const std::byte *>(row), reinterpret_cast<std::byte *>(to), p.oc, w.ow,
                        std::int64_t{w.ow} * 4, std::int64_t{p.y_stride} * 4);
            }
          }
        }
      });
}

}  // namespace quarry::kernels::QR_ISA
