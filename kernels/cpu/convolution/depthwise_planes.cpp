// SPDX-License-Identifier: Apache-2.0
// One filter per channel over planes, as ONNX has them: vectors of pixels times single weights, some rows of a plane at
// a time.
#include "kernels/cpu/convolution/depthwise_planes.h"
#include "kernels/cpu/loops/plane_rows.h"
#include "kernels/cpu/vector/activate.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Of one plane.
struct Plane {
  const DepthwiseF32 &p;
  const DepthwisePlanes &s;
  const float *x;
  const float *w;  // of the first tap; each is a vector behind the one before
  float bias;
  VecF low, high;  // of what tiles store
  const float *r;
  float *y;
  const std::int32_t *columns;  // per column of taps: where the first pixel's is
  const float *rows;            // copied
};

// Rows of output of a tile: those at the end may belong to the tile before too.
constexpr int kRows = 4;
// Vectors of a tile, for whose sums there are registers.
#if defined(__aarch64__)
constexpr int kWideTile = 4;
#else
constexpr int kWideTile = 2;
#endif

// What becomes of the sums of R rows and V vectors of pixels.
template <int R, int V>
QR_INLINE void finish(const Plane &plane, const VecF (&acc)[R][V], std::int64_t out, std::int64_t ox) noexcept {
  const std::int64_t ow = plane.p.window.ow;
  const VecF bias = splat(plane.bias), low = plane.low, high = plane.high;
  QR_UNROLL for (int v = 0; v < V; ++v) {
    const std::int64_t column = ox + v * kLanes;
    const int count = static_cast<int>(min_of<std::int64_t>(kLanes, ow - column));
    if (count <= 0) continue;
    float *to = plane.y + out + column;
    QR_UNROLL for (int i = 0; i < R; ++i, to += ow) {
      const VecF sum = clamp(acc[i][v] + bias, low, high);
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
      store_part(to, sum, count);
#else
      if (count == kLanes) store(to, sum);
      else store_part(to, sum, count);
#endif
    }
  }
}

// Sums of R rows and V vectors of pixels, from column ox on. KH: rows of taps, one below the other, with R rows of
// output, SH rows of input apart, that share what they read; 0: any, and one row.
template <int KH, int SH, int R, int V>
QR_INLINE void tile(const Plane &plane, const float *from, std::int64_t out, std::int64_t ox) noexcept {
  const DepthwiseF32 &p = plane.p;
  const Window &w = p.window;
  const std::int64_t row = plane.s.row, kw = w.kw;
  VecF acc[R][V];
  QR_UNROLL for (int i = 0; i < R; ++i) QR_UNROLL for (int v = 0; v < V; ++v) acc[i][v] = VecF{};
  from += ox;
  if constexpr (KH > 0) {
    QR_UNROLL for (int j = 0; j < (R - 1) * SH + KH; ++j) {
      for (std::int64_t kx = 0; kx < kw; ++kx) {
        const float *const at = from + j * row + plane.columns[kx];
        VecF in[V];
        QR_UNROLL for (int v = 0; v < V; ++v) in[v] = load(at + v * kLanes);
        QR_UNROLL for (int i = 0; i < R; ++i) {
          if (j < i * SH || j >= i * SH + KH) continue;
          const VecF tap = splat(plane.w[((j - i * SH) * kw + kx) * kLanes]);
          QR_UNROLL for (int v = 0; v < V; ++v) acc[i][v] = fma(in[v], tap, acc[i][v]);
        }
      }
    }
  } else {
    for (std::int64_t ky = 0; ky < w.kh; ++ky)
      for (std::int64_t kx = 0; kx < kw; ++kx) {
        const float *const at = from + ky * w.dh * row + plane.columns[kx];
        const VecF tap = splat(plane.w[(ky * kw + kx) * kLanes]);
        QR_UNROLL for (int v = 0; v < V; ++v) acc[0][v] = fma(load(at + v * kLanes), tap, acc[0][v]);
      }
  }
  finish<R, V>(plane, acc, out, ox);
}

// Residuals and activations of more than a bound follow: there is no room for them in the loops of the tiles.
bool follows(const DepthwiseF32 &p) noexcept {
  return p.residual != Residual::None || (p.act.kind != Act::None && p.act.kind != Act::Clip);
}
void finish_strip(const Plane &plane, std::int64_t first, std::int64_t rows) noexcept {
  const DepthwiseF32 &p = plane.p;
  if (!follows(p)) return;
  const std::int64_t at = first * p.window.ow, count = rows * p.window.ow;
  float *const y = plane.y + at;
  const float *const r = plane.r + at;
  if (p.residual == Residual::BeforeAct)
    for (std::int64_t i = 0; i < count; ++i) y[i] += r[i];
  if (p.act.kind != Act::None) activate_in_place(p.act, y, count);
  if (p.residual == Residual::AfterAct)
    for (std::int64_t i = 0; i < count; ++i) y[i] += r[i];
}

__attribute__((noinline)) void copy_rows(const Plane &plane, std::int64_t first, std::int64_t rows,
                                         float *to) noexcept {
  copy_plane_rows(plane.p.window, plane.x, first, rows, plane.s.phase, to);
}
// Rows one by one, of any window.
template <int V>
__attribute__((noinline)) void run_rows(const Plane &plane, std::int64_t first, std::int64_t rows) noexcept {
  const Window &w = plane.p.window;
  for (std::int64_t oy = 0; oy < rows; ++oy)
    for (std::int64_t ox = 0; ox < w.ow; ox += V * kLanes)
      tile<0, 1, 1, V>(plane, plane.rows + oy * w.sh * plane.s.row, (first + oy) * w.ow, ox);
}

template <int KH, int SH, int V>
void run_plane(const Plane &plane, float *rows_at) noexcept {
  const Window &w = plane.p.window;
  for (std::int64_t first = 0; first < w.oh; first += plane.s.rows) {
    const std::int64_t rows = min_of(plane.s.rows, w.oh - first);
    copy_rows(plane, first, rows, rows_at);
    if (KH == 0 || rows < kRows) {
      run_rows<V>(plane, first, rows);
    } else if constexpr (KH > 0) {
      for (std::int64_t oy = 0; oy < rows; oy += kRows) {
        const std::int64_t row = min_of(oy, rows - kRows);
        for (std::int64_t ox = 0; ox < w.ow; ox += V * kLanes)
          tile<KH, SH, kRows, V>(plane, plane.rows + row * w.sh * plane.s.row, (first + row) * w.ow, ox);
      }
    }
    finish_strip(plane, first, rows);
  }
}

using RunPlane = void (*)(const Plane &plane, float *rows_at) noexcept;

#if defined(__AVX512F__) && QR_ISA_BYTES == 64
// Rows are read as they lie: loads under masks make zeros of what is outside of the image.
constexpr int kMostDirect = 7;         // columns of taps
constexpr int kMostTile = 4;           // vectors of a tile
using Masks = __mmask16[kMostDirect];  // per column of taps
QR_INLINE VecF load_lanes(const float *p, __mmask16 lanes) noexcept {
  return reinterpret_cast<VecF>(_mm512_maskz_loadu_ps(lanes, p));
}

// The lanes of a vector from a column on that are in the image.
QR_INLINE __mmask16 lanes_inside(const Window &w, std::int64_t column) noexcept {
  const std::int64_t begin = max_of<std::int64_t>(0, -column), end = min_of<std::int64_t>(kLanes, w.iw - column);
  return static_cast<__mmask16>(begin >= end ? 0 : (1u << end) - (1u << begin));
}
// Where the rows that some rows of output see begin.
template <int rows>
QR_INLINE void point_at_rows(const Plane &plane, std::int64_t iy, const float *zeros, const float **from) noexcept {
  const Window &w = plane.p.window;
  iy -= w.pad_top;
  for (int j = 0; j < rows; ++j, ++iy) from[j] = iy >= 0 && iy < w.ih ? plane.x + iy * w.iw : zeros;
}
// body(integral_constant rows, first row) for four rows at a time, the last of which may begin within those before, or
// for single ones where there are no four.
template <class Body>
QR_INLINE void each_rows(std::int64_t oh, Body &&body) noexcept {
  if (oh < kRows) {
    for (std::int64_t oy = 0; oy < oh; ++oy) body(std::integral_constant<int, 1>{}, oy);
  } else {
    for (std::int64_t oy = 0; oy < oh; oy += kRows)
      body(std::integral_constant<int, kRows>{}, min_of<std::int64_t>(oy, oh - kRows));
  }
}

// Sums of R rows and V vectors from column ox on; row j of what they see begins at from[j]. K x K taps. `left`,
// `right`: what the first and the last vector see of the image.
template <int K, int R, int V>
__attribute__((noinline)) void direct_tile(const Plane &plane, const float *const *from, const Masks &left,
                                           const Masks &right, std::int64_t out, std::int64_t ox) noexcept {
  VecF acc[R][V], held[K == 3 ? 9 : 1];
  QR_UNROLL for (int i = 0; i < R; ++i) QR_UNROLL for (int v = 0; v < V; ++v) acc[i][v] = VecF{};
  if constexpr (K == 3) QR_UNROLL for (int i = 0; i < 9; ++i) held[i] = splat(plane.w[i * kLanes]);
  const std::int64_t first = ox - plane.p.window.pad_left;
  const auto column = [&](int j, const float *at, int kx) __attribute__((always_inline)) {
    VecF in[V];
    QR_UNROLL for (int v = 0; v < V; ++v) {
      if (V == 1) in[v] = load_lanes(at, left[kx] & right[kx]);
      else if (v == 0) in[v] = load_lanes(at, left[kx]);
      else if (v == V - 1) in[v] = load_lanes(at + v * kLanes, right[kx]);
      else in[v] = load(at + v * kLanes);
    }
    QR_UNROLL for (int i = 0; i < R; ++i) {
      if (j < i || j >= i + K) continue;
      const VecF tap = K == 3 ? held[(j - i) * K + kx] : splat(plane.w[((j - i) * K + kx) * kLanes]);
      QR_UNROLL for (int v = 0; v < V; ++v) add_product(acc[i][v], in[v], tap);
    }
  };
  QR_UNROLL for (int j = 0; j < R - 1 + K; ++j) {
    const float *const at = from[j] + first;
    if constexpr (K == 3) {
      QR_UNROLL for (int kx = 0; kx < K; ++kx) column(j, at + kx, kx);
    } else {
      _Pragma("GCC unroll 1") for (int kx = 0; kx < K; ++kx) column(j, at + kx, kx);
    }
  }
  finish<R, V>(plane, acc, out, ox);
}

template <int K>
void run_direct(const Plane &plane, float *zeros) noexcept {
  const Window &w = plane.p.window;
  const std::int64_t vectors = ceil_div<std::int64_t>(w.ow, kLanes);
  // Of the first vector of a row, of the last, and of those between.
  Masks first{}, last{}, all{};
  for (int kx = 0; kx < K; ++kx) {
    const std::int64_t column = kx - w.pad_left;
    first[kx] = lanes_inside(w, column), last[kx] = lanes_inside(w, (vectors - 1) * kLanes + column), all[kx] = 0xffff;
  }
  each_rows(
      w.oh, [&]<int R>(std::integral_constant<int, R>, std::int64_t oy) __attribute__((always_inline)) {
        const float *from[R - 1 + K];
        point_at_rows<R - 1 + K>(plane, oy, zeros, from);
        for (std::int64_t vector = 0, n; vector < vectors; vector += n) {
          n = R == 1 ? 1 : min_of<std::int64_t>(kMostTile, vectors - vector);
          auto *const run = R == 1 || n == 1 ? direct_tile<K, R, 1>
                            : n == 2         ? direct_tile<K, kRows, 2>
                            : n == 3         ? direct_tile<K, kRows, 3>
                                             : direct_tile<K, kRows, kMostTile>;
          run(plane, from, vector == 0 ? first : all, vector + n == vectors ? last : all, oy * w.ow, vector * kLanes);
        }
      });
  finish_strip(plane, 0, w.oh);
}

// 3x3 with steps of two: columns of taps are the even and the odd ones of what lies side by side.
constexpr int kMostVectors = 16;  // of a row of output
struct PairMasks {
  __mmask16 of[4];  // of columns 0, 16, 2 and 18 from the first tap's on
};
template <int R>
__attribute__((noinline)) void pair_tile(const Plane &plane, const float *const *from, const PairMasks &masks,
                                         std::int64_t out, std::int64_t ox) noexcept {
  constexpr int kAt[4] = {0, 16, 2, 18};
  VecF acc[R][1], held[9];
  QR_UNROLL for (int i = 0; i < R; ++i) acc[i][0] = VecF{};
  QR_UNROLL for (int i = 0; i < 9; ++i) held[i] = splat(plane.w[i * kLanes]);
  const auto even = [](VecF a, VecF b) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  };
  QR_UNROLL for (int j = 0; j < 2 * R + 1; ++j) {
    const float *const at = from[j] + 2 * ox - plane.p.window.pad_left;
    VecF in[4];
    QR_UNROLL for (int i = 0; i < 4; ++i) in[i] = load_lanes(at + kAt[i], masks.of[i]);
    const VecF columns[3] = {
        even(in[0], in[1]),
        __builtin_shufflevector(in[0], in[1], 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31),
        even(in[2], in[3])};
    QR_UNROLL for (int i = 0; i < R; ++i) {
      if (j < 2 * i || j > 2 * i + 2) continue;
      QR_UNROLL for (int kx = 0; kx < 3; ++kx) add_product(acc[i][0], columns[kx], held[(j - 2 * i) * 3 + kx]);
    }
  }
  finish<R, 1>(plane, acc, out, ox);
}
void run_pairs(const Plane &plane, float *zeros) noexcept {
  const Window &w = plane.p.window;
  const std::int64_t vectors = ceil_div<std::int64_t>(w.ow, kLanes);
  PairMasks masks[kMostVectors];
  for (std::int64_t v = 0; v < vectors; ++v) {
    int i = 0;
    for (const int at : {0, 16, 2, 18}) masks[v].of[i++] = lanes_inside(w, 2 * v * kLanes - w.pad_left + at);
  }
  each_rows(
      w.oh, [&]<int R>(std::integral_constant<int, R>, std::int64_t oy) __attribute__((always_inline)) {
        const float *from[2 * R + 1];
        point_at_rows<2 * R + 1>(plane, 2 * oy, zeros, from);
        for (std::int64_t v = 0; v < vectors; ++v) pair_tile<R>(plane, from, masks[v], oy * w.ow, v * kLanes);
      });
  finish_strip(plane, 0, w.oh);
}

// Where none but the first and the last vector of a row see what is outside of it.
RunPlane choose_direct(const Window &w) noexcept {
  if (w.sh == 2 && w.sw == 2 && w.kh == 3 && w.kw == 3 && w.dh == 1 && w.dw == 1 && w.pad_left < 3 &&
      w.ow <= kMostVectors * kLanes)
    return run_pairs;
  const std::int64_t last = (ceil_div<std::int64_t>(w.ow, kLanes) - 1) * kLanes;
  if (w.sh != 1 || w.sw != 1 || w.dh != 1 || w.dw != 1 || w.kh != w.kw || w.pad_left >= w.kw ||
      last - 1 - w.pad_left + w.kw > w.iw)
    return nullptr;
  return w.kw == 3 ? run_direct<3> : w.kw == 5 ? run_direct<5> : w.kw == 7 ? run_direct<7> : nullptr;
}
#else
RunPlane choose_direct(const Window &) noexcept { return nullptr; }
#endif

template <int V>
RunPlane choose_rows(const Window &w) noexcept {
  const bool once = w.sh == 1;
  switch (w.dh == 1 && w.sh <= 2 ? w.kh : 0) {
    case 3: return once ? run_plane<3, 1, V> : run_plane<3, 2, V>;
    case 5: return once ? run_plane<5, 1, V> : run_plane<5, 2, V>;
    case 7: return once ? run_plane<7, 1, V> : run_plane<7, 2, V>;
    default: return run_plane<0, 1, 4>;
  }
}
RunPlane choose(const Window &w) noexcept {
  if (const RunPlane direct = choose_direct(w)) return direct;
  // Rows that fill no more are not worth wider tiles.
  return w.ow <= 2 * kLanes ? choose_rows<2>(w) : choose_rows<kWideTile>(w);
}

}  // namespace

void run_depthwise_planes(const Call &call) noexcept {
  const auto &p = call.as<DepthwiseF32>();
  const Window &w = p.window;
  const DepthwisePlanes s = depthwise_planes(p, kLanes);
  std::size_t operand = 2;
  const float *const x = call.operand<const float>(0), *const weights = call.operand<const float>(1);
  const float *const bias = p.has_bias ? call.operand<const float>(operand++) : nullptr;
  const float *const r = p.residual != Residual::None ? call.operand<const float>(operand++) : nullptr;
  float *const y = call.operand<float>(operand);
  std::int32_t columns[kMostPlaneColumns];
  for (std::int32_t kx = 0; kx < w.kw; ++kx) columns[kx] = static_cast<std::int32_t>(plane_column(w, kx, s.phase));
  const auto run = choose(w);
  const bool bounds = p.act.kind == Act::Clip && !follows(p);
  const VecF low = splat(bounds ? p.act.a : -__builtin_inff()), high = splat(bounds ? p.act.b : __builtin_inff());
  const std::int64_t taps = std::int64_t{w.kh} * w.kw, in_plane = std::int64_t{w.ih} * w.iw,
                     out_plane = std::int64_t{w.oh} * w.ow;
  const double work = static_cast<double>(out_plane) * static_cast<double>(taps);
  call.threads.run(
      static_cast<std::uint64_t>(w.n) * static_cast<std::uint64_t>(p.c), static_cast<std::uint64_t>(1 + 1e5 / work),
      [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
        auto *const rows_at = reinterpret_cast<float *>(call.worker_scratch(worker));
        std::memset(rows_at, 0, bytes_of<float>(s.row));
        for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end); ++i) {
          const std::int64_t c = i % p.c;
          run({p, s, x + i * in_plane, weights + c / kLanes * taps * kLanes + c % kLanes, bias ? bias[c] : 0, low, high,
               r ? r + i * out_plane : nullptr, y + i * out_plane, columns, rows_at},
              rows_at);
        }
      });
}

}  // namespace quarry::kernels::QR_ISA
