// SPDX-License-Identifier: Apache-2.0
// Depthwise 3x3 ConvInt of 16-bit activations straight from rows of input: the first two rows of taps are interleaved,
// and the third with itself, whose second meets weights of zero; so two dot products of pairs take a column of taps.
// Needs vectors of 64 bytes (kPacksRows); others lay rows down first (depthwise_int.cpp).
//
// Interleaving within 16 bytes leaves of 32 channels 0-3 8-11 16-19 24-27 in one vector and the rest in another, in
// which order weights, bias and multipliers are laid down as well; the packs at the end bring them back.
#include "kernels/cpu/convolution/depthwise_rows.h"

namespace quarry::kernels::QR_ISA {

#if QR_ISA_BYTES == 64

namespace {

struct Chunk {                              // of 32 channels
  alignas(64) std::int16_t w[3][2][2][32];  // [column][pair of rows][vector]
  alignas(64) std::int32_t bias[2][16];
  alignas(64) float multiplier[2][16];
};

void lay_chunk(const ConvInt &p, const Call &call, std::int64_t channel, Chunk &to) noexcept {
  const auto *const w = call.operand<const std::int16_t>(1);
  const auto *const bias = call.operand<const std::int32_t>(2);
  const auto *const multiplier = call.operand<const float>(3);
  std::memset(&to, 0, sizeof to);
  for (std::int64_t half = 0; half < 2; ++half) {
    const std::int64_t first = channel + half * kLanes;
    if (first >= p.oc) break;
    const std::int16_t *const at = w + first / kLanes * 2 * 3 * kHalves;  // [pair of tap rows][column][lane][2]
    for (std::int64_t four = 0; four < 4; ++four) {
      const std::int64_t v = four % 2, place = half * 2 + four / 2;
      for (int kx = 0; kx < 3; ++kx)
        for (int pair = 0; pair < 2; ++pair)
          std::memcpy(to.w[kx][pair][v] + place * 8, at + (pair * 3 + kx) * kHalves + four * 8, 16);
      std::memcpy(to.bias[v] + place * 4, bias + first + four * 4, 16);
      std::memcpy(to.multiplier[v] + place * 4, multiplier + first + four * 4, 16);
    }
  }
}

struct Row {
  const std::uint16_t *taps[3];  // rows of input at their first column, or a pixel of border
  std::int64_t strides[3];       // from pixel to pixel; 0: that border
  std::uint16_t *y;
};
struct Line {
  const Window &w;
  const FinishHalves &finish;
  HalfMask mask;
  std::int16_t flip, border;  // what u16 are turned by, so that they are signed; the border, turned
};

template <int SW, bool Whole>
__attribute__((noinline)) void run_row(const Line &line, const Chunk &chunk, const Row &row) noexcept {
  const Window &w = line.w;
  const FinishHalves &f = line.finish;
  const VecH flip = VecH{} + line.flip, border = VecH{} + line.border, y_flip = VecH{} + f.flip;
  const VecH low = VecH{} + f.low, high = VecH{} + f.high;
  const VecI zero = splat(f.zero);
  const HalfMask mask = Whole ? ~HalfMask{} : line.mask;
  const auto tap = [&](int ky, std::int64_t ix) __attribute__((always_inline)) {
    return load_halves(row.taps[ky] + ix * row.strides[ky], mask) ^ flip;
  };
  const auto column = [&](std::int64_t ix, VecH(&to)[2][2]) __attribute__((always_inline)) {
    VecH a = border, b = border, c = border;
    if (static_cast<std::uint64_t>(ix) < static_cast<std::uint64_t>(w.iw))
      a = tap(0, ix), b = tap(1, ix), c = tap(2, ix);
    interleave_two(a, b, to[0]);
    interleave_two(c, c, to[1]);
  };
  // In registers: what is stored might be weights otherwise.
  VecH held[3][2][2];
  QR_UNROLL
  for (int kx = 0; kx < 3; ++kx)
    QR_UNROLL for (int v = 0; v < 2; ++v) held[kx][0][v] = load(chunk.w[kx][0][v]),
                                          held[kx][1][v] = load(chunk.w[kx][1][v]);
  const auto add = [&](VecI sum, const VecH(&in)[2][2], int kx, int v) __attribute__((always_inline)) {
    return add_pairs(add_pairs(sum, in[0][v], held[kx][0][v]), in[1][v], held[kx][1][v]);
  };
  std::uint16_t *y = row.y;
  const auto put = [&](const VecI(&acc)[2]) __attribute__((always_inline)) {
    VecI d[2];
    QR_UNROLL
    for (int v = 0; v < 2; ++v) d[v] = round_to_int(to_float(acc[v]) * load(chunk.multiplier[v])) + zero;
    store_halves(y, mask, pack_in_order(d[0], d[1], low, high) ^ y_flip);
    y += f.y_stride;
  };
  std::int64_t ix = -w.pad_left;
  VecH in[2][2];
  column(ix++, in);
  if constexpr (SW == 1) {
    // The sums of three outputs go on at once.
    VecI first[2], second[2], third[2];
    QR_UNROLL for (int v = 0; v < 2; ++v) first[v] = add(load(chunk.bias[v]), in, 0, v);
    column(ix++, in);
    QR_UNROLL
    for (int v = 0; v < 2; ++v) first[v] = add(first[v], in, 1, v), second[v] = add(load(chunk.bias[v]), in, 0, v);
    for (std::int64_t ox = 0; ox < w.ow; ++ox) {
      column(ix++, in);
      QR_UNROLL
      for (int v = 0; v < 2; ++v) {
        first[v] = add(first[v], in, 2, v);
        second[v] = add(second[v], in, 1, v);
        third[v] = add(load(chunk.bias[v]), in, 0, v);
      }
      put(first);
      QR_UNROLL for (int v = 0; v < 2; ++v) first[v] = second[v], second[v] = third[v];
    }
  } else {
    VecI acc[2];
    for (std::int64_t ox = 0; ox < w.ow; ++ox) {
      QR_UNROLL for (int v = 0; v < 2; ++v) acc[v] = add(load(chunk.bias[v]), in, 0, v);
      column(ix++, in);
      QR_UNROLL for (int v = 0; v < 2; ++v) acc[v] = add(acc[v], in, 1, v);
      column(ix++, in);
      QR_UNROLL for (int v = 0; v < 2; ++v) acc[v] = add(acc[v], in, 2, v);
      put(acc);
    }
  }
}

}  // namespace

bool run_depthwise_halves(const Call &call, const ConvInt &p, const Requantise &requantise) noexcept {
  const Window &w = p.window;
  const FinishHalves finish(requantise, p, false);
  if (!depthwise_rows_fit(p) || quant_bytes(p.x.dtype) != 2 || !finish.usable) return false;
  const auto flip = static_cast<std::int16_t>(p.x.dtype == kU16 ? -32768 : 0);
  const auto border = static_cast<std::int16_t>(p.x.zero + flip);
  const auto *const x = call.operand<const std::uint16_t>(0);
  over_depthwise_rows(call, p, 2 * kLanes, [&](std::int64_t channel, std::int64_t first, std::int64_t last) {
    alignas(64) std::uint16_t outside[32];
    for (std::uint16_t &one : outside) one = static_cast<std::uint16_t>(p.x.zero);
    const std::int64_t channels = p.oc - channel;
    const Line line{w, finish, first_halves(channels), flip, border};
    const bool whole = channels >= 2 * kLanes;
    const auto run =
        w.sw == 1 ? (whole ? run_row<1, true> : run_row<1, false>) : (whole ? run_row<2, true> : run_row<2, false>);
    Chunk chunk;
    lay_chunk(p, call, channel, chunk);
    for (std::int64_t at = first; at < last; ++at) {
      Row row{};
      const std::int64_t image = at / w.oh, oy = at % w.oh;
      for (int ky = 0; ky < 3; ++ky) {
        const std::int64_t iy = oy * w.sh - w.pad_top + ky;
        const bool inside = iy >= 0 && iy < w.ih;
        row.taps[ky] = inside ? x + (image * w.ih + iy) * w.iw * p.x_stride + channel : outside;
        row.strides[ky] = inside ? p.x_stride : 0;
      }
      row.y = finish.y + at * w.ow * finish.y_stride + channel;
      run(line, chunk, row);
    }
  });
  return true;
}

#else

bool run_depthwise_halves(const Call &, const ConvInt &, const Requantise &) noexcept { return false; }

#endif

}  // namespace quarry::kernels::QR_ISA
