// SPDX-License-Identifier: Apache-2.0
// One filter per channel: a few pixels of a row of output at a time, all channels one vector after the other. Weights are packed [vector][tap][lanes].
#include "backends/common/kernels/isa/activate.h"
#include "backends/common/kernels/isa/kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

struct Depthwise {
  const DepthwiseF32 &p;
  const float *x, *w, *bias, *r;
  float *y;
};

struct Whole {
  __attribute__((always_inline)) VecF get(const float *p) const noexcept { return load(p); }
  __attribute__((always_inline)) void put(float *p, VecF v) const noexcept { store(p, v); }
};
struct Part {
  int count;
  __attribute__((always_inline)) VecF get(const float *p) const noexcept { return load_part(p, count); }
  __attribute__((always_inline)) void put(float *p, VecF v) const noexcept { store_part(p, v, count); }
};

// What the pixels of one row of output share.
struct Row {
  const Depthwise &d;
  const float *x;        // input row of the first tap row that lies inside
  std::int64_t x_row;    // elements from one tap row's input to the next's
  std::int64_t tap_rows; // that lie inside
  const float *w;        // taps of the first vector of channels, at the first tap row
  std::int64_t y;        // first output pixel of the row
  Residual residual;     // that put() adds
};

template <class Lanes, class F>
QR_INLINE void put(const Row &row, std::int64_t pixel, std::int64_t c, VecF v, Lanes lanes, F act) noexcept {
  const DepthwiseF32 &p = row.d.p;
  const float *const r = row.d.r + pixel * p.r_stride + c;
  if (row.residual == Residual::BeforeAct) v += lanes.get(r);
  v = act(v);
  if (row.residual == Residual::AfterAct) v += lanes.get(r);
  lanes.put(row.d.y + pixel * p.y_stride + c, v);
}

// MR pixels from output column ox on, all of whose taps lie inside of the image. KW and SW 0: as the parameters say (and dilation 1 otherwise).
template <int MR, int KW, int SW, class Lanes, class F>
QR_INLINE void interior(const Row &row, std::int64_t ox, std::int64_t c, Lanes lanes, F act) noexcept {
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
        QR_UNROLL for (int kx = 0; kx < KW; ++kx)
          if (x >= kx && (x - kx) % SW == 0 && (x - kx) / SW < MR) acc[(x - kx) / SW] = fma(v, taps[kx], acc[(x - kx) / SW]);
      }
      w += KW * kLanes;
    } else {
      for (std::int64_t kx = 0; kx < win.kw; ++kx, w += kLanes) {
        const VecF tap = load(w);
        QR_UNROLL for (int i = 0; i < MR; ++i) acc[i] = fma(lanes.get(from + (i * win.sw + kx * win.dw) * stride), tap, acc[i]);
      }
    }
  }
  const VecF bias = row.d.bias ? load(row.d.bias + c) : VecF{};  // last, so that the sum before it is rounded at its own size
  QR_UNROLL for (int i = 0; i < MR; ++i) put(row, row.y + ox + i, c, acc[i] + bias, lanes, act);
}

// One pixel, some of whose taps may lie outside: taps [first, last) of each row do not.
template <class Lanes, class F>
QR_INLINE void border(const Row &row, std::int64_t ox, std::int64_t first, std::int64_t last, std::int64_t c, Lanes lanes, F act) noexcept {
  const DepthwiseF32 &p = row.d.p;
  const Window &win = p.window;
  VecF acc{};
  const float *w = row.w + c * win.kh * win.kw;
  const std::int64_t column = ox * win.sw - win.pad_left;
  for (std::int64_t ky = 0; ky < row.tap_rows; ++ky, w += win.kw * kLanes)
    for (std::int64_t kx = first; kx < last; ++kx) acc = fma(lanes.get(row.x + ky * row.x_row + (column + kx * win.dw) * p.x_stride + c), load(w + kx * kLanes), acc);
  put(row, row.y + ox, c, row.d.bias ? acc + load(row.d.bias + c) : acc, lanes, act);
}

template <int MR, int KW, int SW, class F>
QR_INLINE void interior_channels(const Row &row, std::int64_t ox, F act) noexcept {
  const std::int64_t end = row.d.p.c;
  std::int64_t c = 0;
  for (; c + kLanes <= end; c += kLanes) interior<MR, KW, SW>(row, ox, c, Whole{}, act);
  if (c < end) interior<MR, KW, SW>(row, ox, c, Part{static_cast<int>(end - c)}, act);
}

// First tap of `taps` at or beyond 0, and the first at or beyond `size`, for a window that begins at `at`.
QR_INLINE void taps_inside(std::int64_t at, std::int64_t taps, std::int64_t dilation, std::int64_t size, std::int64_t *first, std::int64_t *last) noexcept {
  *first = at >= 0 ? 0 : min_of(taps, ceil_div(-at, dilation));
  *last = at >= size ? 0 : min_of(taps, ceil_div(size - at, dilation));
  if (*last < *first) *last = *first;
}

template <int KW, int SW, class F>
void run_row(const Row &row, std::int64_t inside_begin, std::int64_t inside_end, F act) noexcept {
  const DepthwiseF32 &p = row.d.p;
  const Window &w = p.window;
  const auto borders = [&](std::int64_t ox, std::int64_t end) {
    for (; ox < end; ++ox) {
      std::int64_t first, last, c = 0;
      taps_inside(ox * w.sw - w.pad_left, w.kw, w.dw, w.iw, &first, &last);
      for (; c + kLanes <= p.c; c += kLanes) border(row, ox, first, last, c, Whole{}, act);
      if (c < p.c) border(row, ox, first, last, c, Part{static_cast<int>(p.c - c)}, act);
    }
  };
  borders(0, inside_begin);
  std::int64_t ox = inside_begin;
  for (; ox + 7 <= inside_end; ox += 7) interior_channels<7, KW, SW>(row, ox, act);
  for (; ox + 3 <= inside_end; ox += 3) interior_channels<3, KW, SW>(row, ox, act);
  for (; ox < inside_end; ++ox) interior_channels<1, KW, SW>(row, ox, act);
  borders(inside_end, w.ow);
}

void activate_row(const Row &row) noexcept {
  const DepthwiseF32 &p = row.d.p;
  for (std::int64_t pixel = row.y; pixel < row.y + p.window.ow; ++pixel) {
    float *const y = row.d.y + pixel * p.y_stride;
    activate_in_place(p.act, y, p.c);
    if (p.residual == Residual::AfterAct)
      for (std::int64_t c = 0; c < p.c; ++c) y[c] += row.d.r[pixel * p.r_stride + c];
  }
}

template <int KW, int SW>
void run_rows(const Depthwise &d, std::int64_t begin, std::int64_t end) noexcept {
  const DepthwiseF32 &p = d.p;
  const Window &w = p.window;
  // Output columns all of whose taps lie inside.
  const std::int64_t reach = std::int64_t{w.kw - 1} * w.dw + 1;
  const std::int64_t inside_begin = min_of<std::int64_t>(w.ow, ceil_div<std::int64_t>(w.pad_left, w.sw));
  const std::int64_t room = w.iw + std::int64_t{w.pad_left} - reach;
  const std::int64_t inside_end = room < 0 ? inside_begin : max_of(inside_begin, min_of<std::int64_t>(w.ow, room / w.sw + 1));
  // Activations of more than a bound follow when a row is done: there is no room for them in the loops above.
  const bool deferred = p.act.kind != Act::None && p.act.kind != Act::Clip;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t image = i / w.oh, oy = i % w.oh, at = oy * w.sh - w.pad_top;
    std::int64_t first, last;
    taps_inside(at, w.kh, w.dh, w.ih, &first, &last);
    const Row row{d, d.x + (image * w.ih + (first < last ? at + first * w.dh : 0)) * w.iw * p.x_stride, std::int64_t{w.dh} * w.iw * p.x_stride, last - first,
                  d.w + first * w.kw * kLanes, i * w.ow, deferred && p.residual == Residual::AfterAct ? Residual::None : p.residual};
    if (p.act.kind == Act::Clip) {
      run_row<KW, SW>(row, inside_begin, inside_end, KnownActivation<Act::Clip>{splat(p.act.a), splat(p.act.b)});
    } else {
      run_row<KW, SW>(row, inside_begin, inside_end, KnownActivation<Act::None>{});
      if (deferred) activate_row(row);
    }
  }
}

}  // namespace

void run_DepthwiseF32(const Call &call) {
  const auto &p = call.as<DepthwiseF32>();
  const Window &w = p.window;
  std::size_t operand = 2;
  Depthwise d{p, call.operand<const float>(0), call.operand<const float>(1), nullptr, nullptr, nullptr};
  if (p.has_bias) d.bias = call.operand<const float>(operand++);
  if (p.residual != Residual::None) d.r = call.operand<const float>(operand++);
  d.y = call.operand<float>(operand);
  auto *run = run_rows<0, 0>;
  if (w.dw == 1 && w.kw == 3) run = w.sw == 1 ? run_rows<3, 1> : w.sw == 2 ? run_rows<3, 2> : run;
  else if (w.dw == 1 && w.kw == 5) run = w.sw == 1 ? run_rows<5, 1> : w.sw == 2 ? run_rows<5, 2> : run;
  const double row_work = static_cast<double>(w.ow) * p.c * w.kh * w.kw;
  call.threads.run(static_cast<std::uint64_t>(w.n) * static_cast<std::uint64_t>(w.oh), static_cast<std::uint64_t>(1 + 3e5 / row_work),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) { run(d, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)); });
}

}  // namespace quarry::kernels::QR_ISA
