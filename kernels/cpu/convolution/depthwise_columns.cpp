// SPDX-License-Identifier: Apache-2.0
// Depthwise ConvInt of bytes with windows of 5 and 7 columns, and dilated ones, by dot products of four: the rows of
// input that a row of output sees are interleaved by fours, column by column, into a buffer; then one vector of
// channels after the other runs along it, its weights in registers, the sums of all outputs that a column is seen by
// going on at once. Needs vectors of 64 bytes (kPacksRows); others widen to s16 (depthwise_int.cpp).
//
// The order of channels is that of depthwise_bytes.cpp.
#include "kernels/cpu/convolution/depthwise_rows.h"

namespace quarry::kernels::QR_ISA {

#if QR_ISA_BYTES == 64

namespace {

constexpr int kMostQuads = 2, kMostTaps = 7;
constexpr std::int64_t kOutputs = 16;  // at a time: what lies between the steps stays in the first-level cache
constexpr std::int64_t kMostColumns = (kOutputs - 1) * 2 + kMostTaps;

struct Chunk {  // of 64 channels
  alignas(64) std::int8_t w[kMostQuads][kMostTaps][4][64];
  alignas(64) std::int32_t bias[4][16];
  alignas(64) float multiplier[4][16];
};

// `flip`: signed bytes are multiplied as unsigned ones.
void lay_chunk(const ConvInt &p, const Call &call, std::int64_t channel, bool flip, Chunk &to) noexcept {
  const auto *const w = call.operand<const std::int16_t>(1);
  const auto *const bias = call.operand<const std::int32_t>(2);
  const auto *const multiplier = call.operand<const float>(3);
  const std::int64_t kw = p.window.kw, pairs = (p.window.kh + 1) / 2, quads = (pairs + 1) / 2;
  std::memset(&to, 0, sizeof to);
  for (std::int64_t part = 0; part < 4; ++part) {
    const std::int64_t first = channel + part * kLanes;
    if (first >= p.oc) break;
    const std::int16_t *const at = w + first / kLanes * pairs * kw * kHalves;  // [pair of tap rows][column][lane][2]
    for (std::int64_t quad = 0; quad < quads; ++quad)
      for (std::int64_t kx = 0; kx < kw; ++kx) {
        const VecU a = reinterpret_cast<VecU>(load(at + (2 * quad * kw + kx) * kHalves));
        const VecU b =
            2 * quad + 1 < pairs ? reinterpret_cast<VecU>(load(at + ((2 * quad + 1) * kw + kx) * kHalves)) : VecU{};
        const VecU bytes = (a & 0xff) | (a >> 8 & 0xff00) | (b & 0xff) << 16 | (b << 8 & 0xff000000u);
        for (int v = 0; v < 4; ++v)
          std::memcpy(to.w[quad][kx][v] + part * 16, reinterpret_cast<const char *>(&bytes) + v * 16, 16);
      }
    for (int v = 0; v < 4; ++v) {
      std::memcpy(to.bias[v] + part * 4, bias + first + v * 4, 16);
      std::memcpy(to.multiplier[v] + part * 4, multiplier + first + v * 4, 16);
    }
  }
  if (!flip) return;
  for (int v = 0; v < 4; ++v) {
    VecI sum{};
    for (std::int64_t quad = 0; quad < quads; ++quad)
      for (std::int64_t kx = 0; kx < kw; ++kx)
        sum = add_quads(sum, VecB{} + std::int8_t{-128}, load_bytes(to.w[quad][kx][v], ~ByteMask{}));
    store(to.bias[v], load(to.bias[v]) - sum);
  }
}

// Of a row of output: rows of input at their first column, or a pixel of border, whose stride is 0. Those that no
// quad has meet weights of zero.
struct Row {
  const std::uint8_t *taps[4 * kMostQuads];
  std::int64_t strides[4 * kMostQuads];
};
struct Buffer {
  alignas(64) std::int8_t columns[kMostColumns][kMostQuads][4][64];
  alignas(64) std::int32_t sums[kOutputs][4][16];
};

// Columns ix, ix + step, ... of all rows.
template <int Quads>
void lay_columns(const Row &row, std::int64_t ix, std::int64_t step, std::int64_t count, std::int64_t iw, ByteMask mask,
                 std::int8_t flip_, std::int8_t border_, Buffer &to) noexcept {
  const VecB flip = VecB{} + flip_, border = VecB{} + border_;
  for (std::int64_t i = 0; i < count; ++i, ix += step) {
    const bool inside = static_cast<std::uint64_t>(ix) < static_cast<std::uint64_t>(iw);
    QR_UNROLL
    for (int quad = 0; quad < Quads; ++quad) {
      const auto tap = [&](int ky) __attribute__((always_inline)) {
        const int at = quad * 4 + ky;
        return inside ? load_bytes(row.taps[at] + ix * row.strides[at], mask) ^ flip : border;
      };
      VecB four[4];
      interleave_four(tap(0), tap(1), tap(2), tap(3), four);
      QR_UNROLL
      for (int v = 0; v < 4; ++v) store_bytes(to.columns[i][quad][v], ~ByteMask{}, four[v]);
    }
  }
}

// The sums of `outputs` outputs, a vector of channels at a time.
template <int KW, int SW, int Quads>
void sum_columns(const Chunk &chunk, std::int64_t outputs, Buffer &buffer) noexcept {
  constexpr int kAtOnce = (KW + SW - 1) / SW;
  for (int v = 0; v < 4; ++v) {
    VecB held[Quads][KW];
    QR_UNROLL
    for (int quad = 0; quad < Quads; ++quad)
      QR_UNROLL for (int kx = 0; kx < KW; ++kx) held[quad][kx] = load_bytes(chunk.w[quad][kx][v], ~ByteMask{});
    const VecI bias = load(chunk.bias[v]);
    VecI acc[kAtOnce];
    const auto add = [&](std::int64_t column, int from, int quad, int n) __attribute__((always_inline)) {
      // Column `from` of those that the first output sees.
      const int kx = from - n * SW;
      if (kx >= 0 && kx < KW)
        acc[n] = add_quads(acc[n], load_bytes(buffer.columns[column][quad][v], ~ByteMask{}), held[quad][kx]);
    };
    QR_UNROLL for (int n = 0; n < kAtOnce - 1; ++n) acc[n] = bias;
    QR_UNROLL
    for (int column = 0; column < KW - SW; ++column)
      QR_UNROLL for (int quad = 0; quad < Quads; ++quad) QR_UNROLL for (int n = 0; n < kAtOnce - 1; ++n)
          add(column, column, quad, n);
    for (std::int64_t o = 0; o < outputs; ++o) {
      acc[kAtOnce - 1] = bias;
      QR_UNROLL
      for (int s = 0; s < SW; ++s)
        QR_UNROLL for (int quad = 0; quad < Quads; ++quad) QR_UNROLL for (int n = 0; n < kAtOnce; ++n)
            add(o * SW + KW - SW + s, KW - SW + s, quad, n);
      store(buffer.sums[o][v], acc[0]);
      QR_UNROLL for (int n = 0; n + 1 < kAtOnce; ++n) acc[n] = acc[n + 1];
    }
  }
}

void finish(const FinishBytes &f, const Chunk &chunk, const Buffer &buffer, std::int64_t outputs, ByteMask mask,
            std::uint8_t *y, std::int64_t step) noexcept {
  const VecB y_flip = VecB{} + f.flip;
  const VecH zero = VecH{} + f.zero, low = VecH{} + f.low, high = VecH{} + f.high;
  VecF multiplier[4];
  QR_UNROLL for (int v = 0; v < 4; ++v) multiplier[v] = load(chunk.multiplier[v]);
  for (std::int64_t o = 0; o < outputs; ++o, y += step) {
    VecI d[4];
    QR_UNROLL for (int v = 0; v < 4; ++v) d[v] = round_to_int(to_float(load(buffer.sums[o][v])) * multiplier[v]);
    store_bytes(y, mask, f.plain ? pack_bytes(d) : pack_bytes<std::uint8_t>(d, zero, low, high) ^ y_flip);
  }
}

template <int KW, int SW, int Quads>
void run_row(const ConvInt &p, const FinishBytes &f, const Chunk &chunk, const Row &row, ByteMask mask,
             std::int8_t flip, std::int8_t border, std::uint8_t *y, Buffer &buffer) noexcept {
  const Window &w = p.window;
  // Where taps are dilated, outputs as far apart as they are see the same columns.
  for (std::int64_t phase = 0; phase < min_of(w.dw, w.ow); ++phase) {
    const std::int64_t all = ceil_div<std::int64_t>(w.ow - phase, w.dw);
    for (std::int64_t o = 0; o < all; o += kOutputs) {
      const std::int64_t outputs = min_of(kOutputs, all - o), first = phase + o * w.dw;
      lay_columns<Quads>(row, first * SW - w.pad_left, w.dw, (outputs - 1) * SW + KW, w.iw, mask, flip, border, buffer);
      sum_columns<KW, SW, Quads>(chunk, outputs, buffer);
      finish(f, chunk, buffer, outputs, mask, y + first * f.y_stride, w.dw * f.y_stride);
    }
  }
}

using RunRow = decltype(&run_row<3, 1, 1>);
template <int KW>
RunRow choose_row(const Window &w) noexcept {
  if (w.kh <= 4) return w.sw == 1 ? run_row<KW, 1, 1> : run_row<KW, 2, 1>;
  return w.sw == 1 ? run_row<KW, 1, 2> : run_row<KW, 2, 2>;
}

}  // namespace

bool run_depthwise_columns(const Call &call, const ConvInt &p, const Requantise &requantise) noexcept {
  const Window &w = p.window;
  const FinishBytes f(requantise, p, false);
  const bool fits = w.kh <= 4 * kMostQuads && (w.kw == 3 || w.kw == 5 || w.kw == 7) && (w.sw == 1 || w.sw == 2) &&
                    (w.dw == 1 || w.sw == 1) && !p.has_residual;
  // Half of the bytes of all vectors or more are of channels.
  const bool full = p.oc * 2 >= ceil_div<std::int64_t>(p.oc, 64) * 64;
  if (!fits || !full || quant_bytes(p.x.dtype) != 1 || p.w_bits != 8 || !f.usable) return false;
  const RunRow run = w.kw == 3 ? choose_row<3>(w) : w.kw == 5 ? choose_row<5>(w) : choose_row<7>(w);
  const auto flip = static_cast<std::int8_t>(p.x.dtype == kI8 ? -128 : 0),
             border = static_cast<std::int8_t>(p.x.zero ^ flip);
  const auto *const x = call.operand<const std::uint8_t>(0);
  over_depthwise_rows(call, p, 64, [&](std::int64_t channel, std::int64_t first, std::int64_t last) {
    alignas(64) std::uint8_t outside[64];
    std::memset(outside, p.x.zero, sizeof outside);
    Chunk chunk;
    Buffer buffer;
    lay_chunk(p, call, channel, flip != 0, chunk);
    const ByteMask mask = first_bytes(p.oc - channel);
    for (std::int64_t at = first; at < last; ++at) {
      const std::int64_t image = at / w.oh, oy = at % w.oh;
      Row row;
      for (int ky = 0; ky < 4 * kMostQuads; ++ky) {
        const std::int64_t iy = oy * w.sh - w.pad_top + ky * std::int64_t{w.dh};
        const bool inside = ky < w.kh && iy >= 0 && iy < w.ih;
        row.taps[ky] = inside ? x + (image * w.ih + iy) * w.iw * p.x_stride + channel : outside;
        row.strides[ky] = inside ? p.x_stride : 0;
      }
      run(p, f, chunk, row, mask, flip, border, f.y + at * w.ow * f.y_stride + channel, buffer);
    }
  });
  return true;
}

#else

bool run_depthwise_columns(const Call &, const ConvInt &, const Requantise &) noexcept { return false; }

#endif

}  // namespace quarry::kernels::QR_ISA
