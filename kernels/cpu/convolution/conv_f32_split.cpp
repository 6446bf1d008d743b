// SPDX-License-Identifier: Apache-2.0
// Products of f32 by AMX's products of bf16 (split_shape.h).
#include "kernels/cpu/loops/tiles.h"
#include "kernels/cpu/shapes/split_shape.h"
#include "kernels/cpu/vector/activate.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Which parts are multiplied, of x and of w: the smallest products first.
constexpr int kTerms[6][2] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};
constexpr std::int64_t kPart = 2 * kSplitTileBytes;  // of 32 of k, of 32 rows or columns

QR_INLINE VecU bits_of(VecF v) noexcept { return reinterpret_cast<VecU>(v); }
// The nearest bf16, as f32.
QR_INLINE VecF nearest(VecF v) noexcept {
  const VecU u = bits_of(v);
  return reinterpret_cast<VecF>((u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u);
}
QR_INLINE void store_upper_halves(std::byte *to, VecF v) noexcept {
  const __m256i halves = _mm512_maskz_cvtepi32_epi16(0xffff, reinterpret_cast<__m512i>(bits_of(v) >> 16));
  std::memcpy(to, &halves, sizeof halves);
}

// Splits up to 32 rows into [32 of k][part][row][32 of k]; false: they hold what tiles do not multiply as f32 does.
bool split_rows(const float *x, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte *to) noexcept {
  VecI strange{};
  for (std::int64_t row = 0; row < rows; ++row, x += stride)
    for (std::int64_t at = 0; at < (k + kSplitK - 1) / kSplitK * kSplitK; at += kLanes) {
      const std::int64_t left = k - at;
      VecF v = left >= kLanes ? load(x + at) : left > 0 ? load_part(x + at, static_cast<int>(left)) : VecF{};
      const VecU size = bits_of(v) & 0x7fffffffu;
      strange |= reinterpret_cast<VecI>((size != 0u) & (size - kSplitLeastX > kSplitMostX - kSplitLeastX));
      std::byte *part = to + at / kSplitK * kSplitParts * kPart + row * 64 + at % kSplitK * 2;
      for (std::int64_t i = 0; i < kSplitParts; ++i, part += kPart) {
        const VecF first = nearest(v);
        store_upper_halves(part, first);
        v -= first;
      }
    }
  std::int32_t any = 0;
  QR_UNROLL for (int i = 0; i < kLanes; ++i) any |= strange[i];
  return any == 0;
}

// sums[32][32]; tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 weights.
template <bool Two>
__attribute__((noinline)) void multiply_tiles(const std::byte *rows, const std::byte *w, std::int64_t steps,
                                              float *sums) noexcept {
  static constexpr float kZero[16] = {};
  tile_load<0>(kZero, 0), tile_load<1>(kZero, 0);
  if constexpr (Two) tile_load<2>(kZero, 0), tile_load<3>(kZero, 0);
  const auto term = [&](int i) __attribute__((always_inline)) {
    const std::byte *const a = rows + kTerms[i][0] * kPart, *const b = w + kTerms[i][1] * kPart;
    tile_load<4>(a, 64);
    tile_load<6>(b, 64);
    tile_add_bf16<0, 4, 6>();
    tile_load<7>(b + kSplitTileBytes, 64);
    tile_add_bf16<1, 4, 7>();
    if constexpr (Two) {
      tile_load<5>(a + kSplitTileBytes, 64);
      tile_add_bf16<2, 5, 6>();
      tile_add_bf16<3, 5, 7>();
    }
  };
  for (; steps > 0; --steps, rows += kSplitParts * kPart, w += kSplitParts * kPart)
    term(0), term(1), term(2), term(3), term(4), term(5);
  constexpr std::int64_t kStride = kSplitColumns * 4;
  tile_store<0>(sums, kStride), tile_store<1>(sums + 16, kStride);
  if constexpr (Two)
    tile_store<2>(sums + 16 * kSplitColumns, kStride), tile_store<3>(sums + 16 * kSplitColumns + 16, kStride);
}

// The same of `Rows` rows by FMA, in the order of k, which is what avx512 gives bit by bit.
template <int Rows>
void add_rows(const float *x, std::int64_t stride, std::int64_t k, const std::byte *w, float *sums) noexcept {
  for (int vector = 0; vector < 2; ++vector) {
    VecF acc[Rows] = {};
    for (std::int64_t at = 0; at < k; ++at) {
      const std::byte *const from =
          w + at / kSplitK * kSplitParts * kPart + vector * kSplitTileBytes + at % kSplitK / 2 * 64;
      const auto part = [&](int i) __attribute__((always_inline)) {
        const VecU two = bits_of(load(reinterpret_cast<const float *>(from + i * kPart)));
        return reinterpret_cast<VecF>(at % 2 ? two & 0xffff0000u : two << 16);
      };
      const VecF b = (part(0) + part(1)) + part(2);
      QR_UNROLL for (int i = 0; i < Rows; ++i) add_product(acc[i], splat(x[i * stride + at]), b);
    }
    QR_UNROLL for (int i = 0; i < Rows; ++i) store(sums + i * kSplitColumns + vector * kLanes, acc[i]);
  }
}
void multiply_fma(const float *x, std::int64_t stride, std::int64_t rows, std::int64_t k, const std::byte *w,
                  float *sums) noexcept {
  for (; rows >= 8; rows -= 8, x += 8 * stride, sums += 8 * kSplitColumns) add_rows<8>(x, stride, k, w, sums);
  for (; rows > 0; --rows, x += stride, sums += kSplitColumns) add_rows<1>(x, stride, k, w, sums);
}

struct Split {
  const ConvF32 &p;
  const SplitShape &s;
  const float *x, *bias, *r;
  const std::byte *w;
  float *y;
};

// Bias, residual, activation of the sums of `rows` rows from `first` on.
void finish(const Split &g, const float *sums, std::int64_t first, std::int64_t rows, std::int64_t column) noexcept {
  const ConvF32 &p = g.p;
  with_activation(
      p.act, [&](auto f) __attribute__((always_inline)) {
        for (std::int64_t c = 0; c < kSplitColumns && column + c < p.oc; c += kLanes) {
          const int there = static_cast<int>(min_of<std::int64_t>(kLanes, p.oc - column - c));
          const auto get = [&](const float *from) { return there == kLanes ? load(from) : load_part(from, there); };
          for (std::int64_t row = 0; row < rows; ++row) {
            const std::int64_t pixel = first + row;
            VecF v = load(sums + row * kSplitColumns + c);
            if (g.bias) v += load(g.bias + column + c);
            const float *const r = g.r ? g.r + pixel * p.r_stride + column + c : nullptr;
            if (p.residual == Residual::BeforeAct) v += get(r);
            v = f(v);
            if (p.residual == Residual::AfterAct) v += get(r);
            float *const to = g.y + pixel * p.y_stride + column + c;
            if (there == kLanes) store(to, v);
            else store_part(to, v, there);
          }
        }
      });
}

TileShapes shapes_of(std::int64_t rows) noexcept {
  TileShapes shapes;
  const auto first = static_cast<std::uint8_t>(min_of<std::int64_t>(16, rows)),
             second = static_cast<std::uint8_t>(rows > 16 ? rows - 16 : 16);
  const std::uint8_t all[8] = {first, first, second, second, first, second, 16, 16};
  for (int i = 0; i < 8; ++i) shapes.columns[i] = 64, shapes.rows[i] = all[i];
  return shapes;
}

// A block of pixels, split into parts where its numbers allow, in a worker's scratch.
struct SplitBlock {
  std::byte *split;
  bool plain[kSplitUnitsMost] = {};  // units that are multiplied by tiles
  std::int64_t first = 0, count = 0, units = 0;

  std::int64_t rows_of(std::int64_t unit) const noexcept { return min_of(kSplitRows, count - unit * kSplitRows); }
  void fill(const Split &g, std::int64_t from, std::int64_t pixels) noexcept {
    first = from, count = pixels, units = ceil_div(pixels, kSplitRows);
    for (std::int64_t u = 0; u < units; ++u)
      plain[u] = split_rows(g.x + (first + u * kSplitRows) * g.p.x_stride, g.p.x_stride, rows_of(u), g.p.ic,
                            split + u * g.s.unit_bytes);
  }
};

// The sums of a block's units and a pair of vectors of channels. `shaped`: the rows that tiles are configured for.
void run_pair(const Split &g, const SplitBlock &block, std::int64_t pair, TileScope &tiles, std::int64_t &shaped,
              float *sums) noexcept {
  const ConvF32 &p = g.p;
  const std::byte *const w = g.w + pair * g.s.pair_bytes;
  for (std::int64_t u = 0; u < block.units; ++u) {
    const std::int64_t rows = block.rows_of(u), from = block.first + u * kSplitRows;
    if (!block.plain[u]) {
      multiply_fma(g.x + from * p.x_stride, p.x_stride, rows, p.ic, w, sums);
    } else {
      if (shaped != rows) tiles.set(shapes_of(rows)), shaped = rows;
      rows > 16 ? multiply_tiles<true>(block.split + u * g.s.unit_bytes, w, g.s.steps, sums)
                : multiply_tiles<false>(block.split + u * g.s.unit_bytes, w, g.s.steps, sums);
    }
    finish(g, sums, from, rows, pair * kSplitColumns);
  }
}

void run_split(const Call &call, const ConvF32 &p) noexcept {
  const SplitShape s = split_shape(p);
  std::size_t operand = 2;
  Split g{p, s, call.operand<const float>(0), nullptr, nullptr, call.operand<const std::byte>(1), nullptr};
  if (p.has_bias) g.bias = call.operand<const float>(operand++);
  if (p.residual != Residual::None) g.r = call.operand<const float>(operand++);
  g.y = call.operand<float>(operand);
  const std::int64_t pixels = std::int64_t{p.window.n} * p.window.oh * p.window.ow, workers = call.threads.workers;
  // Blocks of whole units; where there are few, pairs of vectors are shared out as well.
  std::int64_t units = s.units;
  const std::int64_t all_units = ceil_div(pixels, kSplitRows), wanted = kTasksPerWorker * workers;
  if (workers > 1) units = max_of<std::int64_t>(1, min_of(units, all_units / wanted));
  const std::int64_t blocks = ceil_div(all_units, units),
                     parts = workers > 1 && blocks < wanted ? min_of(s.pairs, ceil_div(wanted, blocks)) : 1;
  const double work = 2.0 * static_cast<double>(pixels) * p.ic * p.oc / static_cast<double>(blocks * parts);
  call.threads.run(static_cast<std::uint64_t>(blocks * parts), static_cast<std::uint64_t>(1 + kWorthSharing / work),
                   [&](std::uint64_t task, std::uint64_t end, std::uint32_t worker) {
                     SplitBlock there{call.worker_scratch(worker)};
                     auto *const sums = reinterpret_cast<float *>(there.split + s.units_bytes());
                     std::int64_t filled = -1, shaped = 0;
                     TileScope tiles;
                     for (; task < end; ++task) {
                       const std::int64_t block = static_cast<std::int64_t>(task) / parts,
                                          part = static_cast<std::int64_t>(task) % parts;
                       const std::int64_t first = block * units * kSplitRows;
                       if (filled != block) there.fill(g, first, min_of(units * kSplitRows, pixels - first));
                       filled = block;
                       for (std::int64_t pair = s.pairs * part / parts; pair < s.pairs * (part + 1) / parts; ++pair)
                         run_pair(g, there, pair, tiles, shaped, sums);
                     }
                   });
}

}  // namespace

void run_ConvF32(const Call &call) {
  const auto &p = call.as<ConvF32>();
  if (p.algorithm == ConvAlgorithm::Split) return run_split(call, p);
  QR_ISA_BASE::run_ConvF32(call);
}

}  // namespace quarry::kernels::QR_ISA
