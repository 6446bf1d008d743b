// SPDX-License-Identifier: Apache-2.0
// Convolutions of groups of so few channels that a vector holds several groups (ResNeXt, RegNet), with as many outputs
// as inputs. A lane is an output channel. The inputs of its group lie in the same vector: of a pixel's vector, one
// permutation puts the j-th input of each group into all lanes of that group. Weights are packed
// [vector][tap row][tap][j][lanes]. Windows of three columns go by tiles of kTile pixels, which share what they read;
// what tiles cannot take goes a pixel at a time.
#include "kernels/cpu/contraction/gemm_tile.h"
#include "kernels/cpu/loops/taps.h"
#include "kernels/cpu/shapes/conv_shape.h"

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
  VecF low, high;     // of what is stored
  Residual residual;  // that finish() adds
  const float *r;     // or nullptr
  float *y;
  int count;  // channels; those beyond are not there
};

// The j-th input of each group comes to the lanes of the group. Groups are data (an index vector, which j is added to),
// so that one loop serves all of their sizes but one: inputs of a group that fills a vector are read as single numbers.
QR_INLINE VecI first_inputs(int group) noexcept {
  VecI lane;
  QR_UNROLL for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return lane & splat(-group);  // (groups are powers of two)
}
QR_INLINE VecF spread(VecF v, [[maybe_unused]] int j, [[maybe_unused]] VecI index) noexcept {
#if QR_ISA_BYTES == 16  // groups of two, without an instruction that takes an index: the compiler must know j
  return j == 0 ? VecF(__builtin_shufflevector(v, v, 0, 0, 2, 2)) : VecF(__builtin_shufflevector(v, v, 1, 1, 3, 3));
#elif defined(__AVX2__) && QR_ISA_BYTES == 32  // groups of two or four, which cross no half
  return reinterpret_cast<VecF>(_mm256_permutevar_ps(reinterpret_cast<__m256>(v), reinterpret_cast<__m256i>(index)));
#else
  return choose(v, index);
#endif
}

QR_INLINE VecF get(const float *p, int count) noexcept { return count == kLanes ? load(p) : load_part(p, count); }

__attribute__((noinline)) void finish(const Row &row, std::int64_t ox, VecF sum) noexcept {
  VecF v = sum + row.bias;  // last, so that the sum before it is rounded at its own size
  const float *const r = row.r + (row.r ? ox * row.p.r_stride : 0);
  if (row.residual == Residual::BeforeAct) v += get(r, row.count);
  v = clamp(v, row.low, row.high);
  if (row.residual == Residual::AfterAct) v += get(r, row.count);
  float *const y = row.y + ox * row.p.y_stride;
  if (row.count == kLanes) store(y, v);
  else store_part(y, v, row.count);
}

// kTile pixels from output column ox on. Of the columns of input that they see, the first `left` and the last `right`
// lie outside.
template <bool whole, int SW>
__attribute__((noinline)) void tile(const Row &row, int group, std::int64_t ox, std::int64_t left,
                                    std::int64_t right) noexcept {
  constexpr int kSide = 3, kColumns = (kTile - 1) * SW + kSide;
  const std::int64_t stride = row.p.x_stride, w_step = std::int64_t{group} * kLanes;
  VecF acc[kTile];
  QR_UNROLL for (int i = 0; i < kTile; ++i) acc[i] = VecF{};
  const float *from = row.x + (ox * SW - row.p.window.pad_left) * stride, *w = row.w;
  const VecI first = first_inputs(group);
  for (std::int64_t ky = 0; ky < row.tap_rows; ++ky, from += row.x_row, w += (kSide - 1) * w_step) {
    VecI index = first;
    const auto input = [&](int j) __attribute__((always_inline)) {
      VecF taps[kSide];
      QR_UNROLL for (int kx = 0; kx < kSide; ++kx) taps[kx] = load(w + kx * w_step);
      QR_UNROLL for (int column = 0; column < kColumns; ++column) {
        if (column < kSide / 2 && column < left) continue;
        if (column >= kColumns - kSide / 2 && column >= kColumns - right) continue;
        const float *const pixel = from + column * stride;
        const VecF in = whole ? splat(pixel[j]) : spread(load(pixel), j, index);
        QR_UNROLL for (int kx = 0; kx < kSide;
                       ++kx) if (column >= kx && (column - kx) % SW == 0 && (column - kx) / SW < kTile)
            acc[(column - kx) / SW] = fma(in, taps[kx], acc[(column - kx) / SW]);
      }
      index += 1, w += kLanes;
    };
    if constexpr (whole || kLanes > 4) {
      for (int j = 0; j < group; ++j) input(j);
    } else {
      input(0), input(1);
    }
  }
  if (row.residual != Residual::None) {
    QR_UNROLL for (int i = 0; i < kTile; ++i) finish(row, ox + i, acc[i]);
    return;
  }
  const VecF bias = row.bias, low = row.low, high = row.high;
  const std::int64_t y_stride = row.p.y_stride;
  float *y = row.y + ox * y_stride;
  QR_UNROLL for (int i = 0; i < kTile; ++i, y += y_stride) store(y, clamp(acc[i] + bias, low, high));
}

// All pixels of a row, one by one, of any window, some of whose taps may lie outside.
template <int G>
void pixels(const Row &row) noexcept {
  constexpr bool kWhole = G == kLanes;
  const Window &win = row.p.window;
  const VecI index = first_inputs(G);
  for (std::int64_t ox = 0; ox < win.ow; ++ox) {
    const std::int64_t at = ox * win.sw - win.pad_left;
    std::int64_t first, last;
    taps_inside(at, win.kw, win.dw, win.iw, &first, &last);
    VecF acc[G];
    QR_UNROLL for (int j = 0; j < G; ++j) acc[j] = VecF{};
    for (std::int64_t ky = 0; ky < row.tap_rows; ++ky)
      for (std::int64_t kx = first; kx < last; ++kx) {
        const float *const from = row.x + ky * row.x_row + (at + kx * win.dw) * row.p.x_stride;
        const VecF in = kWhole ? VecF{} : get(from, row.count);
        const float *const w = row.w + (ky * win.kw + kx) * G * kLanes;
        QR_UNROLL for (int j = 0; j < G; ++j) acc[j] =
            fma(kWhole ? splat(from[j]) : spread(in, j, index + j), load(w + j * kLanes), acc[j]);
      }
    QR_UNROLL for (int step = 1; step < G; step *= 2) QR_UNROLL for (int j = 0; j + step < G; j += 2 * step) acc[j] +=
        acc[j + step];
    finish(row, ox, acc[0]);
  }
}

struct Conv {
  const ConvF32 &p;
  const float *x, *w, *bias, *r;
  float *y;
  int group;                             // channels
  void (*pixels)(const Row &) noexcept;  // of such groups
};

// The tiles of a row; false: it does not go by tiles.
bool run_tiles(const Row &row, int group) noexcept {
  const Window &w = row.p.window;
  const std::int64_t beyond = std::int64_t{w.ow - 1} * w.sw + w.kw - w.pad_left - w.iw;
  // Only one column on each side of a tile may lie outside.
  if (w.kw != 3 || w.dw != 1 || w.sw > 2 || row.count != kLanes || w.ow < kTile || w.pad_left > 1 || beyond > 1)
    return false;
  auto *const run = group == kLanes ? w.sw == 1 ? tile<true, 1> : tile<true, 2>
                    : w.sw == 1 ? tile<false, 1>
                                    : tile<false, 2>;
  for (std::int64_t ox = 0; ox < w.ow; ox += kTile) {
    // The last tile may begin within the one before it.
    const std::int64_t at = min_of<std::int64_t>(ox, w.ow - kTile), first = at * w.sw - w.pad_left,
                       left = max_of<std::int64_t>(0, -first),
                       right = max_of<std::int64_t>(0, first + (kTile - 1) * w.sw + 3 - w.iw);
    run(row, group, at, left, right);
  }
  return true;
}

// Tasks are rows of output times vectors of channels.
void run_tasks(const Conv &conv, std::int64_t task, std::int64_t end) noexcept {
  const ConvF32 &p = conv.p;
  const Window &w = p.window;
  const std::int64_t vectors = ceil_div<std::int64_t>(p.ic, kLanes),
                     row_weights = std::int64_t{w.kw} * conv.group * kLanes;
  // Activations of more than a bound follow when a row is done.
  const bool clip = p.act.kind == Act::Clip, deferred = !clip && p.act.kind != Act::None,
             after = p.residual == Residual::AfterAct;
  const float endless = __builtin_inff();
  for (; task < end; ++task) {
    const std::int64_t i = task / vectors, v = task % vectors, image = i / w.oh, at = i % w.oh * w.sh - w.pad_top;
    std::int64_t first, last;
    taps_inside(at, w.kh, w.dh, w.ih, &first, &last);
    const std::int64_t out = i * w.ow, c = v * kLanes;
    const Row row{p,
                  conv.x + (image * w.ih + (first < last ? at + first * w.dh : 0)) * w.iw * p.x_stride + c,
                  std::int64_t{w.dh} * w.iw * p.x_stride,
                  last - first,
                  conv.w + (v * w.kh + first) * row_weights,
                  conv.bias ? load(conv.bias + c) : VecF{},
                  splat(clip ? p.act.a : -endless),
                  splat(clip ? p.act.b : endless),
                  deferred && after ? Residual::None : p.residual,
                  conv.r ? conv.r + out * p.r_stride + c : nullptr,
                  conv.y + out * p.y_stride + c,
                  static_cast<int>(min_of<std::int64_t>(kLanes, p.ic - c))};
    if (!run_tiles(row, conv.group)) conv.pixels(row);
    if (deferred) finish_rows(p.act, row.y, p.y_stride, w.ow, row.count, after ? row.r : nullptr, p.r_stride);
  }
}

// For groups of `each` channels, G or more.
template <int G>
auto pixels_of(std::int64_t each) noexcept -> void (*)(const Row &) noexcept {
  if constexpr (G < 16 && 2 * G <= kLanes) {
    if (each > G) return pixels_of<2 * G>(each);
  }
  return pixels<G>;
}

}  // namespace

void run_conv_groups(const Call &call) noexcept {
  const auto &p = call.as<ConvF32>();
  const Window &w = p.window;
  const int group = p.ic / p.groups;
  std::size_t operand = 2;
  Conv conv{p,     call.operand<const float>(0), call.operand<const float>(1), nullptr, nullptr, nullptr,
            group, pixels_of<2>(group)};
  if (p.has_bias) conv.bias = call.operand<const float>(operand++);
  if (p.residual != Residual::None) conv.r = call.operand<const float>(operand++);
  conv.y = call.operand<float>(operand);
  const std::int64_t vectors = ceil_div<std::int64_t>(p.ic, kLanes);
  const double task_flops = 2.0 * static_cast<double>(w.ow) * w.kh * w.kw * group * kLanes;
  call.threads.run(static_cast<std::uint64_t>(std::int64_t{w.n} * w.oh * vectors),
                   static_cast<std::uint64_t>(1 + kWorthSharing / task_flops),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     run_tasks(conv, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
                   });
}

}  // namespace quarry::kernels::QR_ISA
