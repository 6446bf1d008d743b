// SPDX-License-Identifier: Apache-2.0
// Products with weights of 2, 4 or 8 bits in blocks. Each weight is read once for as many rows as there are registers
// for; x is brought into the order in which dwords give their parts first. For many rows weights become panels of f32.
#include "kernels/cpu/contraction/block_weights.h"
#include "kernels/cpu/contraction/gemm_tile.h"
#include "kernels/cpu/movement/transpose.h"

namespace quarry::kernels::QR_ISA {

namespace {

// x lies in the order that the weights' dwords give: for each vector of them, for each place in a dword, the x of its
// lanes; then what the sum of the lanes begins with. Weights are taken from where they lie in a dword, so each is
// 2^(its place) times as large, and x is made smaller by as much; that weights count from their middle is in the
// beginning.
struct Weights : BlockWeights {
  const float *x;  // [m][vector][place, start][lane], padded with zeros
};

template <int bits>
QR_INLINE VecF placed_weights(VecI dwords, int place) noexcept {
  if (place == 32 / bits - 1) return to_float(reinterpret_cast<VecI>(reinterpret_cast<VecU>(dwords) >> (32 - bits)));
  return to_float(dwords & splat(((1 << bits) - 1) << (place * bits)));
}

// The weights at `place` of each dword, less the middle of their range.
template <int bits>
QR_INLINE VecF weights_at(VecI dwords, int place) noexcept {
  constexpr std::int32_t mask = (1 << bits) - 1, middle = 1 << (bits - 1);
  const VecI shifted = dwords >> (place * bits);
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  if constexpr (bits <= 4) {
    VecF table;
    QR_UNROLL for (int i = 0; i < kLanes; ++i) table[i] = static_cast<float>((i & mask) - middle);
    return choose(table, shifted);
  }
#endif
  return to_float((shifted & splat(mask)) - splat(middle));
}

// R rows of x with C rows of weights.
template <int bits, int R, int C>
QR_INLINE void tile(const Weights &s, const Spread &spread, std::int64_t row, std::int64_t n) noexcept {
  constexpr int places = 32 / bits;
  const std::int64_t depth = s.vectors * (places + 1) * kLanes;
  const std::uint8_t *w = s.w + n * s.dwords * 4;
  const float *x = s.x + row * depth, *scales = s.scales + n * s.blocks;
  VecF sums[R][C] = {};
  const auto step = [&](int dwords, int blocks) __attribute__((always_inline)) {
    VecI packed[C];
    VecF part[R][C];
    QR_UNROLL
    for (int r = 0; r < R; ++r) {
      const VecF start = load(x + r * depth + places * kLanes);
      QR_UNROLL for (int c = 0; c < C; ++c) part[r][c] = start;
    }
    QR_UNROLL
    for (int c = 0; c < C; ++c) {
      const std::uint8_t *const from = w + c * s.dwords * 4;
      packed[c] = load_dwords(from, dwords);
      __builtin_prefetch(from + kWeightsAhead);
      __builtin_prefetch(reinterpret_cast<const char *>(scales + c * s.blocks) + kScalesAhead);
    }
    QR_UNROLL
    for (int place = 0; place < places; ++place) {
      VecF values[C];
      QR_UNROLL
      for (int c = 0; c < C; ++c) values[c] = placed_weights<bits>(packed[c], place);
      QR_UNROLL
      for (int r = 0; r < R; ++r) {
        const VecF factor = load(x + r * depth + place * kLanes);
        QR_UNROLL
        for (int c = 0; c < C; ++c) part[r][c] = fma(factor, values[c], part[r][c]);
      }
    }
    QR_UNROLL
    for (int c = 0; c < C; ++c) {
      const VecF scale = spread(scales + c * s.blocks, blocks);
      QR_UNROLL
      for (int r = 0; r < R; ++r) sums[r][c] = fma(part[r][c], scale, sums[r][c]);
    }
  };
  std::int64_t at = 0;
  for (; at + kLanes <= s.dwords; at += kLanes, w += kLanes * 4, x += (places + 1) * kLanes) {
    scales = s.scales + n * s.blocks + (at >> s.log_dwords);
    step(kLanes, spread.count);
  }
  if (at < s.dwords) {
    scales = s.scales + n * s.blocks + (at >> s.log_dwords);
    step(static_cast<int>(s.dwords - at), static_cast<int>(s.blocks - (at >> s.log_dwords)));
  }
  put_sums<R, C>(s, row, n, sums);
}

template <int bits, int R, int C>
void rows_of(const Weights &s, std::int64_t row, std::int64_t begin, std::int64_t end) noexcept {
  const Spread spread(s.p.block * bits / 32);
  std::int64_t n = begin;
  for (; n + C <= end; n += C) tile<bits, R, C>(s, spread, row, n);
  for (; n < end; ++n) tile<bits, R, 1>(s, spread, row, n);
}

template <int bits>
void columns(const Weights &s, std::int64_t begin, std::int64_t end) noexcept {
  constexpr int kRows = 4, kWide = kF32Panel;
  std::int64_t row = 0;
  for (; row + kRows <= s.p.m; row += kRows) rows_of<bits, kRows, kF32Panel / 2>(s, row, begin, end);
  for (; row < s.p.m; ++row) rows_of<bits, 1, kWide>(s, row, begin, end);
}

constexpr std::int64_t kColumns = kF32Panel * kLanes;

// Scratch of a panel of columns.
struct PanelRoom {
  float *panel;          // [k][column] as f32
  std::int32_t *packed;  // [dword][column]
  float *scales, *shifts, *bias;

  PanelRoom(std::byte *scratch, std::int64_t depth, std::int64_t places) noexcept
      : panel(reinterpret_cast<float *>(scratch)),
        packed(reinterpret_cast<std::int32_t *>(panel + depth * kColumns)),
        scales(reinterpret_cast<float *>(packed + depth / places * kColumns)),
        shifts(scales + kColumns),
        bias(shifts + kColumns) {
    std::memset(scratch, 0, static_cast<std::size_t>((depth + depth / places + 3) * kColumns * 4));
  }
};

// `dwords` rows of packed weights, of one block, as f32 in vectors of columns.
template <int bits>
QR_INLINE float *widen_dwords(const PanelRoom &room, std::int64_t begin, std::int64_t end, int vectors,
                              float *to) noexcept {
  constexpr int places = 32 / bits;
  for (std::int64_t d = begin; d < end; ++d, to += places * vectors * kLanes)
    for (int v = 0; v < vectors; ++v) {
      const VecI from = load(room.packed + d * kColumns + v * kLanes);
      const VecF scale = load(room.scales + v * kLanes), shift = load(room.shifts + v * kLanes);
      QR_UNROLL
      for (int place = 0; place < places; ++place)
        store(to + (place * vectors + v) * kLanes, (weights_at<bits>(from, place) - shift) * scale);
    }
  return to;
}

// The weights of columns from n on, `depth` of them from k on: turned, so that columns lie beside each other, and made
// f32.
template <int bits>
QR_INLINE void fill_panel(const Weights &s, const PanelRoom &room, std::int64_t n, std::int64_t columns, std::int64_t k,
                          std::int64_t depth) noexcept {
  constexpr int places = 32 / bits;
  const std::int64_t block = s.p.block, dwords_of_block = block / places;
  const std::int64_t first = k / places, dwords = min_of(depth / places, s.dwords - first);
  const int vectors = static_cast<int>(ceil_div<std::int64_t>(columns, kLanes));
  transpose(4, reinterpret_cast<const std::byte *>(s.w) + (n * s.dwords + first) * 4,
            reinterpret_cast<std::byte *>(room.packed), columns, dwords, s.dwords * 4, kColumns * 4);
  float *to = room.panel;
  for (std::int64_t at = 0; at < dwords; at += dwords_of_block) {
    const std::int64_t b = (k + at * places) / block;
    for (std::int64_t c = 0; c < columns; ++c) {
      room.scales[c] = s.scales[(n + c) * s.blocks + b];
      room.shifts[c] = zero_of<bits>(s, n + c, b) - static_cast<float>(1 << (bits - 1));
    }
    to = widen_dwords<bits>(room, at, at + dwords_of_block, vectors, to);
  }
}

// Panels of columns, for many rows.
template <int bits>
void panels(const Weights &s, std::byte *scratch, std::int64_t begin, std::int64_t end) noexcept {
  const MatMulBlocks &p = s.p;
  const std::int64_t depth = panel_depth(p);
  const PanelRoom room(scratch, depth, 32 / bits);
  for (std::int64_t task = begin; task < end; ++task) {
    const std::int64_t n = task * kColumns, columns = min_of(kColumns, p.n - n);
    const int vectors = static_cast<int>(ceil_div<std::int64_t>(columns, kLanes));
    if (s.bias) std::memcpy(room.bias, s.bias + n, bytes_of<float>(columns));
    for (std::int64_t k = 0; k < p.k; k += depth) {
      fill_panel<bits>(s, room, n, columns, k, depth);
      Gemm job;
      job.x = s.x + k, job.x_step = p.k, job.rows = p.m, job.k = min_of(depth, p.k - k);
      job.vectors = vectors, job.tail = static_cast<int>(columns - (vectors - 1) * kLanes);
      job.w = room.panel, job.y = s.y + n, job.y_step = p.n;
      job.accumulate = k > 0, job.finish = k + depth >= p.k;
      if (s.bias) job.bias = room.bias;
      run_gemm(job);
    }
  }
}

// A row of x in the order of Weights::x.
template <int bits>
void order_row(const Weights &s, const float *from, float *to) noexcept {
  constexpr int places = 32 / bits;
  constexpr float kMiddle = 1 << (bits - 1);
  for (std::int64_t v = 0; v < s.vectors; ++v, to += (places + 1) * kLanes) {
    const std::int64_t begin = v * places * kLanes, there = s.p.k - begin;
    float end[places * kLanes];
    const float *x = from + begin;
    if (there < places * kLanes) {
      std::memset(end, 0, sizeof end);
      if (there > 0) std::memcpy(end, from + begin, bytes_of<float>(there));
      x = end;
    }
    float smaller = 1, start[kLanes] = {};
    for (int place = 0; place < places; ++place, smaller /= 1 << bits)
      for (int lane = 0; lane < kLanes; ++lane) {
        const float value = x[lane * places + place];
        to[place * kLanes + lane] = place == places - 1 ? value : value * smaller;
        start[lane] -= value;
      }
    for (int lane = 0; lane < kLanes; ++lane) to[places * kLanes + lane] = start[lane] * kMiddle;
  }
}
QR_INLINE void sum_blocks(const MatMulBlocks &p, const float *from, std::int64_t blocks, float *sums) noexcept {
  for (std::int64_t b = 0; b < blocks; ++b) {
    float total = 0;
    for (std::int64_t k = b * p.block; k < min_of<std::int64_t>(p.k, (b + 1) * p.block); ++k) total += from[k];
    sums[b] = total;
  }
}

// Of `count` blocks from b on, a multiple of whole bytes away from the first: zero points less their middle.
template <int bits>
QR_INLINE void zeros_from(const BlockWeights &s, std::int64_t n, std::int64_t b, std::int64_t count,
                          float *zeros) noexcept {
  constexpr std::int64_t per_byte = 8 / bits;
  constexpr float middle = 1 << (bits - 1);
  if (s.zeros) {
    for (std::int64_t i = 0; i < count; ++i) zeros[i] = s.zeros[n * s.blocks + b + i] - middle;
    return;
  }
  const std::uint8_t *const from = s.packed_zeros + n * s.zero_bytes + b / per_byte;
  for (std::int64_t i = 0; i < ceil_div(count, per_byte); ++i)
    QR_UNROLL for (int e = 0; e < per_byte; ++e) zeros[i * per_byte + e] =
        static_cast<float>((from[i] >> (e * bits)) & ((1 << bits) - 1)) - middle;
}

}  // namespace

#if !defined(__clang__)  // which makes no clones
__attribute__((noclone))
#endif
__attribute__((noinline)) void
zero_shifts(const BlockWeights &s, std::int64_t row, int rows, std::int64_t n, float *shifts) noexcept {
  constexpr std::int64_t kSome = 64;
  VecF totals[kMostShifts] = {};
  for (std::int64_t b = 0; b < s.blocks; b += kSome) {
    const std::int64_t count = min_of(kSome, s.blocks - b);
    float zeros[kSome];
    if (s.p.bits == 2) zeros_from<2>(s, n, b, count, zeros);
    else if (s.p.bits == 4) zeros_from<4>(s, n, b, count, zeros);
    else zeros_from<8>(s, n, b, count, zeros);
    const float *const scales = s.scales + n * s.blocks + b, *const x_sums = s.x_sums + row * s.blocks + b;
    for (std::int64_t i = 0; i < count; i += kLanes) {
      const int lanes = static_cast<int>(min_of<std::int64_t>(kLanes, count - i));
      const auto some = [&](const float *from) __attribute__((always_inline)) {
        return lanes == kLanes ? load(from) : load_part(from, lanes);
      };
      const VecF scaled = some(zeros + i) * some(scales + i);
      for (int r = 0; r < rows; ++r) totals[r] = fma(scaled, some(x_sums + r * s.blocks + i), totals[r]);
    }
  }
  for (int r = 0; r < rows; ++r) shifts[r] = sum(totals[r]);
}

void run_MatMulBlocks(const Call &call) {
  const auto &p = call.as<MatMulBlocks>();
  const bool in_panels = p.m >= kRowsOfPanels;
  const float *const given = call.operand<const float>(0);
  Weights s{BlockWeights(call), given};
  const std::int64_t depth = s.vectors * (32 / p.bits + 1) * kLanes;
  if (!in_panels) {
    float *const ordered = reinterpret_cast<float *>(call.shared_scratch());
    float *const x_sums = p.zeros == BlockZeros::Middle ? nullptr : ordered + p.m * depth;
    for (std::int64_t row = 0; row < p.m; ++row) {
      float *const to = ordered + row * depth;
      if (p.bits == 2) order_row<2>(s, given + row * p.k, to);
      else if (p.bits == 4) order_row<4>(s, given + row * p.k, to);
      else order_row<8>(s, given + row * p.k, to);
      if (x_sums) sum_blocks(p, given + row * p.k, s.blocks, x_sums + row * s.blocks);
    }
    s.x = ordered, s.x_sums = x_sums;
  }
  const double work = 2.0 * static_cast<double>(p.m) * static_cast<double>(depth);
  if (in_panels) {
    call.threads.run(static_cast<std::uint64_t>(ceil_div(p.n, kColumns)),
                     static_cast<std::uint64_t>(kWorthSharing / work / static_cast<double>(kColumns)) + 1,
                     [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                       const auto from = static_cast<std::int64_t>(begin), to = static_cast<std::int64_t>(end);
                       std::byte *const scratch = call.worker_scratch(worker);
                       switch (p.bits) {
                         case 2: return panels<2>(s, scratch, from, to);
                         case 4: return panels<4>(s, scratch, from, to);
                         default: return panels<8>(s, scratch, from, to);
                       }
                     });
    return;
  }
  call.threads.run(static_cast<std::uint64_t>(p.n), static_cast<std::uint64_t>(kWorthSharing / work) + 1,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     const auto from = static_cast<std::int64_t>(begin), to = static_cast<std::int64_t>(end);
                     switch (p.bits) {
                       case 2: return columns<2>(s, from, to);
                       case 4: return columns<4>(s, from, to);
                       default: return columns<8>(s, from, to);
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
