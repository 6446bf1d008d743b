// SPDX-License-Identifier: Apache-2.0
// Depthwise ConvInt: channels side by side, taps in pairs of tap rows. The rows of input that a row of output sees are first laid down in scratch as s16, two
// rows interleaved (so that one multiply-add takes both), with the zero point where they leave the image; the sums then have no borders to mind.
#include "backends/common/kernels/isa/requantise.h"

namespace quarry::kernels::QR_ISA {

namespace {

struct Strip {
  const ConvInt &p;
  const ConvIntShape &shape;
  const DepthwiseStrip &size;
  const Requantise &finish;
  const std::int16_t *w;
  const void *bias;
  std::int16_t *pairs;       // [pair of rows][column][channel][2]
  std::int64_t channel;      // the first
  std::int64_t channels;
  std::int64_t padded;       // channels in whole vectors
};

// Interleaves two rows of `count` pixels into columns [at, at + count); b == nullptr: nothing but zeros.
template <class T>
QR_INLINE void interleave(const Strip &s, std::int16_t *to, const T *a, const T *b, std::int64_t count, std::int16_t zero) noexcept {
  for (std::int64_t i = 0; i < count; ++i, to += s.padded * 2) {
    std::int64_t c = 0;
    const T *const pa = a ? a + i * s.p.x_stride : nullptr, *const pb = b ? b + i * s.p.x_stride : nullptr;
    for (; c < s.channels; ++c) {
      const auto value = [&](const T *from) {
        return from ? static_cast<std::int16_t>(static_cast<std::int32_t>(from[c]) - (sizeof(T) == 2 && T(-1) > T(0) ? 32768 : 0)) : zero;
      };
      to[c * 2] = value(pa);
      to[c * 2 + 1] = value(pb);
    }
    for (; c < s.padded; ++c) to[c * 2] = to[c * 2 + 1] = 0;
  }
}

// Lays down what output row `oy`, columns from `ox` on, sees.
template <class T>
void lay(const Strip &s, const T *x, std::int64_t image, std::int64_t oy, std::int64_t ox, std::int64_t columns) noexcept {
  const Window &w = s.p.window;
  const auto zero = static_cast<std::int16_t>(s.p.x.zero - s.shape.zero_shift);
  const std::int64_t ix = ox * w.sw - w.pad_left;
  const std::int64_t from = min_of(max_of<std::int64_t>(-ix, 0), columns), until = max_of(from, min_of(w.iw - ix, columns));
  std::int16_t *to = s.pairs;
  for (std::int64_t ky = 0; ky < w.kh; ky += 2, to += s.size.columns * s.padded * 2) {
    const T *rows[2] = {};
    for (std::int64_t i = 0; i < 2 && ky + i < w.kh; ++i) {
      const std::int64_t iy = oy * w.sh - w.pad_top + (ky + i) * w.dh;
      if (iy >= 0 && iy < w.ih) rows[i] = x + ((image * w.ih + iy) * w.iw + ix + from) * s.p.x_stride + s.channel;
    }
    const T *const nothing = nullptr;
    interleave(s, to, nothing, nothing, from, zero);
    interleave(s, to + from * s.padded * 2, rows[0], rows[1], until - from, zero);
    interleave(s, to + until * s.padded * 2, nothing, nothing, columns - until, zero);
  }
}

template <bool Wide>
void sum_strip(const Strip &s, std::int64_t pixel, std::int64_t outputs) noexcept {
  const Window &w = s.p.window;
  const std::int64_t pairs = (w.kh + 1) / 2, pair_step = s.size.columns * s.padded * 2;
  for (std::int64_t c = 0; c < s.channels; c += kLanes) {
    const std::int16_t *const weights = s.w + (s.channel + c) / kLanes * pairs * w.kw * kHalves;
    const int count = static_cast<int>(min_of<std::int64_t>(kLanes, s.channels - c));
    const VecF m = load(s.finish.multiplier + s.channel + c);
    for (std::int64_t o = 0; o < outputs; ++o) {
      const std::int16_t *const at = s.pairs + o * w.sw * s.padded * 2 + c * 2;
      VecI acc{};
      VecD low{}, high{};
      if constexpr (Wide) {
        low = load(static_cast<const double *>(s.bias) + s.channel + c);
        high = load(static_cast<const double *>(s.bias) + s.channel + c + kLanes / 2);
      } else {
        acc = load(static_cast<const std::int32_t *>(s.bias) + s.channel + c);
      }
      std::int64_t left = s.shape.flush_steps;
      for (std::int64_t pair = 0; pair < pairs; ++pair)
        for (std::int64_t kx = 0; kx < w.kw; ++kx) {
          acc = add_pairs(acc, load(at + pair * pair_step + kx * w.dw * s.padded * 2), load(weights + (pair * w.kw + kx) * kHalves));
          if (Wide && --left == 0) {
            low += double_low(acc), high += double_high(acc);
            acc = VecI{};
            left = s.shape.flush_steps;
          }
        }
      VecF v;
      if constexpr (Wide) v = to_float(low + double_low(acc), high + double_high(acc));
      else v = to_float(acc);
      s.finish.store(v * m, pixel + o, s.channel + c, count);
    }
  }
}

}  // namespace

void run_depthwise_int(const Call &call, const ConvInt &p, const ConvIntShape &shape) {
  const Window &w = p.window;
  const DepthwiseStrip size = depthwise_strip(p, kLanes);
  const Requantise finish = Requantise::of(p, call);
  const std::int64_t strip_channels = std::int64_t{size.vectors} * kLanes;
  const std::int64_t chunks = ceil_div(std::int64_t{p.oc}, strip_channels), pieces = ceil_div(std::int64_t{w.ow}, std::int64_t{size.outputs});
  const std::int64_t rows = std::int64_t{w.n} * w.oh;
  const double work = static_cast<double>(size.outputs) * static_cast<double>(strip_channels) * static_cast<double>(shape.taps);
  const auto grain = static_cast<std::uint64_t>(3e5 / work) + 1;
  call.threads.run(static_cast<std::uint64_t>(rows * pieces * chunks), grain, [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
    for (std::uint64_t task = begin; task < end; ++task) {
      // Chunk by chunk of channels, so that neighbouring rows follow each other.
      const auto t = static_cast<std::int64_t>(task);
      const std::int64_t piece = t % pieces, row = t / pieces % rows, chunk = t / pieces / rows;
      const std::int64_t channel = chunk * strip_channels, channels = min_of(strip_channels, p.oc - channel);
      const std::int64_t ox = piece * size.outputs, outputs = min_of<std::int64_t>(size.outputs, w.ow - ox);
      const Strip s{p,  shape, size, finish, call.operand<const std::int16_t>(1), call.operands[2], reinterpret_cast<std::int16_t *>(call.worker_scratch(worker)),
                    channel, channels, ceil_div(channels, std::int64_t{kLanes}) * kLanes};
      const std::int64_t columns = (outputs - 1) * w.sw + std::int64_t{w.kw - 1} * w.dw + 1;
      with_dtype(p.x.dtype, [&](auto tag) { lay(s, call.operand<const decltype(tag)>(0), row / w.oh, row % w.oh, ox, columns); });
      if (shape.wide) sum_strip<true>(s, row * w.ow + ox, outputs);
      else sum_strip<false>(s, row * w.ow + ox, outputs);
    }
  });
}

}  // namespace quarry::kernels::QR_ISA
