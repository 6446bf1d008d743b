// SPDX-License-Identifier: Apache-2.0
// Depthwise 3x3 ConvInt of bytes by dot products of four: the three rows of taps and one that meets weights of zero are
// interleaved, so that one dot product takes a column of taps. Needs vectors of 64 bytes (kPacksRows); others widen to
// s16 (depthwise_int.cpp).
//
// Interleaving within 16 bytes leaves channels in the order 0-3 16-19 32-35 48-51 | 4-7 20-23 ..., in which weights,
// bias and multipliers are laid down as well; the packs at the end bring them back. Of 32 channels and fewer two rows
// of output are computed in one vector, the second in its upper half.
#include "kernels/cpu/convolution/depthwise_rows.h"

namespace quarry::kernels::QR_ISA {

#if QR_ISA_BYTES == 64

namespace {

struct Chunk {  // of 64 channels, or twice of 32
  alignas(64) std::int8_t w[3][4][64];
  alignas(64) std::int32_t bias[4][16];
  alignas(64) float multiplier[4][16];
};

// `rows`: of output in a vector. `flip`: what is added to signed bytes, which are multiplied as unsigned ones.
void lay_chunk(const ConvInt &p, const Call &call, std::int64_t channel, int rows, bool flip, Chunk &to) noexcept {
  const auto *const w = call.operand<const std::int16_t>(1);
  const auto *const bias = call.operand<const std::int32_t>(2);
  const auto *const multiplier = call.operand<const float>(3);
  std::memset(&to, 0, sizeof to);
  for (std::int64_t part = 0; part < 4; ++part) {
    const std::int64_t first = channel + part % (4 / rows) * kLanes;
    if (first >= p.oc) continue;
    const std::int16_t *const at = w + first / kLanes * 2 * 3 * kHalves;  // [pair of tap rows][column][lane][2]
    for (int kx = 0; kx < 3; ++kx) {
      const VecU a = reinterpret_cast<VecU>(load(at + kx * kHalves)),
                 b = reinterpret_cast<VecU>(load(at + (3 + kx) * kHalves));
      const VecU bytes = (a & 0xff) | (a >> 8 & 0xff00) | (b & 0xff) << 16;
      for (int v = 0; v < 4; ++v)
        std::memcpy(to.w[kx][v] + part * 16, reinterpret_cast<const char *>(&bytes) + v * 16, 16);
    }
    for (int v = 0; v < 4; ++v) {
      std::memcpy(to.bias[v] + part * 4, bias + first + v * 4, 16);
      std::memcpy(to.multiplier[v] + part * 4, multiplier + first + v * 4, 16);
    }
  }
  if (!flip) return;
  for (int v = 0; v < 4; ++v) {
    VecI sum{};
    for (int kx = 0; kx < 3; ++kx)
      sum = add_quads(sum, VecB{} + std::int8_t{-128}, load_bytes(to.w[kx][v], ~ByteMask{}));
    store(to.bias[v], load(to.bias[v]) - sum);
  }
}

struct Row {
  const std::uint8_t *taps[2][3];  // of each row of output: rows of input at their first column, or a pixel of border
  std::int64_t strides[2][3];      // from pixel to pixel; 0: that border
  std::uint8_t *y[2];
};
struct Line {  // what does not change from row to row
  const ConvInt &p;
  const FinishBytes &finish;
  ByteMask mask;
  std::int8_t flip, border;
};

// Rows: of output in a vector. Whole: all channels of a vector are there.
template <int SW, int Rows, bool Whole>
__attribute__((noinline)) void run_row(const Line &line, const Chunk &chunk, const Row &row) noexcept {
  const Window &w = line.p.window;
  const FinishBytes &f = line.finish;
  const VecB border = VecB{} + line.border, flip = VecB{} + line.flip, y_flip = VecB{} + f.flip;
  const VecH zero = VecH{} + f.zero, low = VecH{} + f.low, high = VecH{} + f.high;
  const ByteMask mask = Whole ? ~ByteMask{} : line.mask;
  const auto tap = [&](int ky, std::int64_t ix) __attribute__((always_inline)) {
    const std::uint8_t *const at = row.taps[0][ky] + ix * row.strides[0][ky];
    if constexpr (Rows == 1) return load_bytes(at, mask) ^ flip;
    else return load_halves(at, row.taps[1][ky] + ix * row.strides[1][ky], mask) ^ flip;
  };
  const auto column = [&](std::int64_t ix, VecB(&to)[4]) __attribute__((always_inline)) {
    VecB a = border, b = border, c = border;
    if (static_cast<std::uint64_t>(ix) < static_cast<std::uint64_t>(w.iw))
      a = tap(0, ix), b = tap(1, ix), c = tap(2, ix);
    interleave_four(a, b, c, c, to);  // the fourth meets a weight of zero
  };
  // In registers: what is stored might be weights otherwise.
  VecB held[3][4];
  QR_UNROLL
  for (int kx = 0; kx < 3; ++kx)
    QR_UNROLL for (int v = 0; v < 4; ++v) held[kx][v] = load_bytes(chunk.w[kx][v], ~ByteMask{});
  const auto weights = [&](int kx, int v) __attribute__((always_inline)) { return held[kx][v]; };
  std::uint8_t *y = row.y[0];
  [[maybe_unused]] std::uint8_t *second_y = row.y[1];
  const auto put = [&](const VecI(&acc)[4]) __attribute__((always_inline)) {
    VecI d[4];
    QR_UNROLL
    for (int v = 0; v < 4; ++v) d[v] = round_to_int(to_float(acc[v]) * load(chunk.multiplier[v]));
    const VecB bytes = f.plain ? pack_bytes(d) : pack_bytes<std::uint8_t>(d, zero, low, high) ^ y_flip;
    if constexpr (Rows == 1) store_bytes(y, mask, bytes);
    else store_halves(y, second_y, mask, bytes), second_y += f.y_stride;
    y += f.y_stride;
  };
  std::int64_t ix = -w.pad_left;
  VecB in[4];
  if constexpr (SW == 1) {
    // The sums of three outputs go on at once.
    VecI first[4], second[4], third[4];
    column(ix++, in);
    QR_UNROLL for (int v = 0; v < 4; ++v) first[v] = add_quads(load(chunk.bias[v]), in[v], weights(0, v));
    column(ix++, in);
    QR_UNROLL
    for (int v = 0; v < 4; ++v) {
      first[v] = add_quads(first[v], in[v], weights(1, v));
      second[v] = add_quads(load(chunk.bias[v]), in[v], weights(0, v));
    }
    for (std::int64_t ox = 0; ox < w.ow; ++ox) {
      column(ix++, in);
      QR_UNROLL
      for (int v = 0; v < 4; ++v) {
        first[v] = add_quads(first[v], in[v], weights(2, v));
        second[v] = add_quads(second[v], in[v], weights(1, v));
        third[v] = add_quads(load(chunk.bias[v]), in[v], weights(0, v));
      }
      put(first);
      QR_UNROLL for (int v = 0; v < 4; ++v) first[v] = second[v], second[v] = third[v];
    }
  } else {
    VecI acc[4];
    column(ix++, in);
    for (std::int64_t ox = 0; ox < w.ow; ++ox) {
      QR_UNROLL for (int v = 0; v < 4; ++v) acc[v] = add_quads(load(chunk.bias[v]), in[v], weights(0, v));
      column(ix++, in);
      QR_UNROLL for (int v = 0; v < 4; ++v) acc[v] = add_quads(acc[v], in[v], weights(1, v));
      column(ix++, in);
      QR_UNROLL for (int v = 0; v < 4; ++v) acc[v] = add_quads(acc[v], in[v], weights(2, v));
      put(acc);
    }
  }
}
using RunRow = void (*)(const Line &, const Chunk &, const Row &) noexcept;
template <int SW>
QR_INLINE RunRow choose_row(int rows, bool whole) noexcept {
  if (rows == 2) return whole ? run_row<SW, 2, true> : run_row<SW, 2, false>;
  return whole ? run_row<SW, 1, true> : run_row<SW, 1, false>;
}

}  // namespace

bool run_depthwise_bytes(const Call &call, const ConvInt &p, const Requantise &requantise) noexcept {
  const Window &w = p.window;
  const FinishBytes finish(requantise, p, false);
  if (!depthwise_rows_fit(p) || quant_bytes(p.x.dtype) != 1 || p.w_bits != 8 || !finish.usable) return false;
  const bool flip = p.x.dtype == kI8;
  const auto border = static_cast<std::int8_t>(p.x.zero ^ (flip ? -128 : 0));
  const auto *const x = call.operand<const std::uint8_t>(0);
  over_depthwise_rows(call, p, 64, [&](std::int64_t channel, std::int64_t first, std::int64_t last) {
    alignas(64) std::uint8_t outside[64];
    std::memset(outside, p.x.zero, sizeof outside);
    Chunk chunk;
    const std::int64_t channels = min_of<std::int64_t>(64, p.oc - channel);
    const int rows = channels <= 32 && last - first > 1 ? 2 : 1;
    const bool whole = channels == 64 / rows;
    const Line line{p, finish, first_bytes(channels), static_cast<std::int8_t>(flip ? -128 : 0), border};
    const RunRow run = w.sw == 1 ? choose_row<1>(rows, whole) : choose_row<2>(rows, whole);
    lay_chunk(p, call, channel, rows, flip, chunk);
    for (std::int64_t at = first; at < last; at += rows) {
      Row row{};
      for (int i = 0; i < rows; ++i) {
        // Of an odd number the last but one is computed again.
        const std::int64_t output = min_of(at, last - rows) + i, image = output / w.oh, oy = output % w.oh;
        for (int ky = 0; ky < 3; ++ky) {
          const std::int64_t iy = oy * w.sh - w.pad_top + ky;
          const bool inside = iy >= 0 && iy < w.ih;
          row.taps[i][ky] = inside ? x + (image * w.ih + iy) * w.iw * p.x_stride + channel : outside;
          row.strides[i][ky] = inside ? p.x_stride : 0;
        }
        row.y[i] = finish.y + output * w.ow * finish.y_stride + channel;
      }
      run(line, chunk, row);
    }
  });
  return true;
}

#else

bool run_depthwise_bytes(const Call &, const ConvInt &, const Requantise &) noexcept { return false; }

#endif

}  // namespace quarry::kernels::QR_ISA
