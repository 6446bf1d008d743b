// SPDX-License-Identifier: Apache-2.0
// Convolutions of groups of so few channels that a vector holds several groups (ResNeXt, RegNet), with as many outputs
// as inputs. A lane is an output channel. The inputs of its group lie in the same vector: of a pixel's vector, one
// shuffle puts the j-th input of each group into all lanes of that group. Weights are packed
// [vector][tap row][tap][j][lanes]. Windows of three columns go by tiles of kTile pixels, which share what they read;
// what tiles cannot take goes a pixel at a time.
#include <utility>

#include "backends/common/kernels/conv_shape.h"
#include "backends/common/kernels/isa/activate.h"
#include "backends/common/kernels/isa/kernels.h"
#include "backends/common/kernels/isa/parts.h"
#include "backends/common/kernels/isa/taps.h"

namespace quarry::kernels::QR_ISA {

namespace {

constexpr int kTile = 7;  // pixels: what the usual widths are multiples of

// A row of output, of one vector of channels.
struct Row {
  const ConvF32 &p;
  const float *x;         // its channels at the first pixel of the input row of the first tap row that lies inside
  std::int64_t x_row;     // elements from one tap row's input to the next's
  std::int64_t tap_rows;  // that lie inside
  const float *w;         // the weights of the first of them
  VecF bias;
  const float *r;  // or nullptr
  float *y;
  int count;  // channels; those beyond are not there
};

// Lane l of the result: lane l / G * G + J.
template <int G, int J, int... L>
QR_INLINE VecF spread_lanes(VecF v, std::integer_sequence<int, L...>) noexcept {
  return __builtin_shufflevector(v, v, (L / G * G + J)...);
}
template <int G, int J>
QR_INLINE VecF spread(VecF v) noexcept {
  return spread_lanes<G, J>(v, std::make_integer_sequence<int, kLanes>{});
}
// body(integral_constant j) for each j of a group.
template <class Body, int... J>
QR_INLINE void each_of(Body &&body, std::integer_sequence<int, J...>) noexcept {
  (body(std::integral_constant<int, J>{}), ...);
}
template <int G, class Body>
QR_INLINE void each_input(Body &&body) noexcept {
  each_of(body, std::make_integer_sequence<int, G>{});
}

template <class Lanes, class F>
QR_INLINE void finish(const Row &row, std::int64_t ox, VecF sum, Lanes lanes, F act) noexcept {
  VecF v = sum + row.bias;  // last, so that the sum before it is rounded at its own size
  const float *const r = row.r + (row.r ? ox * row.p.r_stride : 0);
  if (row.p.residual == Residual::BeforeAct) v += lanes.get(r);
  v = act(v);
  if (row.p.residual == Residual::AfterAct) v += lanes.get(r);
  lanes.put(row.y + ox * row.p.y_stride, v);
}

// kTile pixels from output column ox on. Of the columns of input that they see, the first `left` and the last `right`
// lie outside.
template <int G, int SW, class F>
__attribute__((noinline)) void tile(const Row &row, std::int64_t ox, std::int64_t left, std::int64_t right,
                                    F act) noexcept {
  constexpr int kSide = 3, kColumns = (kTile - 1) * SW + kSide;
  const std::int64_t stride = row.p.x_stride;
  VecF acc[kTile];
  QR_UNROLL for (int i = 0; i < kTile; ++i) acc[i] = VecF{};
  const float *from = row.x + (ox * SW - row.p.window.pad_left) * stride, *w = row.w;
  for (std::int64_t ky = 0; ky < row.tap_rows; ++ky, from += row.x_row, w += kSide * G * kLanes)
    each_input<G>([&]<int J>(std::integral_constant<int, J>) __attribute__((always_inline)) {
      VecF taps[kSide];
      QR_UNROLL for (int kx = 0; kx < kSide; ++kx) taps[kx] = load(w + (kx * G + J) * kLanes);
      QR_UNROLL for (int column = 0; column < kColumns; ++column) {
        if (column < kSide / 2 && column < left) continue;
        if (column >= kColumns - kSide / 2 && column >= kColumns - right) continue;
        const VecF in = spread<G, J>(load(from + column * stride));
        QR_UNROLL for (int kx = 0; kx < kSide;
                       ++kx) if (column >= kx && (column - kx) % SW == 0 && (column - kx) / SW < kTile)
            acc[(column - kx) / SW] = fma(in, taps[kx], acc[(column - kx) / SW]);
      }
    });
  QR_UNROLL for (int i = 0; i < kTile; ++i) finish(row, ox + i, acc[i], Whole{}, act);
}

// One pixel, of any window, some of whose taps may lie outside.
template <int G, class Lanes, class F>
QR_INLINE void pixel(const Row &row, std::int64_t ox, Lanes lanes, F act) noexcept {
  const Window &win = row.p.window;
  const std::int64_t at = ox * win.sw - win.pad_left;
  std::int64_t first, last;
  taps_inside(at, win.kw, win.dw, win.iw, &first, &last);
  VecF acc[G];
  QR_UNROLL for (int j = 0; j < G; ++j) acc[j] = VecF{};
  for (std::int64_t ky = 0; ky < row.tap_rows; ++ky)
    for (std::int64_t kx = first; kx < last; ++kx) {
      const VecF in = lanes.get(row.x + ky * row.x_row + (at + kx * win.dw) * row.p.x_stride);
      const float *const w = row.w + (ky * win.kw + kx) * G * kLanes;
      each_input<G>([&]<int J>(std::integral_constant<int, J>) __attribute__((always_inline)) {
        acc[J] = fma(spread<G, J>(in), load(w + J * kLanes), acc[J]);
      });
    }
  QR_UNROLL for (int step = 1; step < G; step *= 2) QR_UNROLL for (int j = 0; j + step < G; j += 2 * step) acc[j] +=
      acc[j + step];
  finish(row, ox, acc[0], lanes, act);
}

template <int G, int SW, class F>
QR_INLINE void run_row(const Row &row, bool tiles, F act) noexcept {
  const Window &w = row.p.window;
  if constexpr (SW != 0) {
    for (std::int64_t ox = 0; tiles && ox < w.ow; ox += kTile) {
      // The last tile may begin within the one before it.
      const std::int64_t at = min_of<std::int64_t>(ox, w.ow - kTile),
                         left = max_of<std::int64_t>(0, w.pad_left - at * SW),
                         right = max_of<std::int64_t>(0, at * SW - w.pad_left + (kTile - 1) * SW + 3 - w.iw);
      tile<G, SW>(row, at, left, right, act);
    }
    if (tiles) return;
  }
  if (row.count == kLanes)
    for (std::int64_t ox = 0; ox < w.ow; ++ox) pixel<G>(row, ox, Whole{}, act);
  else
    for (std::int64_t ox = 0; ox < w.ow; ++ox) pixel<G>(row, ox, Part{row.count}, act);
}

struct Conv {
  const ConvF32 &p;
  const float *x, *w, *bias, *r;
  float *y;
};

// Tasks are rows of output times vectors of channels.
template <int G, int SW>
void run_tasks(const Conv &conv, std::int64_t task, std::int64_t end) noexcept {
  const ConvF32 &p = conv.p;
  const Window &w = p.window;
  const std::int64_t vectors = ceil_div<std::int64_t>(p.ic, kLanes), row_weights = std::int64_t{w.kw} * G * kLanes;
  const std::int64_t beyond = std::int64_t{w.ow - 1} * w.sw + w.kw - w.pad_left - w.iw;
  for (; task < end; ++task) {
    const std::int64_t i = task / vectors, v = task % vectors, image = i / w.oh, at = i % w.oh * w.sh - w.pad_top;
    std::int64_t first, last;
    taps_inside(at, w.kh, w.dh, w.ih, &first, &last);
    const std::int64_t pixels = i * w.ow, c = v * kLanes;
    const Row row{p,
                  conv.x + (image * w.ih + (first < last ? at + first * w.dh : 0)) * w.iw * p.x_stride + c,
                  std::int64_t{w.dh} * w.iw * p.x_stride,
                  last - first,
                  conv.w + (v * w.kh + first) * row_weights,
                  conv.bias ? load(conv.bias + c) : VecF{},
                  conv.r ? conv.r + pixels * p.r_stride + c : nullptr,
                  conv.y + pixels * p.y_stride + c,
                  static_cast<int>(min_of<std::int64_t>(kLanes, p.ic - c))};
    // Only one column on each side of a tile may lie outside.
    const bool tiles = row.count == kLanes && w.ow >= kTile && w.pad_left <= 1 && beyond <= 1;
    with_activation(
        p.act, [&](auto act) __attribute__((always_inline)) { run_row<G, SW>(row, tiles, act); });
  }
}

// For groups of `each` channels, G or more.
template <int G>
auto tasks_of(std::int64_t each, const Window &w) noexcept
    -> void (*)(const Conv &, std::int64_t, std::int64_t) noexcept {
  if constexpr (G < 16 && 2 * G <= kLanes) {
    if (each > G) return tasks_of<2 * G>(each, w);
  }
  if (w.kw != 3 || w.dw != 1 || w.sw > 2) return run_tasks<G, 0>;
  return w.sw == 1 ? run_tasks<G, 1> : run_tasks<G, 2>;
}

}  // namespace

void run_conv_groups(const Call &call) noexcept {
  const auto &p = call.as<ConvF32>();
  const Window &w = p.window;
  std::size_t operand = 2;
  Conv conv{p, call.operand<const float>(0), call.operand<const float>(1), nullptr, nullptr, nullptr};
  if (p.has_bias) conv.bias = call.operand<const float>(operand++);
  if (p.residual != Residual::None) conv.r = call.operand<const float>(operand++);
  conv.y = call.operand<float>(operand);
  const std::int64_t each = p.ic / p.groups, vectors = ceil_div<std::int64_t>(p.ic, kLanes);
  auto *const run = tasks_of<2>(each, w);
  const double task_flops = 2.0 * static_cast<double>(w.ow) * w.kh * w.kw * static_cast<double>(each) * kLanes;
  call.threads.run(static_cast<std::uint64_t>(std::int64_t{w.n} * w.oh * vectors),
                   static_cast<std::uint64_t>(1 + kWorthSharing / task_flops),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     run(conv, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
                   });
}

}  // namespace quarry::kernels::QR_ISA
