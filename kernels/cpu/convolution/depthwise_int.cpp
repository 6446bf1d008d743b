// SPDX-License-Identifier: Apache-2.0
// Depthwise ConvInt: channels side by side, taps in pairs of tap rows. The rows of input that a row of output sees are
// first laid down in scratch as s16, two rows interleaved (so that one multiply-add takes both), with the zero point
// where they leave the image; the sums then have no borders to mind. Some rows of output share what is laid down, each
// at its own pair; one that starts in the middle of a pair sees it through weights shifted by a row.
#include "kernels/cpu/quantization/requantise.h"

namespace quarry::kernels::QR_ISA {

bool run_depthwise_bytes(const Call &call, const ConvInt &p, const Requantise &requantise) noexcept;
bool run_depthwise_columns(const Call &call, const ConvInt &p, const Requantise &requantise) noexcept;
bool run_depthwise_halves(const Call &call, const ConvInt &p, const Requantise &requantise) noexcept;

namespace {

template <bool Wide>
struct SumOf {
  using Type = std::int32_t;
};
template <>
struct SumOf<true> {
  using Type = double;
};

constexpr std::int64_t kOutputs = 32;  // whose sums wait in a buffer for their end

struct Strip {
  const ConvInt &p;
  const ConvIntShape &shape;
  const Requantise &finish;
  const std::int16_t *w;
  const void *bias;
  std::int16_t *pairs;  // [pair of rows][column][channel][2]
  std::int64_t columns;
  std::int64_t channel;  // the first
  std::int64_t channels;
  std::int64_t padded;     // channels in whole vectors
  std::int64_t pair_step;  // elements from pair to pair
};

// Pixels outside.
void lay_border(const Strip &s, std::int16_t *to, std::int64_t count, std::int16_t zero) noexcept {
  for (std::int64_t i = 0; i < count * s.padded * 2; i += kHalves) store(to + i, VecH{} + zero);
}
// Interleaves two rows of `count` pixels; nullptr: outside. `flip`: what halves are turned by.
template <class T>
QR_INLINE void interleave(const Strip &s, std::int16_t *to, const T *a, const T *b, std::int64_t count,
                          std::int16_t zero, std::int16_t flip) noexcept {
  if (!a && !b) return lay_border(s, to, count, zero);
  const VecH nothing = VecH{} + zero;
  const auto one = [&](const T *from) { return static_cast<std::int16_t>(sizeof(T) == 1 ? *from : *from ^ flip); };
  const auto halves = [&](const T *from) __attribute__((always_inline)) {
    if constexpr (sizeof(T) == 1) return widen_halves(from);
    else return widen_halves(from) ^ flip;
  };
  for (std::int64_t i = 0; i < count; ++i, to += s.padded * 2) {
    std::int64_t c = 0;
    for (; c + kHalves <= s.channels; c += kHalves) {
      VecH low, high;
      zip(a ? halves(a + c) : nothing, b ? halves(b + c) : nothing, &low, &high);
      store(to + c * 2, low);
      store(to + c * 2 + kHalves, high);
    }
    for (; c + kLanes <= s.channels; c += kLanes) {
      const auto get = [&](const T *from) {
        if (!from) return splat(static_cast<std::int32_t>(zero));
        if constexpr (sizeof(T) == 1) return widen(from + c);
        else return widen(from + c) ^ static_cast<std::int32_t>(flip);
      };
      const VecI low = get(a) & 0xffff, high = get(b);
      store(to + c * 2, reinterpret_cast<VecH>(low | reinterpret_cast<VecI>(reinterpret_cast<VecU>(high) << 16)));
    }
    for (; c < s.channels; ++c) {
      to[c * 2] = a ? one(a + c) : zero;
      to[c * 2 + 1] = b ? one(b + c) : zero;
    }
    for (; c < s.padded; ++c) to[c * 2] = to[c * 2 + 1] = 0;
    if (a) a += s.p.x_stride;
    if (b) b += s.p.x_stride;
  }
}

// Lays down input rows [iy, iy + rows * dh) as seen from output column `ox` on.
template <class T>
__attribute__((noinline)) void lay(const Strip &s, const T *x, std::int64_t image, std::int64_t iy, std::int64_t rows,
                                   std::int64_t ox, std::int64_t columns) noexcept {
  const Window &w = s.p.window;
  const auto zero = static_cast<std::int16_t>(s.p.x.zero - s.shape.zero_shift),
             flip = static_cast<std::int16_t>(stored_flip(s.p.x.dtype));
  const std::int64_t ix = ox * w.sw - w.pad_left;
  const std::int64_t from = min_of(max_of<std::int64_t>(-ix, 0), columns),
                     until = max_of(from, min_of(w.iw - ix, columns));
  std::int16_t *to = s.pairs;
  for (std::int64_t row = 0; row < rows; row += 2, to += s.pair_step) {
    const T *lines[2] = {};
    for (std::int64_t i = 0; i < 2 && row + i < rows; ++i) {
      const std::int64_t at = iy + (row + i) * w.dh;
      if (at >= 0 && at < w.ih && until > from)
        lines[i] = x + ((image * w.ih + at) * w.iw + ix + from) * s.p.x_stride + s.channel;
    }
    lay_border(s, to, from, zero);
    interleave(s, to + from * s.padded * 2, lines[0], lines[1], until - from, zero, flip);
    lay_border(s, to + until * s.padded * 2, columns - until, zero);
  }
}

// The weights of one vector of channels; `shifted` down by a row.
QR_INLINE VecH weights_of(const std::int16_t *w, std::int64_t kw, std::int64_t pair, std::int64_t kx,
                          bool shifted) noexcept {
  const VecH here = load(w + (pair * kw + kx) * kHalves);
  if (!shifted) return here;
  const VecU before = pair == 0 ? VecU{} : reinterpret_cast<VecU>(load(w + ((pair - 1) * kw + kx) * kHalves)) >> 16;
  return reinterpret_cast<VecH>(reinterpret_cast<VecU>(here) << 16 | before);
}

// Sums of `outputs` outputs of one vector of channels, `step` apart.
template <int Pairs, int Kw>
QR_INLINE void sum_fixed(const Strip &s, const std::int16_t *at, const std::int16_t *w, bool shifted,
                         std::int64_t outputs, VecI bias, std::int32_t *sums, std::int64_t step) noexcept {
  VecH weights[Pairs][Kw];
  QR_UNROLL
  for (int pair = 0; pair < Pairs; ++pair)
    QR_UNROLL for (int kx = 0; kx < Kw; ++kx) weights[pair][kx] = weights_of(w, Kw, pair, kx, shifted);
  const std::int64_t column = s.p.window.dw * s.padded * 2, move = s.p.window.sw * s.padded * 2;
  for (std::int64_t o = 0; o < outputs; ++o, at += move, sums += step) {
    VecI acc = bias;
    QR_UNROLL
    for (int pair = 0; pair < Pairs; ++pair)
      QR_UNROLL for (int kx = 0; kx < Kw; ++kx) acc =
          add_pairs(acc, load(at + pair * s.pair_step + kx * column), weights[pair][kx]);
    store(sums, acc);
  }
}
// Any window; sums are i32 or f64.
template <bool Wide, class Sum>
QR_INLINE void sum_any(const Strip &s, const std::int16_t *at, const std::int16_t *w, bool shifted,
                       std::int64_t outputs, const Sum *bias, Sum *sums, std::int64_t step) noexcept {
  const Window &window = s.p.window;
  for (std::int64_t o = 0; o < outputs; ++o, at += window.sw * s.padded * 2, sums += step) {
    VecI acc{};
    VecD low{}, high{};
    if constexpr (Wide) low = load(bias), high = load(bias + kLanes / 2);
    else acc = load(bias);
    std::int64_t left = s.shape.flush_steps;
    for (std::int64_t pair = 0; pair < (window.kh + 1) / 2; ++pair)
      for (std::int64_t kx = 0; kx < window.kw; ++kx) {
        acc = add_pairs(acc, load(at + pair * s.pair_step + kx * window.dw * s.padded * 2),
                        weights_of(w, window.kw, pair, kx, shifted));
        if (Wide && --left == 0) {
          low += double_low(acc), high += double_high(acc);
          acc = VecI{};
          left = s.shape.flush_steps;
        }
      }
    if constexpr (Wide) store(sums, low + double_low(acc)), store(sums + kLanes / 2, high + double_high(acc));
    else store(sums, acc);
  }
}

// A vector of channels of some outputs: by code for the usual windows, or for any.
template <bool Wide>
QR_INLINE void sum_vector(const Strip &s, const std::int16_t *at, const std::int16_t *weights, bool shifted,
                          std::int64_t outputs, const typename SumOf<Wide>::Type *bias, typename SumOf<Wide>::Type *to,
                          std::int64_t step) noexcept {
  if constexpr (!Wide) {
    const Window &w = s.p.window;
    const std::int64_t pairs = (w.kh + 1) / 2;
    const VecI b = load(bias);
    if (w.kw == 3 && pairs == 2) return sum_fixed<2, 3>(s, at, weights, shifted, outputs, b, to, step);
    if (w.kw == 5 && pairs == 3) return sum_fixed<3, 5>(s, at, weights, shifted, outputs, b, to, step);
  }
  sum_any<Wide>(s, at, weights, shifted, outputs, bias, to, step);
}

template <bool Wide>
void sum_strip(const Strip &s, bool shifted, std::int64_t pixel, std::int64_t outputs) noexcept {
  using Sum = typename SumOf<Wide>::Type;
  const Window &w = s.p.window;
  const std::int64_t pairs = (w.kh + 1) / 2;
  const auto *const bias = static_cast<const Sum *>(s.bias) + s.channel;
  alignas(kBytes) Sum sums[kOutputs * 2 * kLanes];
  for (std::int64_t first = 0; first < outputs; first += kOutputs) {
    const std::int64_t count = min_of(kOutputs, outputs - first);
    for (std::int64_t c = 0; c < s.channels; c += 2 * kLanes) {
      const int vectors = s.channels - c > kLanes ? 2 : 1;
      for (int v = 0; v < vectors; ++v) {
        const std::int16_t *const weights = s.w + ((s.channel + c) / kLanes + v) * pairs * w.kw * kHalves;
        const std::int16_t *const at = s.pairs + first * w.sw * s.padded * 2 + (c + v * kLanes) * 2;
        sum_vector<Wide>(s, at, weights, shifted, count, bias + c + v * kLanes, sums + v * kLanes,
                         std::int64_t{vectors} * kLanes);
      }
      s.finish.run(s.finish, {sums, static_cast<int>(count), vectors, pixel + first, s.channel + c,
                              min_of<std::int64_t>(s.channels - c, 2 * kLanes)});
    }
  }
}

}  // namespace

void run_depthwise_int(const Call &call, const ConvInt &p, const ConvIntShape &shape) {
  const Window &w = p.window;
  const DepthwiseStrip size = depthwise_strip(p, kLanes);
  const bool wide = sums_are_wide(shape, call.operands[2]);
  const void *const bias = wide ? static_cast<const void *>(wide_bias(shape, call.operands[2])) : call.operands[2];
  const Requantise finish(p, call, wide);
  if (!wide && (run_depthwise_bytes(call, p, finish) || run_depthwise_columns(call, p, finish) ||
                run_depthwise_halves(call, p, finish)))
    return;
  const std::int64_t strip_channels = std::int64_t{size.vectors} * kLanes;
  const std::int64_t chunks = ceil_div(std::int64_t{p.oc}, strip_channels),
                     pieces = ceil_div(std::int64_t{w.ow}, std::int64_t{size.outputs});
  const std::int64_t together = size.rows;
  const std::int64_t rows = ceil_div(std::int64_t{w.oh}, together), all_rows = w.n * rows;
  const double work = static_cast<double>(size.outputs * together) * static_cast<double>(strip_channels) *
                      static_cast<double>(shape.taps);
  const auto grain = static_cast<std::uint64_t>(1e5 / work) + 1;
  call.threads.run(
      static_cast<std::uint64_t>(all_rows * pieces * chunks), grain,
      [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
        for (std::uint64_t task = begin; task < end; ++task) {
          // Chunk by chunk of channels, so that neighbouring rows follow each other.
          const auto t = static_cast<std::int64_t>(task);
          const std::int64_t piece = t % pieces, row = t / pieces % all_rows, chunk = t / pieces / all_rows;
          const std::int64_t image = row / rows, oy = row % rows * together;
          const std::int64_t channel = chunk * strip_channels, channels = min_of(strip_channels, p.oc - channel);
          const std::int64_t ox = piece * size.outputs, outputs = min_of<std::int64_t>(size.outputs, w.ow - ox);
          const std::int64_t columns = (outputs - 1) * w.sw + std::int64_t{w.kw - 1} * w.dw + 1,
                             padded = ceil_div(channels, std::int64_t{kLanes}) * kLanes;
          const Strip s{p,
                        shape,
                        finish,
                        call.operand<const std::int16_t>(1),
                        bias,
                        reinterpret_cast<std::int16_t *>(call.worker_scratch(worker)),
                        columns,
                        channel,
                        channels,
                        padded,
                        columns * padded * 2};
          const std::int64_t here = min_of(together, w.oh - oy), seen = (here - 1) * w.sh + w.kh;
          const auto lay_as = [&](auto tag) {
            lay(s, call.operand<const decltype(tag)>(0), image, oy * w.sh - w.pad_top, seen, ox, columns);
          };
          if (quant_bytes(p.x.dtype) == 2) lay_as(std::int16_t{});
          else if (p.x.dtype == kU8) lay_as(std::uint8_t{});
          else lay_as(std::int8_t{});
          for (std::int64_t i = 0; i < here; ++i) {
            const std::int64_t pixel = (image * w.oh + oy + i) * w.ow + ox;
            Strip row_of = s;
            row_of.pairs += i * w.sh / 2 * s.pair_step;
            if (wide) sum_strip<true>(row_of, i * w.sh % 2 != 0, pixel, outputs);
            else sum_strip<false>(row_of, i * w.sh % 2 != 0, pixel, outputs);
          }
        }
      });
}

}  // namespace quarry::kernels::QR_ISA
