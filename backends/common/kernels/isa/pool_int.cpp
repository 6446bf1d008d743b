// SPDX-License-Identifier: Apache-2.0
// Pools and means of stored integers. Sums are exact; an average is rounded once (one f32 product): at most one quantum
// from exact arithmetic, and only next to ties.
#include "backends/common/kernels/isa/int_vec.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Taps [first, last) of a window's axis hit the input; `padded` of them the input or its padding.
struct Span {
  std::int64_t start, first, last, padded;
};
QR_INLINE Span span_of(std::int64_t position, std::int64_t stride, std::int64_t pad, std::int64_t pad_end,
                       std::int64_t dilation, std::int64_t taps, std::int64_t in) noexcept {
  const std::int64_t start = position * stride - pad;
  const auto below = [&](std::int64_t end) { return end <= start ? 0 : min_of(ceil_div(end - start, dilation), taps); };
  return {start, below(0), below(in), below(in + pad_end)};
}

template <class T, class Combine>
QR_INLINE void for_taps(const PoolInt &p, const T *image, const Span &y, const Span &x, Combine &&combine) noexcept {
  for (std::int64_t ky = y.first; ky < y.last; ++ky) {
    const T *const line = image + ((y.start + ky * p.window.dh) * p.window.iw + x.start) * p.x_stride;
    for (std::int64_t kx = x.first; kx < x.last; ++kx) combine(line + kx * p.window.dw * p.x_stride);
  }
}

template <class T, int N>
QR_INLINE void largest(const PoolInt &p, const T *image, const Span &ys, const Span &xs, T *to) noexcept {
  typedef T Vec __attribute__((vector_size(N * sizeof(T)), aligned(sizeof(T)), may_alias));
  Vec best = Vec{} + static_cast<T>(quant_low(p.x.dtype));
  for_taps(p, image, ys, xs, [&](const T *from) {
    const Vec v = *reinterpret_cast<const Vec *>(from);
    best = best > v ? best : v;
  });
  *reinterpret_cast<Vec *>(to) = best;
}

template <class T>
void pool_max(const PoolInt &p, const T *image, const Span &ys, const Span &xs, T *y) noexcept {
  constexpr int kMany = kBytes / static_cast<int>(sizeof(T));
  std::int32_t c = 0;
  for (; c + kMany <= p.c; c += kMany) largest<T, kMany>(p, image + c, ys, xs, y + c);
  for (; c + 8 <= p.c; c += 8) largest<T, 8>(p, image + c, ys, xs, y + c);
  for (; c < p.c; ++c) {
    T best = static_cast<T>(quant_low(p.x.dtype));
    for_taps(p, image + c, ys, xs, [&](const T *from) { best = max_of(best, *from); });
    y[c] = best;
  }
}

template <class X, class Y>
void pool_average(const PoolInt &p, const X *image, const Span &ys, const Span &xs, Y *y) noexcept {
  const std::int64_t hits = max_of<std::int64_t>(ys.last - ys.first, 0) * max_of<std::int64_t>(xs.last - xs.first, 0);
  const std::int64_t count = p.op == PoolOp::AverageIncludePad ? ys.padded * xs.padded : hits;
  const float scale = count == 0 ? 0
                                 : static_cast<float>(static_cast<double>(p.x.scale) /
                                                      (static_cast<double>(p.y.scale) * static_cast<double>(count)));
  const VecF lo = splat(static_cast<float>(quant_low(p.y.dtype) - p.y.zero)),
             hi = splat(static_cast<float>(quant_high(p.y.dtype) - p.y.zero));
  // Under 2^31 with 2^15 taps at most, for sums of stored values without their zero point.
  const std::int32_t zero = p.x.zero;
  for (std::int32_t c = 0; c < p.c; c += kLanes) {
    const int left = min_of(kLanes, p.c - c);
    VecI sum{};
    for_taps(p, image + c, ys, xs,
             [&](const X *from) { sum += (left == kLanes ? widen(from) : widen_part(from, left)) - zero; });
    const VecI q = round_to_int(clamp(to_float(sum) * scale, lo, hi)) + p.y.zero;
    if (left == kLanes) narrow(y + c, q);
    else narrow_part(y + c, q, left);
  }
}

template <class X, class Y>
void run_pool(const Call &call, const PoolInt &p) noexcept {
  const Window &w = p.window;
  const X *const x = call.operand<const X>(0);
  Y *const y = call.operand<Y>(1);
  const std::int64_t row_work = std::int64_t{w.ow} * p.c * w.kh * w.kw / 8 + 1;
  call.threads.run(static_cast<std::uint64_t>(std::int64_t{w.n} * w.oh),
                   static_cast<std::uint64_t>(ceil_div<std::int64_t>(32768, row_work)),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (std::uint64_t row = begin; row < end; ++row) {
                       const std::int64_t oy = static_cast<std::int64_t>(row) % w.oh,
                                          image = static_cast<std::int64_t>(row) / w.oh;
                       const Span ys = span_of(oy, w.sh, w.pad_top, p.pad_bottom, w.dh, w.kh, w.ih);
                       const X *const from = x + image * w.ih * w.iw * p.x_stride;
                       for (std::int64_t ox = 0; ox < w.ow; ++ox) {
                         const Span xs = span_of(ox, w.sw, w.pad_left, p.pad_right, w.dw, w.kw, w.iw);
                         Y *const to = y + (static_cast<std::int64_t>(row) * w.ow + ox) * p.y_stride;
                         if (p.op != PoolOp::Max) pool_average(p, from, ys, xs, to);
                         else if constexpr (sizeof(X) == sizeof(Y) && (X(-1) < X(0)) == (Y(-1) < Y(0)))
                           pool_max(p, from, ys, xs, to);
                       }
                     }
                   });
}

constexpr std::int64_t kMeanFlush = 32768;  // values that a lane of i32 can take

// The means of `count` <= kLanes adjacent columns.
template <class X, class Y>
QR_INLINE void mean_columns(const MeanInt &p, const X *x, int count, Y *y) noexcept {
  std::int64_t total[kLanes] = {};
  for (std::int64_t first = 0; first < p.reduced; first += kMeanFlush) {
    const std::int64_t last = min_of(p.reduced, first + kMeanFlush);
    VecI sum{};
    if (count == kLanes) {
      for (std::int64_t i = first; i < last; ++i) sum += widen(x + i * p.inner);
    } else {
      for (std::int64_t i = first; i < last; ++i) sum += widen_part(x + i * p.inner, count);
    }
    for (int i = 0; i < kLanes; ++i) total[i] += sum[i];
  }
  const double scale =
      static_cast<double>(p.x.scale) / (static_cast<double>(p.y.scale) * static_cast<double>(p.reduced));
  VecF v;
  for (int i = 0; i < kLanes; ++i)
    v[i] = static_cast<float>(static_cast<double>(total[i] - p.reduced * p.x.zero) * scale);
  const VecF lo = splat(static_cast<float>(quant_low(p.y.dtype) - p.y.zero)),
             hi = splat(static_cast<float>(quant_high(p.y.dtype) - p.y.zero));
  const VecI q = round_to_int(clamp(v, lo, hi)) + p.y.zero;
  if (count == kLanes) narrow(y, q);
  else narrow_part(y, q, count);
}
// One mean over adjacent values.
template <class X, class Y>
QR_INLINE void mean_row(const MeanInt &p, const X *x, Y *y) noexcept {
  std::int64_t total = 0, i = 0;
#if QR_ISA_BYTES == 64
  // Bytes by dot products with ones; signed ones as unsigned ones.
  if constexpr (sizeof(X) == 1) {
    constexpr bool is_signed = X(-1) < X(0);
    const VecB ones = VecB{} + std::int8_t{1}, flip = VecB{} + static_cast<std::int8_t>(is_signed ? -128 : 0);
    while (i < p.reduced) {
      const std::int64_t from = i, end = min_of(p.reduced, from + kMeanFlush * kLanes);
      VecI sum[4] = {};
      for (; i + 4 * kBytes <= end; i += 4 * kBytes) QR_UNROLL
      for (int v = 0; v < 4; ++v) sum[v] = add_quads(sum[v], load_bytes(x + i + v * kBytes, ~ByteMask{}) ^ flip, ones);
      for (; i < end; i += kBytes) {
        const ByteMask here = first_bytes(end - i);
        sum[0] = add_quads(sum[0], load_bytes(x + i, here) ^ load_bytes(&flip, here), ones);
      }
      i = end;
      sum[0] += sum[1] + sum[2] + sum[3];
      for (int lane = 0; lane < kLanes; ++lane) total += sum[0][lane];
      if (is_signed) total -= 128 * (end - from);
    }
  }
#endif
  while (i + kLanes <= p.reduced) {
    VecI sum{};
    for (std::int64_t n = 0; n < kMeanFlush && i + kLanes <= p.reduced; ++n, i += kLanes) sum += widen(x + i);
    for (int lane = 0; lane < kLanes; ++lane) total += sum[lane];
  }
  for (; i < p.reduced; ++i) total += x[i];
  const double scale =
      static_cast<double>(p.x.scale) / (static_cast<double>(p.y.scale) * static_cast<double>(p.reduced));
  double v = static_cast<double>(total - p.reduced * p.x.zero) * scale;
  const double lo = quant_low(p.y.dtype) - p.y.zero, hi = quant_high(p.y.dtype) - p.y.zero;
  v = v < lo ? lo : v > hi ? hi : v;
  *y = static_cast<Y>(static_cast<std::int32_t>(__builtin_rint(static_cast<double>(static_cast<float>(v)))) + p.y.zero);
}

template <class X, class Y>
void run_mean(const Call &call, const MeanInt &p) noexcept {
  const X *const x = call.operand<const X>(0);
  Y *const y = call.operand<Y>(1);
  if (p.inner == 0) return;
  const std::int64_t columns = p.inner == 1 ? 1 : ceil_div(p.inner, std::int64_t{kLanes});
  const std::int64_t work = p.inner == 1 ? p.reduced / kLanes + 1 : p.reduced;
  call.threads.run(static_cast<std::uint64_t>(p.outer * columns), static_cast<std::uint64_t>(32768 / work + 1),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (std::uint64_t task = begin; task < end; ++task) {
                       const std::int64_t outer = static_cast<std::int64_t>(task) / columns,
                                          c = static_cast<std::int64_t>(task) % columns * kLanes;
                       const X *const from = x + outer * p.reduced * p.inner + c;
                       Y *const to = y + outer * p.inner + c;
                       if (p.inner == 1) mean_row(p, from, to);
                       else mean_columns(p, from, static_cast<int>(min_of<std::int64_t>(kLanes, p.inner - c)), to);
                     }
                   });
}

}  // namespace

void run_PoolInt(const Call &call) {
  const auto &p = call.as<PoolInt>();
  with_dtype(p.x.dtype,
             [&](auto x) { with_dtype(p.y.dtype, [&](auto y) { run_pool<decltype(x), decltype(y)>(call, p); }); });
}

void run_MeanInt(const Call &call) {
  const auto &p = call.as<MeanInt>();
  with_dtype(p.x.dtype,
             [&](auto x) { with_dtype(p.y.dtype, [&](auto y) { run_mean<decltype(x), decltype(y)>(call, p); }); });
}

}  // namespace quarry::kernels::QR_ISA
