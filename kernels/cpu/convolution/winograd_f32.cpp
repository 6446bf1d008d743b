// SPDX-License-Identifier: Apache-2.0
// Convolution 3x3 by Winograd's F(m x m, 3x3): with m = 4 and the points 0, +-1, +-2, infinity 36 products of (tiles x
// input channels) by (input x output channels) instead of 144 multiplications of pixels; with m = 2, without +-2, 16
// instead of 36, of half the weights. The error is several times that of the plain sum,
// and does not shrink with the output: see winograd_choice() in pack.h. An infinity or NaN, and numbers near the
// greatest, spoil all outputs of their tiles, not only those whose taps reach them: a tile where an output is not
// finite is summed once more, tap by tap, from filters that come back from their points.
#include "kernels/cpu/convolution/winograd_f32.h"

#include "kernels/cpu/contraction/gemm_tile.h"
#include "kernels/cpu/shapes/conv_shape.h"
#include "kernels/cpu/vector/activate.h"
#include "kernels/cpu/vector/lanes.h"

namespace quarry::kernels::QR_ISA {

namespace {

struct Winograd {
  const ConvF32 &p;
  const WinogradShape &s;
  const float *x, *w, *bias, *r;
  float *y;
};

struct Small {
  static constexpr int value = 2;
};
struct Large {
  static constexpr int value = 4;
};
// o = B^T d, six to six.
QR_INLINE void transform_in(const VecF d[6], VecF o[6], Large) noexcept {
  const VecF four = splat(4.0f), five = splat(5.0f), two = splat(2.0f);
  const VecF a = d[4] - four * d[2], b = d[3] - four * d[1], c = d[4] - d[2], e = two * (d[3] - d[1]);
  o[0] = four * d[0] + (d[4] - five * d[2]);
  o[1] = a + b;
  o[2] = a - b;
  o[3] = c + e;
  o[4] = c - e;
  o[5] = four * d[1] + (d[5] - five * d[3]);
}
// The same four to four.
QR_INLINE void transform_in(const VecF d[4], VecF o[4], Small) noexcept {
  o[0] = d[0] - d[2];
  o[1] = d[1] + d[2];
  o[2] = d[2] - d[1];
  o[3] = d[1] - d[3];
}
// o = A^T m, six to four.
QR_INLINE void transform_out(const VecF m[6], VecF o[4], Large) noexcept {
  const VecF a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
  o[0] = m[0] + a + c;
  o[1] = b + splat(2.0f) * d;
  o[2] = a + splat(4.0f) * c;
  o[3] = b + splat(8.0f) * d + m[5];
}
// Four to two.
QR_INLINE void transform_out(const VecF m[4], VecF o[2], Small) noexcept {
  o[0] = m[0] + m[1] + m[2];
  o[1] = m[1] - m[2] - m[3];
}

struct TilePlace {
  std::int64_t image, y, x;  // of the first output
};
TilePlace place_of(const Winograd &g, std::int64_t tile) noexcept {
  const Window &w = g.p.window;
  const std::int64_t of_phase = g.s.tiles_y * g.s.tiles_x, phases = std::int64_t{w.dh} * w.dw;
  const std::int64_t in_phase = tile % of_phase, phase = tile / of_phase % phases;
  return {tile / of_phase / phases, in_phase / g.s.tiles_x * g.s.side * w.dh + phase / w.dw,
          in_phase % g.s.tiles_x * g.s.side * w.dw + phase % w.dw};
}

// Tiles first + [begin, end) into rows [begin, end) of the planes of `to`.
template <class Side>
void inputs_of(const Winograd &g, std::int64_t first, std::int64_t begin, std::int64_t end, const float *zeros,
               float *to, Side side) noexcept {
  constexpr int t_end = Side::value + 2;  // points of a row
  const Window &w = g.p.window;
  const std::int64_t c_end = g.p.ic, stride = g.p.x_stride;
  for (std::int64_t t = begin; t < end; ++t) {
    const TilePlace at = place_of(g, first + t);
    const float *from[t_end * t_end];
    for (std::int64_t i = 0; i < t_end; ++i)
      for (std::int64_t j = 0; j < t_end; ++j) {
        const std::int64_t iy = at.y + i * w.dh - w.pad_top, ix = at.x + j * w.dw - w.pad_left;
        from[i * t_end + j] =
            iy >= 0 && iy < w.ih && ix >= 0 && ix < w.iw ? g.x + ((at.image * w.ih + iy) * w.iw + ix) * stride : zeros;
      }
    float *const row = to + t * g.s.in_step;
    const auto vector = [&](std::int64_t c, auto get) __attribute__((always_inline)) {
      VecF d[t_end * t_end];
      QR_UNROLL for (int j = 0; j < t_end; ++j) {
        VecF column[t_end], o[t_end];
        QR_UNROLL for (int i = 0; i < t_end; ++i) column[i] = get(from[i * t_end + j] + c);
        transform_in(column, o, side);
        QR_UNROLL for (int i = 0; i < t_end; ++i) d[i * t_end + j] = o[i];
      }
      QR_UNROLL for (int i = 0; i < t_end; ++i) {
        VecF o[t_end];
        transform_in(d + i * t_end, o, side);
        QR_UNROLL for (int j = 0; j < t_end; ++j) store(row + (i * t_end + j) * g.s.in_plane + c, o[j]);
      }
    };
    std::int64_t c = 0;
    for (; c + kLanes <= c_end; c += kLanes)
      vector(
          c, [](const float *p) __attribute__((always_inline)) { return load(p); });
    if (const int left = static_cast<int>(c_end - c); left > 0)
      vector(
          c, [=](const float *p) __attribute__((always_inline)) { return load_part(p, left); });
  }
}

void inputs(const Winograd &g, std::int64_t first, std::int64_t begin, std::int64_t end, const float *zeros,
            float *to) noexcept {
  if (g.s.side == 2) inputs_of(g, first, begin, end, zeros, to, Small{});
  else inputs_of(g, first, begin, end, zeros, to, Large{});
}

// Products [begin, end) of points * groups * panels, n tiles each.
void multiply_points(const Winograd &g, std::int64_t n, std::int64_t begin, std::int64_t end, const float *from,
                     float *to) noexcept {
  const WinogradShape &s = g.s;
  Gemm job;
  job.rows = n;
  job.k = s.group_inputs;
  job.x_step = s.in_step;
  job.y_step = s.out_step;
  const auto weights = [&](std::int64_t i) {
    return g.w + (i / s.panels * s.vectors + s.panel_begin(i % s.panels)) * kLanes * s.group_inputs;
  };
  // Whole vectors where no other group's products stand behind.
  const std::int64_t columns = g.p.groups > 1 ? s.group_outputs : s.out_step;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t plane = i / s.panels / g.p.groups, group = i / s.panels % g.p.groups, panel = i % s.panels,
                       column = s.panel_begin(panel) * kLanes;
    job.vectors = static_cast<int>(s.panel_vectors(panel));
    job.tail = static_cast<int>(min_of<std::int64_t>(kLanes, columns - column - (job.vectors - 1) * kLanes));
    job.x = from + plane * s.in_plane + group * s.group_inputs;
    job.w = weights(i);
    job.ahead = i + 1 < s.points * g.p.groups * s.panels ? weights(i + 1) : nullptr;
    job.y = to + plane * s.out_plane + group * s.group_outputs + column;
    run_gemm(job);
  }
}

// ---- tiles that are summed tap by tap

// Where weights of an output channel lie: of one point, behind each other for each input of the group.
struct WeightPlace {
  const float *first;
  std::int64_t step;
};
WeightPlace weights_of(const Winograd &g, std::int64_t point, std::int64_t channel) noexcept {
  const WinogradShape &s = g.s;
  const std::int64_t group = channel / s.group_outputs, of_group = channel % s.group_outputs,
                     vector = of_group / kLanes;
  std::int64_t panel = s.panels - 1;
  while (s.panel_begin(panel) > vector) --panel;
  const std::int64_t wide = s.panel_vectors(panel), begin = s.panel_begin(panel);
  const std::int64_t at = ((point * g.p.groups + group) * s.vectors + begin) * s.group_inputs + (vector - begin);
  return {g.w + at * kLanes + of_group % kLanes, wide * kLanes};
}

// What B^T made of a filter's three numbers, of the points that give them: 0, 1, -1, infinity. A difference that is
// nothing but rounding was zero.
QR_INLINE void from_points(VecF zero, VecF one, VecF minus_one, VecF infinity, VecF w[3], bool large) noexcept {
  const VecF difference = large ? minus_one - one : one - minus_one;
  const VecF noise = (abs(one) + abs(minus_one)) * splat(0x1p-20f);
  w[0] = large ? splat(4.0f) * zero : zero;
  w[1] = abs(difference) <= noise ? VecF{} : large ? splat(3.0f) * difference : difference;
  w[2] = infinity;
}

// The outputs of a tile for `lanes` channels of one group.
template <class Side>
void sum_taps(const Winograd &g, TilePlace at, std::int64_t channel, std::int64_t group, bool one_lane,
              VecF *o) noexcept {
  constexpr int m_end = Side::value, t_end = m_end + 2;
  constexpr int kPoints[4] = {0, 1, 2, t_end - 1};
  const Window &w = g.p.window;
  const float *pixels[t_end * t_end];
  for (std::int64_t i = 0; i < t_end; ++i)
    for (std::int64_t j = 0; j < t_end; ++j) {
      const std::int64_t iy = at.y + i * w.dh - w.pad_top, ix = at.x + j * w.dw - w.pad_left;
      pixels[i * t_end + j] = iy >= 0 && iy < w.ih && ix >= 0 && ix < w.iw
                                  ? g.x + ((at.image * w.ih + iy) * w.iw + ix) * g.p.x_stride + group * g.s.group_inputs
                                  : nullptr;
    }
  WeightPlace weights[16];
  for (int i = 0; i < 16; ++i) weights[i] = weights_of(g, kPoints[i / 4] * t_end + kPoints[i % 4], channel);
  for (int i = 0; i < m_end * m_end; ++i) o[i] = VecF{};
  for (std::int64_t k = 0; k < g.s.group_inputs; ++k) {
    VecF half_way[12], taps[9];
    for (int j = 0; j < 4; ++j) {
      VecF points[4], column[3];
      for (int i = 0; i < 4; ++i) {
        const WeightPlace &from = weights[i * 4 + j];
        points[i] = one_lane ? splat(from.first[k * from.step]) : load(from.first + k * from.step);
      }
      from_points(points[0], points[1], points[2], points[3], column, m_end == 4);
      for (int a = 0; a < 3; ++a) half_way[a * 4 + j] = column[a];
    }
    for (int a = 0; a < 3; ++a) {
      const VecF *const row = half_way + a * 4;
      from_points(row[0], row[1], row[2], row[3], taps + a * 3, m_end == 4);
    }
    for (int i = 0; i < t_end; ++i)
      for (int j = 0; j < t_end; ++j) {
        const float *const pixel = pixels[i * t_end + j];
        if (!pixel) continue;
        const VecF x = splat(pixel[k]);
        for (int a = max_of(0, i + 1 - m_end); a < min_of(3, i + 1); ++a)
          for (int b = max_of(0, j + 1 - m_end); b < min_of(3, j + 1); ++b) {
            VecF &sum = o[(i - a) * m_end + (j - b)];
            sum = fma(x, taps[a * 3 + b], sum);
          }
      }
  }
}

// `count` channels from `channel` on.
template <class Side>
__attribute__((noinline)) void sum_tile(const Winograd &g, const TilePlace &at, std::int64_t channel, int count,
                                        VecF *o) noexcept {
  if (g.p.groups == 1) return sum_taps<Side>(g, at, channel, 0, false, o);
  for (int lane = 0; lane < count; ++lane) {
    VecF own[Side::value * Side::value];
    sum_taps<Side>(g, at, channel + lane, (channel + lane) / g.s.group_outputs, true, own);
    for (int i = 0; i < Side::value * Side::value; ++i) o[i][lane] = own[i][0];
  }
}

template <class Side, class F>
void outputs_with(const Winograd &g, std::int64_t first, std::int64_t begin, std::int64_t end, const float *from,
                  Side side, F act) noexcept {
  constexpr int m_end = Side::value, t_end = m_end + 2;
  const Window &w = g.p.window;
  const std::int64_t c_end = g.p.oc;
  const Residual residual = g.p.residual;
  for (std::int64_t t = begin; t < end; ++t) {
    const TilePlace at = place_of(g, first + t);
    const std::int64_t rows = min_of<std::int64_t>(m_end, ceil_div<std::int64_t>(w.oh - at.y, w.dh)),
                       columns = min_of<std::int64_t>(m_end, ceil_div<std::int64_t>(w.ow - at.x, w.dw));
    if (rows <= 0 || columns <= 0) continue;  // of phases of few outputs
    const std::int64_t pixel = (at.image * w.oh + at.y) * w.ow + at.x;
    const float *const row = from + t * g.s.out_step;
    const auto vector = [&](std::int64_t c, int count, auto get, auto put) __attribute__((always_inline)) {
      VecF d[m_end * t_end], o[m_end * m_end];
      QR_UNROLL for (int j = 0; j < t_end; ++j) {
        VecF column[t_end], m[m_end];
        QR_UNROLL for (int i = 0; i < t_end; ++i) column[i] = load(row + (i * t_end + j) * g.s.out_plane + c);
        transform_out(column, m, side);
        QR_UNROLL for (int i = 0; i < m_end; ++i) d[i * t_end + j] = m[i];
      }
      QR_UNROLL for (int i = 0; i < m_end; ++i) transform_out(d + i * t_end, o + i * m_end, side);
      // Zero times what is finite is zero.
      VecF strange[2]{};
      QR_UNROLL for (int i = 0; i < m_end * m_end; ++i) strange[i % 2] = fma(o[i], VecF{}, strange[i % 2]);
      VecI spoilt = strange[0] + strange[1] != VecF{};
      if (count != kLanes) spoilt &= first_lanes(count);
      if (__builtin_expect(any_lane(spoilt), 0)) sum_tile<Side>(g, at, c, count, o);
      const VecF b = g.bias ? load(g.bias + c) : VecF{};
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) {
          const std::int64_t at_pixel = pixel + i * w.dh * w.ow + j * w.dw;
          VecF v = o[i * m_end + j] + b;
          if (residual == Residual::BeforeAct) v += get(g.r + at_pixel * g.p.r_stride + c, count);
          v = act(v);
          if (residual == Residual::AfterAct) v += get(g.r + at_pixel * g.p.r_stride + c, count);
          put(g.y + at_pixel * g.p.y_stride + c, v, count);
        }
    };
    std::int64_t c = 0;
    for (; c + kLanes <= c_end; c += kLanes)
      vector(
          c, kLanes, [](const float *p, int) __attribute__((always_inline)) { return load(p); },
          [](float *p, VecF v, int) __attribute__((always_inline)) { store(p, v); });
    if (c < c_end)
      vector(
          c, static_cast<int>(c_end - c),
          [](const float *p, int n) __attribute__((always_inline)) { return load_part(p, n); },
          [](float *p, VecF v, int n) __attribute__((always_inline)) { store_part(p, v, n); });
  }
}
void outputs(const Winograd &g, std::int64_t first, std::int64_t begin, std::int64_t end, const float *from) noexcept {
  with_activation(g.p.act, [&](auto act) {
    if (g.s.side == 2) outputs_with(g, first, begin, end, from, Small{}, act);
    else outputs_with(g, first, begin, end, from, Large{}, act);
  });
}

}  // namespace

void run_winograd(const Call &call) noexcept {
  const auto &p = call.as<ConvF32>();
  const WinogradShape s = winograd_shape(p, kLanes, kF32Panel);
  std::size_t operand = 2;
  Winograd g{p, s, call.operand<const float>(0), call.operand<const float>(1), nullptr, nullptr, nullptr};
  if (p.has_bias) g.bias = call.operand<const float>(operand++);
  if (p.residual != Residual::None) g.r = call.operand<const float>(operand++);
  g.y = call.operand<float>(operand);

  // Scratch: zeros, transformed inputs, products.
  const std::int64_t blocks = ceil_div(s.tiles, s.block), workers = call.threads.workers;
  const auto zeros_of = [&](std::uint32_t worker) { return reinterpret_cast<float *>(call.worker_scratch(worker)); };
  if (workers == 1 || blocks >= 2 * workers) {
    const double flops =
        2.0 * static_cast<double>(s.points) * static_cast<double>(s.block) * static_cast<double>(s.group_inputs) * p.oc;
    call.threads.run(
        static_cast<std::uint64_t>(blocks), static_cast<std::uint64_t>(1 + kWorthSharing / flops),
        [&](std::uint64_t block, std::uint64_t end, std::uint32_t worker) {
          float *const zeros = zeros_of(worker), *const in = zeros + s.in_step, *const out = in + s.points * s.in_plane;
          std::memset(zeros, 0, bytes_of<float>(s.in_step));
          for (; block < end; ++block) {
            const auto first = static_cast<std::int64_t>(block) * s.block, n = min_of(s.block, s.tiles - first);
            inputs(g, first, 0, n, zeros, in);
            multiply_points(g, n, 0, s.points * p.groups * s.panels, in, out);
            outputs(g, first, 0, n, out);
          }
        });
    return;
  }
  // Few blocks: all workers share each.
  float *const zeros = zeros_of(0), *const in = zeros + s.in_step, *const out = in + s.points * s.in_plane;
  std::memset(zeros, 0, bytes_of<float>(s.in_step));
  for (std::int64_t first = 0; first < s.tiles; first += s.block) {
    const std::int64_t n = min_of(s.block, s.tiles - first);
    const auto grain_of = [](double each) { return static_cast<std::uint64_t>(1 + kWorthSharing / each); };
    call.threads.run(static_cast<std::uint64_t>(n), grain_of(1000.0 * p.ic),
                     [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                       inputs(g, first, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end), zeros, in);
                     });
    const std::uint64_t count = static_cast<std::uint64_t>(s.points * p.groups * s.panels);
    const double flops =
        2.0 * static_cast<double>(s.points) * static_cast<double>(n) * static_cast<double>(s.group_inputs) * p.oc;
    call.threads.run(count, grain_of(flops / static_cast<double>(count)),
                     [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                       multiply_points(g, n, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end), in, out);
                     });
    call.threads.run(static_cast<std::uint64_t>(n), grain_of(1000.0 * p.oc),
                     [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                       outputs(g, first, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end), out);
                     });
  }
}

}  // namespace quarry::kernels::QR_ISA
