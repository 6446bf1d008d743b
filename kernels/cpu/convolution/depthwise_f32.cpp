// SPDX-License-Identifier: Apache-2.0
// One filter per channel: a few pixels of a row of output at a time, all channels one vector after the other. Weights
// are packed [vector][tap][lanes]. The usual windows (3, 5 and 7 columns, strides 1 and 2) go by tiles of kTile pixels,
// those at the borders too; the loops for any window take what is left. Where several pixels of few channels fill a
// vector, a row is a line of numbers, and the pixel beside a number lies as many numbers on as there are channels.
#include "kernels/cpu/convolution/depthwise_planes.h"
#include "kernels/cpu/loops/parts.h"
#include "kernels/cpu/loops/prefetch.h"
#include "kernels/cpu/loops/taps.h"
#include "kernels/cpu/shapes/conv_shape.h"
#include "kernels/cpu/vector/activate.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

struct Depthwise {
  const DepthwiseF32 &p;
  const float *x, *w, *bias, *r;
  float *y;
  bool far;  // x and y are more than the near caches hold
  const Threads &threads;
};

// What the pixels of one row of output share.
struct Row {
  const Depthwise &d;
  const float *x;         // input row of the first tap row that lies inside
  std::int64_t x_row;     // elements from one tap row's input to the next's
  std::int64_t tap_rows;  // that lie inside
  const float *w;         // taps of the first vector of channels, at the first tap row
  std::int64_t y;         // first output pixel of the row
  VecF low, high;         // of what is stored
};

template <class Lanes>
QR_INLINE void put(const Row &row, std::int64_t pixel, std::int64_t c, VecF v, Lanes lanes) noexcept {
  lanes.put(row.d.y + pixel * row.d.p.y_stride + c, clamp(v, row.low, row.high));
}

// MR pixels from output column ox on, all of whose taps lie inside of the image. KW and SW 0: as the parameters say
// (and dilation 1 otherwise).
template <int MR, int KW, int SW, class Lanes>
QR_INLINE void interior(const Row &row, std::int64_t ox, std::int64_t c, Lanes lanes) noexcept {
  const DepthwiseF32 &p = row.d.p;
  const Window &win = p.window;
  const std::int64_t stride = p.x_stride;
  VecF acc[MR];
  QR_UNROLL for (int i = 0; i < MR; ++i) acc[i] = VecF{};
  const float *from = row.x + (ox * win.sw - win.pad_left) * stride + c;
  const float *w = row.w + c * win.kh * win.kw;
  for (std::int64_t ky = 0; ky < row.tap_rows; ++ky, from += row.x_row) {
    if constexpr (KW != 0) {
      VecF taps[KW];
      QR_UNROLL for (int kx = 0; kx < KW; ++kx) taps[kx] = load(w + kx * kLanes);
      QR_UNROLL for (int x = 0; x < (MR - 1) * SW + KW; ++x) {
        const VecF v = lanes.get(from + x * stride);
        QR_UNROLL for (int kx = 0; kx < KW; ++kx) if (x >= kx && (x - kx) % SW == 0 && (x - kx) / SW < MR)
            acc[(x - kx) / SW] = fma(v, taps[kx], acc[(x - kx) / SW]);
      }
      w += KW * kLanes;
    } else {
      for (std::int64_t kx = 0; kx < win.kw; ++kx, w += kLanes) {
        const VecF tap = load(w);
        QR_UNROLL for (int i = 0; i < MR; ++i) acc[i] =
            fma(lanes.get(from + (i * win.sw + kx * win.dw) * stride), tap, acc[i]);
      }
    }
  }
  const VecF bias =
      row.d.bias ? load(row.d.bias + c) : VecF{};  // last, so that the sum before it is rounded at its own size
  QR_UNROLL for (int i = 0; i < MR; ++i) put(row, row.y + ox + i, c, acc[i] + bias, lanes);
}

// One pixel, some of whose taps may lie outside: taps [first, last) of each row do not.
__attribute__((noinline)) void border(const Row &row, std::int64_t ox, std::int64_t first, std::int64_t last,
                                      std::int64_t c, WholeOrPart lanes) noexcept {
  const DepthwiseF32 &p = row.d.p;
  const Window &win = p.window;
  VecF acc{};
  const float *w = row.w + c * win.kh * win.kw;
  const std::int64_t column = ox * win.sw - win.pad_left;
  for (std::int64_t ky = 0; ky < row.tap_rows; ++ky, w += win.kw * kLanes)
    for (std::int64_t kx = first; kx < last; ++kx)
      acc =
          fma(lanes.get(row.x + ky * row.x_row + (column + kx * win.dw) * p.x_stride + c), load(w + kx * kLanes), acc);
  put(row, row.y + ox, c, row.d.bias ? acc + load(row.d.bias + c) : acc, lanes);
}

constexpr int kTile = 7;  // pixels: what the usual widths are multiples of

// kTile pixels from output column ox on, whole vectors of channels. Of the columns of input that they see, the first
// `left` and the last `right` lie outside.
template <int KW, int SW>
__attribute__((noinline)) void tile(const Row &row, std::int64_t ox, std::int64_t left, std::int64_t right) noexcept {
  constexpr int kColumns = (kTile - 1) * SW + KW, kEdge = KW / 2;
  const DepthwiseF32 &p = row.d.p;
  const std::int64_t stride = p.x_stride, x_row = row.x_row, y_stride = p.y_stride, rows = row.tap_rows,
                     vector_taps = std::int64_t{p.window.kh} * KW * kLanes;
  const std::int64_t vectors = p.c / kLanes, first = ox * SW - p.window.pad_left;
  const float *x = row.x + first * stride, *w = row.w, *bias = row.d.bias;
  const VecF low = row.low, high = row.high;
  float *y = row.d.y + (row.y + ox) * y_stride;
  for (std::int64_t v = 0; v < vectors; ++v, x += kLanes, w += vector_taps, y += kLanes) {
    VecF acc[kTile];
    QR_UNROLL for (int i = 0; i < kTile; ++i) acc[i] = VecF{};
    // Of the next tile, what no row before had: the processor does not foresee steps of whole pixels.
    const float *const next = x + (rows - 1) * x_row + ((kTile - 1) * SW + KW) * stride;
    if (row.d.far) {
      QR_UNROLL for (int i = 0; i < kTile * SW; ++i) prefetch_near(next + i * stride);
      QR_UNROLL for (int i = 0; i < kTile; ++i) prefetch_write(y + (kTile + i) * y_stride);
    }
    const float *from = x, *taps_at = w;
    for (std::int64_t ky = 0; ky < rows; ++ky, from += x_row, taps_at += KW * kLanes) {
      VecF taps[KW];
      QR_UNROLL for (int kx = 0; kx < KW; ++kx) taps[kx] = load(taps_at + kx * kLanes);
      QR_UNROLL for (int column = 0; column < kColumns; ++column) {
        if (column < kEdge && column < left) continue;
        if (column >= kColumns - kEdge && column >= kColumns - right) continue;
        const VecF in = load(from + column * stride);
        QR_UNROLL for (int kx = 0; kx < KW;
                       ++kx) if (column >= kx && (column - kx) % SW == 0 && (column - kx) / SW < kTile)
            acc[(column - kx) / SW] = fma(in, taps[kx], acc[(column - kx) / SW]);
      }
    }
    const VecF b =
        bias ? load(bias + v * kLanes) : VecF{};  // last, so that the sum before it is rounded at its own size
    QR_UNROLL for (int i = 0; i < kTile; ++i) store(y + i * y_stride, clamp(acc[i] + b, low, high));
  }
}

#if (defined(__AVX512F__) && QR_ISA_BYTES == 64) || defined(__aarch64__)  // 32 registers
inline constexpr bool kPairs = true;
#else
inline constexpr bool kPairs = false;
#endif

// The same of two rows one below the other, 3 taps high and wide, all of whose rows of taps lie inside: what both see
// is read once. Sums are made in the same order.
[[maybe_unused]] __attribute__((noinline)) void tile_pair(const Row &row, std::int64_t ox, std::int64_t left,
                                                          std::int64_t right) noexcept {
  constexpr int kSide = 3, kColumns = kTile - 1 + kSide;
  const DepthwiseF32 &p = row.d.p;
  const std::int64_t stride = p.x_stride, x_row = row.x_row, y_stride = p.y_stride, y_row = p.window.ow * y_stride;
  const std::int64_t vectors = p.c / kLanes, first = ox - p.window.pad_left;
  // Tiles until one that is fetched ahead: some vectors' time.
  const std::int64_t ahead = vectors < 4 ? 4 / vectors : 1;
  const float *x = row.x + first * stride, *w = row.w, *bias = row.d.bias;
  const VecF low = row.low, high = row.high;
  float *y = row.d.y + (row.y + ox) * y_stride;
  for (std::int64_t v = 0; v < vectors; ++v, x += kLanes, w += kSide * kSide * kLanes, y += kLanes) {
    VecF acc[2][kTile], taps[kSide][kSide];
    QR_UNROLL for (int i = 0; i < kTile; ++i) acc[0][i] = acc[1][i] = VecF{};
    QR_UNROLL for (int ky = 0; ky < kSide; ++ky) QR_UNROLL for (int kx = 0; kx < kSide; ++kx) taps[ky][kx] =
        load(w + (ky * kSide + kx) * kLanes);
    if (row.d.far) {
      const float *const next = x + 2 * x_row + (ahead * kTile + kSide - 1) * stride;
      QR_UNROLL for (int i = 0; i < kTile; ++i) prefetch_near(next + i * stride),
          prefetch_near(next + x_row + i * stride);
      QR_UNROLL for (int i = 0; i < kTile; ++i) prefetch_write(y + (ahead * kTile + i) * y_stride),
          prefetch_write(y + y_row + (ahead * kTile + i) * y_stride);
    }
    const float *from = x;
    QR_UNROLL for (int line = 0; line < kSide + 1; ++line, from += x_row) {
      QR_UNROLL for (int column = 0; column < kColumns; ++column) {
        if (column == 0 && left > 0) continue;
        if (column == kColumns - 1 && right > 0) continue;
        const VecF in = load(from + column * stride);
        QR_UNROLL for (int of = 0; of < 2; ++of)
            QR_UNROLL for (int kx = 0; kx < kSide;
                           ++kx) if (line >= of && line - of < kSide && column >= kx && column - kx < kTile)
                acc[of][column - kx] = fma(in, taps[line - of][kx], acc[of][column - kx]);
      }
    }
    const VecF b = bias ? load(bias + v * kLanes) : VecF{};
    QR_UNROLL for (int of = 0; of < 2; ++of) {
      QR_UNROLL for (int i = 0; i < kTile; ++i) store(y + of * y_row + i * y_stride, clamp(acc[of][i] + b, low, high));
    }
  }
}

template <int MR, int KW, int SW>
QR_INLINE void interior_channels(const Row &row, std::int64_t ox, std::int64_t c) noexcept {
  const std::int64_t end = row.d.p.c;
  for (; c + kLanes <= end; c += kLanes) interior<MR, KW, SW>(row, ox, c, Whole{});
  if (c < end) interior<MR, KW, SW>(row, ox, c, Part{static_cast<int>(end - c)});
}

// The pixels [ox, end), all of whose taps lie inside, as a line: the weights that `row` has are repeated for as many
// pixels as a vector holds.
template <int KW>
QR_INLINE void line(const Row &row, std::int64_t ox, std::int64_t end) noexcept {
  constexpr int kVectors = 4;
  const std::int64_t c = row.d.p.c, length = (end - ox) * c, x_row = row.x_row;
  const float *const x = row.x + (ox - row.d.p.window.pad_left) * c;
  const VecF bias = row.d.bias ? load(row.d.bias) : VecF{};
  const auto vectors = [&]<int N>(std::integral_constant<int, N>, std::int64_t at, auto lanes)
      __attribute__((always_inline)) {
    VecF acc[N];
    QR_UNROLL for (int i = 0; i < N; ++i) acc[i] = VecF{};
    const float *from = x + at, *w = row.w;
    for (std::int64_t ky = 0; ky < row.tap_rows; ++ky, from += x_row)
      QR_UNROLL for (int kx = 0; kx < KW; ++kx, w += kLanes) {
        const VecF tap = load(w);
        QR_UNROLL for (int i = 0; i < N; ++i) acc[i] = fma(lanes.get(from + kx * c + i * kLanes), tap, acc[i]);
      }
    QR_UNROLL for (int i = 0; i < N; ++i) put(row, row.y + ox, at + i * kLanes, acc[i] + bias, lanes);
  };
  constexpr std::int64_t kStep = kVectors * kLanes;
  std::int64_t at = 0;
  for (; at + kStep <= length; at += kStep) vectors(std::integral_constant<int, kVectors>{}, at, Whole{});
  // The last ones may begin within those before them, as the last tile may.
  if (at < length && length >= kStep) return vectors(std::integral_constant<int, kVectors>{}, length - kStep, Whole{});
  for (; at < length; at += kLanes)
    vectors(std::integral_constant<int, 1>{}, at,
            WholeOrPart{static_cast<int>(min_of<std::int64_t>(kLanes, length - at))});
}

// What the rows of an output have in common.
struct Columns {
  std::int64_t inside_begin, inside_end;  // output columns all of whose taps lie inside
  bool tiles;                             // whether whole vectors of channels go by tiles
  bool line;                              // whether a vector holds several pixels
};

// The tiles of a row, or of two.
template <int KW, int SW>
void run_tiles(const Row &row, [[maybe_unused]] bool pair) noexcept {
  const Window &w = row.d.p.window;
  const std::int64_t work = std::int64_t{kTile} * w.kh * KW * row.d.p.c;
  Asker asker(row.d.threads);
  for (std::int64_t ox = 0; ox < w.ow && !asker.stopped(work); ox += kTile) {
    const std::int64_t at = min_of<std::int64_t>(ox, w.ow - kTile),
                       left = max_of<std::int64_t>(0, w.pad_left - at * SW),
                       right = max_of<std::int64_t>(0, at * SW - w.pad_left + (kTile - 1) * SW + KW - w.iw);
    if constexpr (kPairs && KW == 3 && SW == 1) {
      if (pair) {
        tile_pair(row, at, left, right);
        continue;
      }
    }
    tile<KW, SW>(row, at, left, right);
  }
}

// What tiles leave of a row.
template <int KW, int SW>
void run_row(const Row &row, const Columns &columns) noexcept {
  const DepthwiseF32 &p = row.d.p;
  const Window &w = p.window;
  const std::int64_t channel = columns.tiles ? p.c / kLanes * kLanes : 0;
  if (channel == p.c) return;
  const auto borders = [&](std::int64_t ox, std::int64_t end) {
    for (; ox < end; ++ox) {
      std::int64_t first, last;
      taps_inside(ox * w.sw - w.pad_left, w.kw, w.dw, w.iw, &first, &last);
      for (std::int64_t c = channel; c < p.c; c += kLanes)
        border(row, ox, first, last, c, WholeOrPart{static_cast<int>(min_of<std::int64_t>(kLanes, p.c - c))});
    }
  };
  borders(0, columns.inside_begin);
  std::int64_t ox = columns.inside_begin;
  if constexpr (KW != 0 && SW == 1) {
    if (columns.line) line<KW>(row, ox, columns.inside_end), ox = columns.inside_end;
  }
  const std::int64_t work = 3 * std::int64_t{w.kh} * w.kw * (p.c - channel);
  Asker asker(row.d.threads);
  for (; ox + 3 <= columns.inside_end && !asker.stopped(work); ox += 3) interior_channels<3, KW, SW>(row, ox, channel);
  for (; ox < columns.inside_end; ++ox) interior_channels<1, KW, SW>(row, ox, channel);
  borders(columns.inside_end, w.ow);
}

// Residuals and activations of more than a bound follow when a row is done: there is no room for them in the loops
// above. With a residual the row is made in scratch, as y may be what is added.
bool follows(const DepthwiseF32 &p) noexcept {
  return p.residual != Residual::None || (p.act.kind != Act::None && p.act.kind != Act::Clip);
}
void finish_row(const Row &row, float *final_y) noexcept {
  const DepthwiseF32 &p = row.d.p;
  std::int64_t pixels = p.window.ow, count = p.c;
  if (p.y_stride == p.c && (p.residual == Residual::None || p.r_stride == p.c)) count *= pixels, pixels = 1;
  for (std::int64_t pixel = row.y; pixel < row.y + pixels; ++pixel) {
    float *const y = row.d.y + pixel * p.y_stride;
    const float *const r = row.d.r + pixel * p.r_stride;
    if (p.residual == Residual::BeforeAct)
      for (std::int64_t i = 0; i < count; ++i) y[i] += r[i];
    if (p.act.kind != Act::None) activate_in_place(p.act, y, count);
    if (p.residual == Residual::AfterAct)
      for (std::int64_t i = 0; i < count; ++i) y[i] += r[i];
    if (row.d.y != final_y) std::memcpy(final_y + pixel * p.y_stride, y, bytes_of<float>(count));
  }
}

constexpr int kRowTaps = 25;  // of a window that goes by rows, at most

bool goes_by_rows(const DepthwiseF32 &p) noexcept {
  return p.c < kLanes && kLanes % p.c == 0 && std::int64_t{p.window.kh} * p.window.kw <= kRowTaps &&
         p.x_stride == p.c && p.y_stride == p.c && (p.residual == Residual::None || p.r_stride == p.c);
}

// Code for windows of so many columns and steps.
struct Form {
  void (*tiles)(const Row &row, bool pair) noexcept;  // or nullptr
  void (*rest)(const Row &row, const Columns &columns) noexcept;
};
template <int KW, int SW>
constexpr Form kForm = {run_tiles<KW, SW>, run_row<KW, SW>};
constexpr Form kAnyForm = {nullptr, run_row<0, 0>};
Form form_of(const Window &w) noexcept {
  if (w.dw != 1 || w.sw > 2) return kAnyForm;
  switch (w.kw) {
    case 3: return w.sw == 1 ? kForm<3, 1> : kForm<3, 2>;
    case 5: return w.sw == 1 ? kForm<5, 1> : kForm<5, 2>;
    case 7: return w.sw == 1 ? kForm<7, 1> : kForm<7, 2>;
    default: return kAnyForm;
  }
}

void run_rows(Depthwise d, Form form, std::int64_t begin, std::int64_t end, float *scratch) noexcept {
  const DepthwiseF32 &p = d.p;
  const Window &w = p.window;
  const std::int64_t reach = std::int64_t{w.kw - 1} * w.dw + 1;
  Columns columns;
  columns.inside_begin = min_of<std::int64_t>(w.ow, ceil_div<std::int64_t>(w.pad_left, w.sw));
  const std::int64_t room = w.iw + std::int64_t{w.pad_left} - reach;
  columns.inside_end =
      room < 0 ? columns.inside_begin : max_of(columns.inside_begin, min_of<std::int64_t>(w.ow, room / w.sw + 1));
  const std::int64_t beyond = std::int64_t{w.ow - 1} * w.sw + w.kw - w.pad_left - w.iw;
  columns.tiles = form.tiles && p.c >= kLanes && w.ow >= kTile && w.pad_left <= w.kw / 2 && beyond <= w.kw / 2;
  columns.line = form.tiles && w.sw == 1 && goes_by_rows(p);
  alignas(64) float repeated[(kRowTaps + 1) * kLanes];  // the weights of each tap, then the bias
  if (columns.line) {
    const std::int64_t taps = std::int64_t{w.kh} * w.kw;
    const auto repeat = [&](const float *from, float *to) {
      for (std::int64_t at = 0; at < kLanes; at += p.c)
        for (std::int64_t c = 0; c < p.c; ++c) to[at + c] = from[c];
    };
    for (std::int64_t tap = 0; tap < taps; ++tap) repeat(d.w + tap * kLanes, repeated + tap * kLanes);
    if (d.bias) repeat(d.bias, repeated + taps * kLanes);
    d.w = repeated;
    if (d.bias) d.bias = repeated + taps * kLanes;
  }
  const bool deferred = follows(p), bounded = !deferred && p.act.kind == Act::Clip;
  const VecF low = splat(bounded ? p.act.a : -__builtin_inff()), high = splat(bounded ? p.act.b : __builtin_inff());
  const auto row_of = [&](std::int64_t i) {
    const std::int64_t image = i / w.oh, oy = i % w.oh, at = oy * w.sh - w.pad_top;
    std::int64_t first, last;
    taps_inside(at, w.kh, w.dh, w.ih, &first, &last);
    return Row{d,
               d.x + (image * w.ih + (first < last ? at + first * w.dh : 0)) * w.iw * p.x_stride,
               std::int64_t{w.dh} * w.iw * p.x_stride,
               last - first,
               d.w + first * w.kw * kLanes,
               i * w.ow,
               low,
               high};
  };
  float *const final_y = d.y;
  const bool pairs = kPairs && columns.tiles && w.kw == 3 && w.sw == 1 && w.kh == 3 && w.sh == 1 && w.dh == 1;
  for (std::int64_t i = begin; i < end;) {
    if (p.residual != Residual::None) d.y = scratch - i * w.ow * p.y_stride;
    const Row row = row_of(i);
    const std::int64_t oy = i % w.oh;
    const bool pair = pairs && i + 1 < end && row.tap_rows == 3 && oy + 1 < w.oh && oy + 2 - w.pad_top + 1 < w.ih;
    if (columns.tiles) form.tiles(row, pair);
    form.rest(row, columns);
    if (pair) form.rest(row_of(i + 1), columns);
    if (deferred) {
      finish_row(row, final_y);
      if (pair) finish_row(row_of(i + 1), final_y);
    }
    i += 1 + pair;
  }
}

}  // namespace

void run_DepthwiseF32(const Call &call) {
  const auto &p = call.as<DepthwiseF32>();
  if (p.x_stride == kPlanes) return run_depthwise_planes(call);
  const Window &w = p.window;
  std::size_t operand = 2;
  Depthwise d{p,           call.operand<const float>(0), call.operand<const float>(1), nullptr, nullptr, nullptr, false,
              call.threads};
  if (p.has_bias) d.bias = call.operand<const float>(operand++);
  if (p.residual != Residual::None) d.r = call.operand<const float>(operand++);
  d.y = call.operand<float>(operand);
  constexpr std::int64_t kFarFloats = 256 << 10;
  d.far = w.n * (std::int64_t{w.ih} * w.iw * p.x_stride + std::int64_t{w.oh} * w.ow * p.y_stride) > kFarFloats;
  const Form form = form_of(w);
  const double row_work = static_cast<double>(w.ow) * p.c * w.kh * w.kw;
  constexpr std::int64_t kMostTile = 1 << 24;  // of what is not asked within: some pixels of all channels
  const std::int64_t together =
      max_of<std::int64_t>(1, kMostTile / (std::int64_t{kTile} * w.kh * w.kw) / kLanes) * kLanes;
  call.threads.run(static_cast<std::uint64_t>(w.n) * static_cast<std::uint64_t>(w.oh),
                   static_cast<std::uint64_t>(1 + 1e5 / row_work),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     auto *const scratch = reinterpret_cast<float *>(call.worker_scratch(worker));
                     if (p.c <= together)
                       return run_rows(d, form, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end),
                                       scratch);
                     // Of a great many channels some at a time, between which it is asked whether to stop.
                     for (Parts part(call.threads, p.c, together); part.next();) {
                       DepthwiseF32 some = p;
                       some.c = static_cast<std::int32_t>(part.end - part.begin);
                       const Depthwise here{some,
                                            d.x + part.begin,
                                            d.w + part.begin * w.kh * w.kw,
                                            d.bias ? d.bias + part.begin : nullptr,
                                            d.r ? d.r + part.begin : nullptr,
                                            d.y + part.begin,
                                            d.far,
                                            d.threads};
                       run_rows(here, form, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end), scratch);
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
