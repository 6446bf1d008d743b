// SPDX-License-Identifier: Apache-2.0
// Pools and means of stored integers. Sums are exact; an average is rounded once (one f32 product): at most one quantum
// from exact arithmetic, and only next to ties.
#include "kernels/cpu/vector/int_vec.h"

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
QR_INLINE void pool_max(const PoolInt &p, const T *image, const Span &ys, const Span &xs, T *y) noexcept {
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

// Means as they are stored, of a type that is known at run time.
struct Means {
  std::byte *y;
  float lo, hi;  // without the zero point
  std::int32_t zero, flip;
  bool bytes;

  Means(const Quant &q, std::byte *to) noexcept
      : y(to),
        lo(static_cast<float>(quant_low(q.dtype) - q.zero)),
        hi(static_cast<float>(quant_high(q.dtype) - q.zero)),
        zero(q.zero + stored_flip(q.dtype)),
        flip(stored_flip(q.dtype)),
        bytes(quant_bytes(q.dtype) == 1) {}
  std::byte *at(std::int64_t element) const noexcept { return y + (bytes ? element : 2 * element); }
  QR_MEMBER void put(std::int64_t element, VecF v, int count) const noexcept {
    put_stored(at(element), bytes, (round_to_int(clamp(v, splat(lo), splat(hi))) + zero) ^ flip, count);
  }
};

template <class X>
QR_INLINE void pool_average(const PoolInt &p, const X *image, const Span &ys, const Span &xs, const Means &means,
                            std::int64_t at) noexcept {
  const std::int64_t hits = max_of<std::int64_t>(ys.last - ys.first, 0) * max_of<std::int64_t>(xs.last - xs.first, 0);
  const std::int64_t count = p.op == PoolOp::AverageIncludePad ? ys.padded * xs.padded : hits;
  const float scale = count == 0 ? 0
                                 : static_cast<float>(static_cast<double>(p.x.scale) /
                                                      (static_cast<double>(p.y.scale) * static_cast<double>(count)));
  // Under 2^31 with 2^15 taps at most, for sums of stored values without their zero point.
  const std::int32_t zero = p.x.zero;
  for (std::int32_t c = 0; c < p.c; c += kLanes) {
    const int left = min_of(kLanes, p.c - c);
    VecI sum{};
    for_taps(p, image + c, ys, xs,
             [&](const X *from) { sum += (left == kLanes ? widen(from) : widen_part(from, left)) - zero; });
    means.put(at + c, to_float(sum) * scale, left);
  }
}

template <class X>
__attribute__((noinline)) void pool_row(const Call &call, const PoolInt &p, const Means &means,
                                        std::int64_t row) noexcept {
  const Window &w = p.window;
  const std::int64_t oy = row % w.oh, image = row / w.oh;
  const Span ys = span_of(oy, w.sh, w.pad_top, p.pad_bottom, w.dh, w.kh, w.ih);
  const X *const from = call.operand<const X>(0) + image * w.ih * w.iw * p.x_stride;
  for (std::int64_t ox = 0; ox < w.ow; ++ox) {
    const Span xs = span_of(ox, w.sw, w.pad_left, p.pad_right, w.dw, w.kw, w.iw);
    const std::int64_t at = (row * w.ow + ox) * p.y_stride;
    if (p.op == PoolOp::Max) pool_max(p, from, ys, xs, call.operand<X>(1) + at);  // (y has x's type)
    else pool_average(p, from, ys, xs, means, at);
  }
}

constexpr std::int64_t kMeanFlush = 32768;  // values that a lane of i32 can take

// The means of `count` <= kLanes adjacent columns.
template <class X>
QR_INLINE void mean_columns(const MeanInt &p, const X *x, int count, const Means &means, std::int64_t at) noexcept {
  std::int64_t total[kLanes] = {};
  for (std::int64_t first = 0; first < p.reduced; first += kMeanFlush) {
    const std::int64_t last = min_of(p.reduced, first + kMeanFlush);
    VecI sum{};
    if (count == kLanes) {
      _Pragma("GCC unroll 4") for (std::int64_t i = first; i < last; ++i) sum += widen(x + i * p.inner);
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
  means.put(at, v, count);
}
// One mean over adjacent values.
template <class X>
QR_INLINE void mean_row(const MeanInt &p, const X *x, const Means &means, std::int64_t at) noexcept {
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
  const std::int32_t q =
      static_cast<std::int32_t>(__builtin_rint(static_cast<double>(static_cast<float>(v)))) + p.y.zero;
  if (means.bytes) *reinterpret_cast<std::uint8_t *>(means.at(at)) = static_cast<std::uint8_t>(q);
  else *reinterpret_cast<std::uint16_t *>(means.at(at)) = static_cast<std::uint16_t>(q);
}

template <class X>
__attribute__((noinline)) void mean_task(const Call &call, const MeanInt &p, const Means &means, std::int64_t columns,
                                         std::int64_t task) noexcept {
  const std::int64_t outer = task / columns, c = task % columns * kLanes, at = outer * p.inner + c;
  const X *const from = call.operand<const X>(0) + outer * p.reduced * p.inner + c;
  if (p.inner == 1) mean_row(p, from, means, at);
  else mean_columns(p, from, static_cast<int>(min_of<std::int64_t>(kLanes, p.inner - c)), means, at);
}

}  // namespace

void run_PoolInt(const Call &call) {
  const auto &p = call.as<PoolInt>();
  const Window &w = p.window;
  const Means means(p.y, call.operand<std::byte>(1));
  auto *row = pool_row<std::uint8_t>;
  with_dtype(p.x.dtype, [&](auto x) { row = pool_row<decltype(x)>; });
  const std::int64_t row_work = std::int64_t{w.ow} * p.c * w.kh * w.kw / 8 + 1;
  call.threads.run(static_cast<std::uint64_t>(std::int64_t{w.n} * w.oh),
                   static_cast<std::uint64_t>(ceil_div<std::int64_t>(32768, row_work)),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (; begin < end; ++begin) row(call, p, means, static_cast<std::int64_t>(begin));
                   });
}

void run_MeanInt(const Call &call) {
  const auto &p = call.as<MeanInt>();
  if (p.inner == 0) return;
  const Means means(p.y, call.operand<std::byte>(1));
  auto *run = mean_task<std::uint8_t>;
  with_dtype(p.x.dtype, [&](auto x) { run = mean_task<decltype(x)>; });
  const std::int64_t columns = p.inner == 1 ? 1 : ceil_div(p.inner, std::int64_t{kLanes});
  const std::int64_t work = p.inner == 1 ? p.reduced / kLanes + 1 : p.reduced;
  call.threads.run(static_cast<std::uint64_t>(p.outer * columns), static_cast<std::uint64_t>(32768 / work + 1),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (; begin < end; ++begin) run(call, p, means, columns, static_cast<std::int64_t>(begin));
                   });
}

}  // namespace quarry::kernels::QR_ISA
