// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/gemm_tile.h"

#include "kernels/cpu/loops/prefetch.h"
#include "kernels/cpu/vector/activate.h"
#include "kernels/cpu/vector/half_vec.h"

namespace quarry::kernels::QR_ISA {

namespace {

// One register tile; what does not change within a product stays in `p`.
struct Tile {
  const Gemm &p;
  const float *const *x;
  std::ptrdiff_t x_tap;  // pointers
  std::ptrdiff_t x_offset;
  std::ptrdiff_t row;  // the first
  // Room for a tile's sums, which finish_sums() ends: they begin with what is there. nullptr: the tile does it all.
  float *room;
  bool clip;
  const float *after;
  const char *ahead;
};

constexpr int kLinesOfVectors = kBytes < 64 ? 64 / kBytes : 1;  // vectors of a line of the caches
constexpr std::int64_t kAheadBytes = 16;                        // fetched ahead per step of a tile

// Whether any part of a vector is loaded and stored in one instruction each: then tiles do so.
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
constexpr bool kTails = true;
#else
constexpr bool kTails = false;
#endif

// The sums that a tile begins with: MR rows of NV vectors; parts: the last of them has `tail` columns.
template <bool parts, int MR, int NV>
QR_INLINE void load_rows(VecF (&sums)[MR][NV], const float *from, std::ptrdiff_t step, int tail) noexcept {
  QR_UNROLL for (int i = 0; i < MR; ++i, from += step) {
    QR_UNROLL for (int v = 0; v < NV - 1; ++v) sums[i][v] = load(from + v * kLanes);
    const float *const last = from + (NV - 1) * kLanes;
    sums[i][NV - 1] = parts ? load_part(last, tail) : load(last);
  }
}
template <int MR, int NV>
QR_INLINE void clear_rows(VecF (&sums)[MR][NV]) noexcept {
  QR_UNROLL for (int i = 0; i < MR; ++i) QR_UNROLL for (int v = 0; v < NV; ++v) sums[i][v] = VecF{};
}

// What is read and written at the end comes near meanwhile: rows lie too far apart for the processor to foresee it.
template <int MR, int NV>
QR_INLINE void prefetch_rows(const Tile &t) noexcept {
  const Gemm &p = t.p;
  const auto each_line = [&](const float *from, std::ptrdiff_t step, auto get) __attribute__((always_inline)) {
    from += t.row * step;
    _Pragma("GCC unroll 1") for (int i = 0; i < MR; ++i, from += step)
        QR_UNROLL for (int v = 0; v < NV; v += kLinesOfVectors) get(from + v * kLanes);
  };
  if (!p.accumulate) each_line(p.y, p.y_step, [](const float *to) { prefetch_write(to); });
  if (!p.finish) return;
  const auto near = [](const float *from) { prefetch_near(from); };
  if (p.end.before && p.end.before != p.y) each_line(p.end.before, p.end.step, near);
  if (t.after) each_line(t.after, p.end.step, near);
}

// Adds the products of one k: an element of each row times the panel's row of weights at w, which moves on.
template <int MR, int NV, class W>
QR_INLINE void add_step(const float *const (&q)[MR], std::int64_t k, const typename W::Element *&w,
                        std::ptrdiff_t w_step, VecF (&sums)[MR][NV]) noexcept {
  VecF b[NV];
  QR_UNROLL for (int v = 0; v < NV; ++v) b[v] = W::load(w + v * kLanes);
  QR_UNROLL for (int i = 0; i < MR; ++i) {
    const VecF a = splat(q[i][k]);
    QR_UNROLL for (int v = 0; v < NV; ++v) NV > 1
        ? add_product(sums[i][v], a, b[v])
        : void(sums[i][v] = fma(a, b[v], sums[i][v]));  // one vector: the factor may come from memory
  }
  w += w_step;
}

// Weights of four k, some steps ahead of w.
template <int NV, class Element>
QR_INLINE void prefetch_weights(const Element *w, std::ptrdiff_t w_step) noexcept {
  const auto *line = reinterpret_cast<const char *>(w) + 2048;
  _Pragma("GCC unroll 1") for (int j = 0; j < 4; ++j, line += w_step * sizeof(*w))
      QR_UNROLL for (int v = 0; v < NV; v += kLinesOfVectors) prefetch_near(line + v * kBytes);
}

// Adds a tap's products: k_end elements of the rows at q. Numbers by value: fences make compilers read memory anew.
template <int MR, int NV, int KS, class W>
QR_INLINE void add_tap(const float *const (&q)[MR], std::int64_t k_end, const typename W::Element *&w,
                       std::ptrdiff_t w_step, const char *&ahead, bool from_memory, VecF (&acc)[KS][MR][NV]) noexcept {
  std::int64_t k = 0;
  if constexpr (KS > 1) {
    for (; k + 4 <= k_end; k += 4) {
      if (from_memory) prefetch_weights<NV>(w, w_step);
      add_step<MR, NV, W>(q, k, w, w_step, acc[0]);
      add_step<MR, NV, W>(q, k + 1, w, w_step, acc[1 % KS]);
      add_step<MR, NV, W>(q, k + 2, w, w_step, acc[2 % KS]);
      add_step<MR, NV, W>(q, k + 3, w, w_step, acc[3 % KS]);
    }
  } else {
    // One step fills the units, and compilers that may mix several use more registers than there are (measured: 99
    // against 92 GFLOP/s), so each ends with a fence. What four share is a fifth of the instructions, and those count
    // where another thread runs on the same core.
    const auto fence = [] { asm volatile("" ::: "memory"); };
    for (; k + 4 <= k_end; k += 4) {
      prefetch_far(ahead), ahead += 4 * kAheadBytes;
      add_step<MR, NV, W>(q, k, w, w_step, acc[0]), fence();
      add_step<MR, NV, W>(q, k + 1, w, w_step, acc[0]), fence();
      add_step<MR, NV, W>(q, k + 2, w, w_step, acc[0]), fence();
      add_step<MR, NV, W>(q, k + 3, w, w_step, acc[0]), fence();
    }
  }
  _Pragma("GCC unroll 1") for (; k < k_end; ++k) add_step<MR, NV, W>(q, k, w, w_step, acc[0]);
}

// Between the bounds of `act`; the upper one is infinite for Relu.
template <int MR, int NV>
QR_INLINE void clip_rows(VecF (&sums)[MR][NV], const Activation &act) noexcept {
  const VecF low = splat(act.a), high = splat(act.b);
  QR_UNROLL for (int i = 0; i < MR; ++i) QR_UNROLL for (int v = 0; v < NV; ++v) sums[i][v] = max(low, sums[i][v]);
  if (act.b < __builtin_inff())
    QR_UNROLL for (int i = 0; i < MR; ++i) QR_UNROLL for (int v = 0; v < NV; ++v) sums[i][v] = min(high, sums[i][v]);
}

// Bias, residual and bounds of sums in registers. Last, so that the sums before them are rounded at their own size.
template <int MR, int NV>
QR_INLINE void finish_tile(const Tile &t, VecF (&sums)[MR][NV], int tail) noexcept {
  const Gemm &p = t.p;
  if (p.bias) {
    QR_UNROLL for (int v = 0; v < NV; ++v) {
      const VecF b = load(p.bias + v * kLanes);
      QR_UNROLL for (int i = 0; i < MR; ++i) sums[i][v] += b;
    }
  }
  if (p.row_bias) {
    QR_UNROLL for (int i = 0; i < MR; ++i) {
      const VecF b = splat(p.row_bias[t.row + i]);
      QR_UNROLL for (int v = 0; v < NV; ++v) sums[i][v] += b;
    }
  }
  if (p.end.before) {
    const float *r = p.end.before + t.row * p.end.step;
    QR_UNROLL for (int i = 0; i < MR; ++i, r += p.end.step) {
      QR_UNROLL for (int v = 0; v < NV - 1; ++v) sums[i][v] += load(r + v * kLanes);
      sums[i][NV - 1] += kTails ? load_part(r + (NV - 1) * kLanes, tail) : load(r + (NV - 1) * kLanes);
    }
  }
  if (t.clip) clip_rows(sums, *p.end.act);
}

// Rows MR, vectors NV, sums of KS interleaved parts. Sums of one part and f32 can be finished in the registers; all
// other tiles are little more than their loops.
template <int MR, int NV, int KS, WeightType type>
void tile(const Tile &t) noexcept {
  const Gemm &p = t.p;
  constexpr bool kFinishes = KS == 1 && type == WeightType::F32;
  // Where sums begin and end.
  const bool in_room = !kFinishes || t.room;
  float *const y = in_room ? t.room : p.y + t.row * p.y_step;
  std::ptrdiff_t y_step = in_room ? NV * kLanes : p.y_step;
  const int tail = in_room ? kLanes : p.tail;
  VecF acc[KS][MR][NV];
  if (!kFinishes || p.accumulate) load_rows<kFinishes && kTails>(acc[0], y, y_step, tail);
  else clear_rows(acc[0]);
  QR_UNROLL for (int s = 1; s < KS; ++s) clear_rows(acc[s]);
  if constexpr (KS == 1) prefetch_rows<MR, NV>(t);

  using W = Weights<type>;
  const auto *w = static_cast<const typename W::Element *>(p.w);
  const std::ptrdiff_t w_step = p.w_step;
  const std::int64_t k_end = p.k;
  const char *ahead = t.ahead;
  for (std::int64_t tap = 0; tap < p.taps; ++tap) {
    const float *q[MR];
    QR_UNROLL for (int i = 0; i < MR; ++i) q[i] = t.x[tap * t.x_tap + i] + t.x_offset;
    add_tap<MR, NV, KS, W>(q, k_end, w, w_step, ahead, p.from_memory, acc);
  }
  QR_UNROLL for (int s = 1; s < KS; ++s) QR_UNROLL for (int i = 0; i < MR; ++i) QR_UNROLL for (int v = 0; v < NV; ++v)
      acc[0][i][v] += acc[s][i][v];

  if (p.finish && !in_room) finish_tile(t, acc[0], tail);
  if (kFinishes) asm("" : "+r"(y_step));  // or gcc holds the addresses of all rows through the loop
  float *to = y;
  const bool whole = !kFinishes || !kTails || tail == kLanes;
  QR_UNROLL for (int i = 0; i < MR; ++i, to += y_step) {
    QR_UNROLL for (int v = 0; v < NV - 1; ++v) store(to + v * kLanes, acc[0][i][v]);
    if (whole) store(to + (NV - 1) * kLanes, acc[0][i][NV - 1]);
    else store_part(to + (NV - 1) * kLanes, acc[0][i][NV - 1], tail);
  }
}

// Whole vectors, or parts of them.
QR_INLINE VecF get(const float *from, int count) noexcept {
  return count == kLanes ? load(from) : load_part(from, count);
}
QR_INLINE void put(float *to, VecF v, int count) noexcept {
  if (count == kLanes) store(to, v);
  else store_part(to, v, count);
}

// What becomes of the sums of `rows` rows, which lie in `room`.
void finish_sums(const Tile &t, const float *room, std::int64_t rows) noexcept {
  const Gemm &p = t.p;
  const std::ptrdiff_t y_step = p.y_step, r_step = p.end.step, room_step = p.vectors * kLanes;
  const bool act = p.finish && t.clip;
  const VecF low = splat(act ? p.end.act->a : 0.0f), high = splat(act ? p.end.act->b : 0.0f);
  for (int v = 0; v < p.vectors; ++v) {
    const int count = v + 1 < p.vectors ? kLanes : p.tail;
    const std::int64_t at = v * kLanes;
    const auto residual = [&](const float *r) { return p.finish && r ? r + t.row * r_step + at : nullptr; };
    const float *from = room + at, *before = residual(p.end.before), *after = residual(t.after);
    const float *row_bias = p.finish && p.row_bias ? p.row_bias + t.row : nullptr;
    const VecF bias = p.finish && p.bias ? load(p.bias + at) : VecF{};
    float *to = p.y + t.row * y_step + at;
    for (std::int64_t i = rows; i > 0; --i, from += room_step, to += y_step) {
      VecF sum = load(from) + bias;
      if (row_bias) sum += splat(*row_bias++);
      if (before) sum += get(before, count), before += r_step;
      if (act) sum = clamp(sum, low, high);
      if (after) sum += get(after, count), after += r_step;
      put(to, sum, count);
    }
  }
}
// What they begin with.
void begin_sums(const Tile &t, float *room, std::int64_t rows) noexcept {
  const Gemm &p = t.p;
  if (!p.accumulate) {
    std::memset(room, 0, static_cast<std::size_t>(rows * p.vectors * kBytes));
    return;
  }
  for (std::int64_t row = t.row; row < t.row + rows; ++row)
    for (int v = 0; v < p.vectors; ++v, room += kLanes)
      store(room, get(p.y + row * p.y_step + v * kLanes, v + 1 < p.vectors ? kLanes : p.tail));
}

using TileFunction = void (*)(const Tile &) noexcept;
constexpr int kMostRows = 12;
// By vectors and rows: not every number of rows needs a tile, and 16 bits, whose sums go through memory anyway, need
// the fewest (rows_of_tile() makes do with what there is).
#define QR_TILE(MR, NV) tile<MR, NV, 1, W>
#define QR_F32_TILE(MR, NV) (W == WeightType::F32 ? tile<MR, NV, 1, WeightType::F32> : nullptr)
#define QR_ROWS_6(NV) \
  nullptr, QR_TILE(1, NV), QR_TILE(2, NV), QR_TILE(3, NV), QR_TILE(4, NV), QR_F32_TILE(5, NV), QR_TILE(6, NV)
#define QR_ROWS_8(NV) QR_ROWS_6(NV), nullptr, QR_TILE(8, NV)
#define QR_ROWS_12(NV) QR_ROWS_6(NV), nullptr, QR_F32_TILE(8, NV), nullptr, nullptr, nullptr, QR_TILE(12, NV)
#if (defined(__AVX512F__) && QR_ISA_BYTES == 64) || defined(__aarch64__)  // 32 registers
template <WeightType W>
constexpr TileFunction kTiles[kF32Panel + 1][kMostRows + 1] = {
    {}, {QR_ROWS_12(1)}, {QR_ROWS_12(2)}, {QR_ROWS_8(3)}, {QR_ROWS_6(4)}};
template <WeightType W>
constexpr TileFunction kFewTiles[kF32Panel + 1][kFewRows + 1] = {
    {},
    {nullptr, tile<1, 1, 4, W>, tile<2, 1, 4, W>, tile<3, 1, 4, W>},
    {nullptr, tile<1, 2, 4, W>, tile<2, 2, 4, W>, tile<3, 2, 2, W>},
    {nullptr, tile<1, 3, 4, W>, tile<2, 3, 2, W>, tile<3, 3, 2, W>},
    {nullptr, tile<1, 4, 4, W>, tile<2, 4, 2, W>, tile<3, 4, 1, W>}};
constexpr int kRows[kF32Panel + 1] = {0, 12, 12, 8, 6};
#else
template <WeightType W>
constexpr TileFunction kTiles[kF32Panel + 1][kMostRows + 1] = {{}, {QR_ROWS_12(1)}, {QR_ROWS_6(2)}};
template <WeightType W>
constexpr TileFunction kFewTiles[kF32Panel + 1][kFewRows + 1] = {
    {},
    {nullptr, tile<1, 1, 4, W>, tile<2, 1, 4, W>, tile<3, 1, 4, W>},
    {nullptr, tile<1, 2, 4, W>, tile<2, 2, 2, W>, tile<3, 2, 2, W>}};
constexpr int kRows[kF32Panel + 1] = {0, 12, 6};
#endif
constexpr int kRoomVectors = 24;  // of the largest tile

// What there are of one type, by rows.
template <WeightType W>
const TileFunction *tiles_of(const Gemm &p) noexcept {
  if constexpr (W == WeightType::F32 || kWidensInTiles) {
    if (!p.few_rows) return kTiles<W>[p.vectors];
  }
  return kFewTiles<W>[p.vectors];
}
const TileFunction *tiles_of(const Gemm &p) noexcept {
  switch (p.weights) {
    case WeightType::F16: return tiles_of<WeightType::F16>(p);
    case WeightType::BF16: return tiles_of<WeightType::BF16>(p);
    default: return tiles_of<WeightType::F32>(p);
  }
}

// How many of `left` rows the next tile takes: all take about as many, because those of three rows and fewer wait for
// weights.
std::int64_t rows_of_tile(const TileFunction *tiles, std::int64_t most, std::int64_t left) noexcept {
  std::int64_t n = ceil_div(left, ceil_div(left, most));
  while (n < most && !tiles[n]) ++n;
  if (n <= left) return n;
  n = ceil_div<std::int64_t>(left, 2);
  while (!tiles[n]) ++n;
  return n;
}

// act of some whole vectors in each of some rows: one loop over all of them, so that its constants are loaded once.
void activate_rows(const Activation &act, float *y, std::ptrdiff_t y_step, std::int64_t rows,
                   std::int64_t vectors) noexcept {
  with_each_activation(
      act, [&](auto f) __attribute__((always_inline)) {
        float *to = y;
        for (std::int64_t i = rows * vectors, v = vectors; i > 0; --i) {
          store(to, f(load(to)));
          to += kLanes;
          if (--v > 0) continue;
          v = vectors;
          to += y_step - vectors * kLanes;
        }
      });
}

}  // namespace

void run_gemm(const Gemm &given) noexcept {
  Gemm p = given;
  if (p.w_step == Gemm::kPacked) p.w_step = p.vectors * kLanes;
  const bool clip = p.end.act && p.end.act->kind == Act::Clip,
             separate = p.finish && p.end.act && p.end.act->kind != Act::Clip && p.end.act->kind != Act::None;
  // What tiles do not finish in their registers goes through the first-level cache.
  alignas(64) float room[kRoomVectors * kLanes];
  const bool in_registers = p.weights == WeightType::F32 && !p.few_rows && (kTails || p.tail == kLanes) &&
                            !(p.finish && p.end.after && !separate);
  // Tiles that could finish them set them to zero too.
  const bool from_zero = p.weights == WeightType::F32 && !p.few_rows;
  Tile t{p,
         nullptr,
         p.table_step,
         p.x_offset,
         0,
         in_registers ? nullptr : room,
         clip,
         separate ? nullptr : p.end.after,
         nullptr};
  const float *rows[kMostRows];
  const TileFunction *const tiles = tiles_of(p);
  const std::int64_t columns = (p.vectors - 1) * kLanes + p.tail;
  // The weights that come next are fetched little by little, spread over the tiles.
  const std::int64_t ahead_of_tile = p.taps * p.k * kAheadBytes,
                     bytes = p.taps * p.k * p.vectors * kBytes / (p.weights == WeightType::F32 ? 1 : 2);
  if (!p.table) t.x_tap = 0, t.x_offset = 0;
  constexpr std::int64_t kFinishRows = 24;
  std::int64_t finished = 0;
  for (std::int64_t i = 0; t.row < p.rows; ++i) {
    const std::int64_t n = rows_of_tile(tiles, kRows[p.vectors], p.rows - t.row);
    if (p.table) {
      t.x = p.table + t.row;
    } else {
      for (std::int64_t r = 0; r < n; ++r) rows[r] = p.x + (t.row + r) * p.x_step;
      t.x = rows;
    }
    const bool useful = p.ahead && (i + 1) * ahead_of_tile <= bytes;
    t.ahead = useful ? static_cast<const char *>(p.ahead) + i * ahead_of_tile : static_cast<const char *>(p.w);
    if (t.room && (p.accumulate || !from_zero)) begin_sums(t, room, n);
    tiles[n](t);
    if (t.room) finish_sums(t, room, n);
    t.row += n;
    // Some tiles at a time, while they are in the first-level cache.
    if (separate && (t.row - finished >= kFinishRows || t.row == p.rows)) {
      finish_rows(*p.end.act, p.y + finished * p.y_step, p.y_step, t.row - finished, columns,
                  p.end.after ? p.end.after + finished * p.end.step : nullptr, p.end.step);
      finished = t.row;
    }
  }
}

void finish_rows(const Activation &act, float *y, std::ptrdiff_t y_step, std::int64_t rows, std::int64_t columns,
                 const float *r, std::ptrdiff_t r_step) noexcept {
  const std::int64_t vectors = columns / kLanes, whole = vectors * kLanes;
  const int left = static_cast<int>(columns - whole);
  if (vectors > 0) activate_rows(act, y, y_step, rows, vectors);
  if (left > 0) {
    // What fills no vector is brought together first.
    constexpr std::int64_t kSome = 24;
    alignas(64) float parts[kSome * kLanes];
    for (std::int64_t first = 0; first < rows; first += kSome) {
      const std::int64_t n = min_of(kSome, rows - first);
      float *const to = y + first * y_step + whole;
      for (std::int64_t i = 0; i < n; ++i) store(parts + i * kLanes, load_part(to + i * y_step, left));
      activate_rows(act, parts, kLanes, n, 1);
      for (std::int64_t i = 0; i < n; ++i) store_part(to + i * y_step, load(parts + i * kLanes), left);
    }
  }
  if (!r) return;
  for (std::int64_t row = 0; row < rows; ++row, y += y_step, r += r_step)
    for (std::int64_t c = 0; c < columns; c += kLanes) {
      const int count = static_cast<int>(min_of<std::int64_t>(kLanes, columns - c));
      put(y + c, get(y + c, count) + get(r + c, count), count);
    }
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
