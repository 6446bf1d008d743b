// SPDX-License-Identifier: Apache-2.0
#include "backends/common/kernels/isa/gemm_tile.h"

#include "backends/common/kernels/isa/activate.h"
#include "backends/common/kernels/isa/half_vec.h"
#include "backends/common/kernels/isa/prefetch.h"

namespace quarry::kernels::QR_ISA {

namespace {

// One register tile; what does not change within a product stays in `p`.
struct Tile {
  const Product &p;
  const float *const *x;
  std::ptrdiff_t x_tap;  // pointers
  std::ptrdiff_t x_offset;
  std::ptrdiff_t row;  // the first
  bool clip;
  const float *after;
  const char *ahead;
};

constexpr int kLinesOfVectors = kBytes < 64 ? 64 / kBytes : 1;  // vectors of a line of the caches
constexpr std::int64_t kAheadBytes = 16;                        // fetched ahead per step of a tile

// Rows MR, vectors NV, sums of KS interleaved parts. `fetch`: weights are fetched some steps ahead.
template <int MR, int NV, int KS, WeightType type, bool fetch = false>
void tile(const Tile &t) noexcept {
  const Product &p = t.p;
  float *const y = p.y + t.row * p.y_step;
  VecF acc[KS][MR][NV];
  if (p.accumulate) {
    QR_UNROLL for (int i = 0; i < MR; ++i) {
      QR_UNROLL for (int v = 0; v < NV - 1; ++v) acc[0][i][v] = load(y + i * p.y_step + v * kLanes);
      const float *const last = y + i * p.y_step + (NV - 1) * kLanes;
      acc[0][i][NV - 1] = p.tail == kLanes ? load(last) : load_part(last, p.tail);
    }
  } else {
    QR_UNROLL for (int i = 0; i < MR; ++i) QR_UNROLL for (int v = 0; v < NV; ++v) acc[0][i][v] = VecF{};
  }
  QR_UNROLL for (int s = 1; s < KS; ++s) QR_UNROLL for (int i = 0; i < MR; ++i) QR_UNROLL for (int v = 0; v < NV; ++v)
      acc[s][i][v] = VecF{};

  // What is read and written at the end comes near meanwhile: rows lie too far apart for the processor to foresee it.
  if (KS == 1) {
    const auto each_line = [&](const float *from, std::ptrdiff_t step, auto get) __attribute__((always_inline)) {
      QR_UNROLL for (int i = 0; i < MR; ++i) QR_UNROLL for (int v = 0; v < NV; v += kLinesOfVectors)
          get(from + i * step + v * kLanes);
    };
    if (!p.accumulate) each_line(y, p.y_step, [](const float *to) { prefetch_write(to); });
    if (p.finish) {
      const std::ptrdiff_t step = p.end.step, first = t.row * step;
      if (p.end.before && p.end.before != p.y)
        each_line(p.end.before + first, step, [](const float *from) { prefetch_near(from); });
      if (t.after) each_line(t.after + first, step, [](const float *from) { prefetch_near(from); });
    }
  }

  using W = Weights<type>;
  const auto *w = static_cast<const typename W::Element *>(p.w);
  const std::ptrdiff_t w_step = p.w_step;
  [[maybe_unused]] const char *ahead = t.ahead;
  const std::int64_t k_end = p.k;
  for (std::int64_t tap = 0; tap < p.taps; ++tap) {
    const float *q[MR];
    QR_UNROLL for (int i = 0; i < MR; ++i) q[i] = t.x[tap * t.x_tap + i] + t.x_offset;
    std::int64_t k = 0;
    const auto step = [&](int j, int s) __attribute__((always_inline)) {
      VecF b[NV];
      QR_UNROLL for (int v = 0; v < NV; ++v) b[v] = W::load(w + v * kLanes);
      if (KS > 1 && fetch)
        QR_UNROLL for (int v = 0; v < NV; v += kLinesOfVectors)
            prefetch_near(reinterpret_cast<const float *>(w) + v * kLanes + 512);
      QR_UNROLL for (int i = 0; i < MR; ++i) {
        const VecF a = splat(q[i][k + j]);
        QR_UNROLL for (int v = 0; v < NV; ++v) NV > 1
            ? add_product(acc[s][i][v], a, b[v])
            : void(acc[s][i][v] = fma(a, b[v], acc[s][i][v]));  // one vector: the factor may come from memory
      }
      w += w_step;
    };
    if constexpr (KS > 1) {
      for (; k + 4 <= k_end; k += 4) {
        step(0, 0 % KS);
        step(1, 1 % KS);
        step(2, 2 % KS);
        step(3, 3 % KS);
      }
    }
    // One step fills the units, and compilers that may mix several use more registers than there are (measured: 99
    // against 92 GFLOP/s), so each ends with a fence. What four share is a fifth of the instructions, and those count
    // where another thread runs on the same core.
    const auto fence = [] { asm volatile("" ::: "memory"); };
    if constexpr (KS == 1) {
      for (; k + 4 <= k_end; k += 4) {
        prefetch_far(ahead), ahead += 4 * kAheadBytes;
        step(0, 0), fence();
        step(1, 0), fence();
        step(2, 0), fence();
        step(3, 0), fence();
      }
    }
    _Pragma("GCC unroll 1") for (; k < k_end; ++k) step(0, 0);
  }
  QR_UNROLL for (int s = 1; s < KS; ++s) QR_UNROLL for (int i = 0; i < MR; ++i) QR_UNROLL for (int v = 0; v < NV; ++v)
      acc[0][i][v] += acc[s][i][v];

  if (p.finish) {
    // Last, so that the sums before it are rounded at their own size.
    if (p.bias) {
      QR_UNROLL for (int v = 0; v < NV; ++v) {
        const VecF b = load(p.bias + v * kLanes);
        QR_UNROLL for (int i = 0; i < MR; ++i) acc[0][i][v] += b;
      }
    }
    if (p.row_bias) {
      QR_UNROLL for (int i = 0; i < MR; ++i) {
        const VecF b = splat(p.row_bias[t.row + i]);
        QR_UNROLL for (int v = 0; v < NV; ++v) acc[0][i][v] += b;
      }
    }
    const auto add = [&](const float *r) __attribute__((always_inline)) {
      r += t.row * p.end.step;
      QR_UNROLL for (int i = 0; i < MR; ++i) {
        QR_UNROLL for (int v = 0; v < NV - 1; ++v) acc[0][i][v] += load(r + i * p.end.step + v * kLanes);
        const float *const last = r + i * p.end.step + (NV - 1) * kLanes;
        acc[0][i][NV - 1] += p.tail == kLanes ? load(last) : load_part(last, p.tail);
      }
    };
    if (p.end.before) add(p.end.before);
    if (t.clip) {
      const VecF low = splat(p.end.act->a), high = splat(p.end.act->b);
      QR_UNROLL for (int i = 0; i < MR; ++i) QR_UNROLL for (int v = 0; v < NV; ++v) acc[0][i][v] =
          max(low, acc[0][i][v]);
      if (p.end.act->b < __builtin_inff())  // (of Relu it is not)
        QR_UNROLL for (int i = 0; i < MR; ++i) QR_UNROLL for (int v = 0; v < NV; ++v) acc[0][i][v] =
            min(high, acc[0][i][v]);
    }
    if (t.after) add(t.after);
  }
  QR_UNROLL for (int i = 0; i < MR; ++i) {
    QR_UNROLL for (int v = 0; v < NV - 1; ++v) store(y + i * p.y_step + v * kLanes, acc[0][i][v]);
    float *const last = y + i * p.y_step + (NV - 1) * kLanes;
    if (p.tail == kLanes) store(last, acc[0][i][NV - 1]);
    else store_part(last, acc[0][i][NV - 1], p.tail);
  }
}

using TileFunction = void (*)(const Tile &) noexcept;
constexpr int kMostRows = 12;
#define QR_ROWS_6(NV)                                                                                     \
  nullptr, tile<1, NV, 1, W>, tile<2, NV, 1, W>, tile<3, NV, 1, W>, tile<4, NV, 1, W>, tile<5, NV, 1, W>, \
      tile<6, NV, 1, W>
#define QR_ROWS_8(NV) QR_ROWS_6(NV), tile<7, NV, 1, W>, tile<8, NV, 1, W>
#define QR_ROWS_12(NV) QR_ROWS_8(NV), tile<9, NV, 1, W>, tile<10, NV, 1, W>, tile<11, NV, 1, W>, tile<12, NV, 1, W>
#if (defined(__AVX512F__) && QR_ISA_BYTES == 64) || defined(__aarch64__)  // 32 registers
template <WeightType W>
constexpr TileFunction kTiles[kF32Panel + 1][kMostRows + 1] = {
    {}, {QR_ROWS_12(1)}, {QR_ROWS_12(2)}, {QR_ROWS_8(3)}, {QR_ROWS_6(4)}};
template <WeightType W, bool F>
constexpr TileFunction kFewTiles[kF32Panel + 1][kFewRows + 1] = {
    {},
    {nullptr, tile<1, 1, 4, W, F>, tile<2, 1, 4, W, F>, tile<3, 1, 4, W, F>},
    {nullptr, tile<1, 2, 4, W, F>, tile<2, 2, 4, W, F>, tile<3, 2, 2, W, F>},
    {nullptr, tile<1, 3, 4, W, F>, tile<2, 3, 2, W, F>, tile<3, 3, 2, W, F>},
    {nullptr, tile<1, 4, 4, W, F>, tile<2, 4, 2, W, F>, tile<3, 4, 1, W, F>}};
constexpr int kRows[kF32Panel + 1] = {0, 12, 12, 8, 6};
#else
template <WeightType W>
constexpr TileFunction kTiles[kF32Panel + 1][kMostRows + 1] = {{}, {QR_ROWS_12(1)}, {QR_ROWS_6(2)}};
template <WeightType W, bool F>
constexpr TileFunction kFewTiles[kF32Panel + 1][kFewRows + 1] = {
    {},
    {nullptr, tile<1, 1, 4, W, F>, tile<2, 1, 4, W, F>, tile<3, 1, 4, W, F>},
    {nullptr, tile<1, 2, 4, W, F>, tile<2, 2, 2, W, F>, tile<3, 2, 2, W, F>}};
constexpr int kRows[kF32Panel + 1] = {0, 12, 6};
#endif

template <bool F>
TileFunction few_rows_tile(const Product &p, std::int64_t rows) noexcept {
  switch (p.weights) {
    case WeightType::F16: return kFewTiles<WeightType::F16, F>[p.vectors][rows];
    case WeightType::BF16: return kFewTiles<WeightType::BF16, F>[p.vectors][rows];
    default: return kFewTiles<WeightType::F32, F>[p.vectors][rows];
  }
}
TileFunction tile_of(const Product &p, std::int64_t rows) noexcept {
  if (!p.few_rows) {
    if constexpr (kWidensInTiles) {
      if (p.weights == WeightType::F16) return kTiles<WeightType::F16>[p.vectors][rows];
      if (p.weights == WeightType::BF16) return kTiles<WeightType::BF16>[p.vectors][rows];
    }
    return kTiles<WeightType::F32>[p.vectors][rows];
  }
  return p.from_memory ? few_rows_tile<true>(p, rows) : few_rows_tile<false>(p, rows);
}

struct Yes {
  static constexpr bool value = true;
};
struct No {
  static constexpr bool value = false;
};

}  // namespace

void product(const Product &given) noexcept {
  Product p = given;
  if (p.w_step == 0) p.w_step = p.vectors * kLanes;
  const bool clip = p.end.act && p.end.act->kind == Act::Clip,
             separate = p.finish && p.end.act && p.end.act->kind != Act::Clip && p.end.act->kind != Act::None;
  Tile t{p, nullptr, p.table_step, p.x_offset, 0, clip, separate ? nullptr : p.end.after, nullptr};
  const float *rows[kMostRows];
  const std::int64_t most = kRows[p.vectors], count = ceil_div(p.rows, most), base = p.rows / count,
                     more = p.rows % count;
  const std::int64_t columns = (p.vectors - 1) * kLanes + p.tail;
  // The weights that come next are fetched little by little, spread over the tiles.
  const std::int64_t ahead_of_tile = p.taps * p.k * kAheadBytes,
                     bytes = p.taps * p.k * p.vectors * kBytes / (p.weights == WeightType::F32 ? 1 : 2);
  if (!p.table) t.x_tap = 0, t.x_offset = 0;
  constexpr std::int64_t kFinishRows = 24;
  std::int64_t finished = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t n = base + (i < more);
    if (p.table) {
      t.x = p.table + t.row;
    } else {
      for (std::int64_t r = 0; r < n; ++r) rows[r] = p.x + (t.row + r) * p.x_step;
      t.x = rows;
    }
    const bool useful = p.ahead && (i + 1) * ahead_of_tile <= bytes;
    t.ahead = useful ? static_cast<const char *>(p.ahead) + i * ahead_of_tile : static_cast<const char *>(p.w);
    tile_of(p, n)(t);
    t.row += n;
    // Some tiles at a time, while they are in the first-level cache.
    if (separate && (t.row - finished >= kFinishRows || i + 1 == count)) {
      finish_rows(*p.end.act, p.y + finished * p.y_step, p.y_step, t.row - finished, columns,
                  p.end.after ? p.end.after + finished * p.end.step : nullptr, p.end.step);
      finished = t.row;
    }
  }
}

void finish_rows(const Activation &act, float *y, std::ptrdiff_t y_step, std::int64_t rows, std::int64_t columns,
                 const float *r, std::ptrdiff_t r_step) noexcept {
  const std::int64_t vectors = columns / kLanes;
  const int left = static_cast<int>(columns % kLanes);
  with_each_activation(
      act, [&](auto f) __attribute__((always_inline)) {
        // One loop over all whole vectors, so that f's constants are loaded once.
        const auto whole = [&](auto add) __attribute__((always_inline)) {
          float *to = y;
          const float *from = r;
          for (std::int64_t i = rows * vectors, v = vectors; i > 0; --i) {
            VecF result = f(load(to));
            if constexpr (decltype(add)::value) result += load(from), from += kLanes;
            store(to, result);
            to += kLanes;
            if (--v > 0) continue;
            v = vectors;
            to += y_step - vectors * kLanes;
            if constexpr (decltype(add)::value) from += r_step - vectors * kLanes;
          }
        };
        if (r) whole(Yes{});
        else whole(No{});
        if (left == 0) return;
        for (std::int64_t row = 0; row < rows; ++row) {
          float *const to = y + row * y_step + vectors * kLanes;
          const VecF v = f(load_part(to, left));
          store_part(to, r ? v + load_part(r + row * r_step + vectors * kLanes, left) : v, left);
        }
      });
}

void pack_panel(const float *from, std::ptrdiff_t k_step, std::ptrdiff_t column_step, std::int64_t k,
                std::int64_t columns, int vectors, float scale, float *to) noexcept {
  const std::int64_t width = vectors * kLanes;
  if (column_step == 1) {
    for (std::int64_t i = 0; i < k; ++i, from += k_step, to += width) {
      std::int64_t c = 0;
      for (; c + kLanes <= columns; c += kLanes) store(to + c, load(from + c) * splat(scale));
      if (c < columns) {
        store(to + c, load_part(from + c, static_cast<int>(columns - c)) * splat(scale));
        c += kLanes;
      }
      for (; c < width; c += kLanes) store(to + c, VecF{});
    }
    return;
  }
  for (std::int64_t i = 0; i < k; ++i, from += k_step, to += width) {
    for (std::int64_t c = 0; c < columns; ++c) to[c] = from[c * column_step] * scale;
    for (std::int64_t c = columns; c < width; ++c) to[c] = 0;
  }
}

}  // namespace quarry::kernels::QR_ISA
