// SPDX-License-Identifier: Apache-2.0
// One filter per channel over planes, as ONNX has them: vectors of pixels times single weights, some rows of a plane at
// a time.
#include "backends/common/kernels/isa/activate.h"
#include "backends/common/kernels/isa/depthwise_planes.h"
#include "backends/common/kernels/isa/plane_rows.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Of one plane.
struct Plane {
  const DepthwiseF32 &p;
  const DepthwisePlanes &s;
  const float *x;
  const float *w;  // of the first tap; each is a vector behind the one before
  float bias;
  const float *r;
  float *y;
  const std::int32_t *columns;  // per column of taps: where the first pixel's is
  const float *rows;            // copied
};

// Registers for the sums of four rows of so many vectors.
#if (defined(__AVX512F__) && QR_ISA_BYTES == 64) || defined(__aarch64__)
constexpr int kWideTile = 4;
#else
constexpr int kWideTile = 2;
#endif

// What becomes of the sums of R rows and V vectors of pixels.
template <int R, int V>
QR_INLINE void finish(const Plane &plane, const VecF (&acc)[R][V], std::int64_t out, std::int64_t ox) noexcept {
  const DepthwiseF32 &p = plane.p;
  const Window &w = p.window;
  const VecF bias = splat(plane.bias), low = splat(p.act.a), high = splat(p.act.b);
  const bool clip = p.act.kind == Act::Clip, now = clip || p.act.kind == Act::None;
  QR_UNROLL for (int i = 0; i < R; ++i) {
    QR_UNROLL for (int v = 0; v < V; ++v) {
      const std::int64_t column = ox + v * kLanes, at = out + i * w.ow + column;
      const int count = static_cast<int>(min_of<std::int64_t>(kLanes, w.ow - column));
      if (count <= 0) continue;
      const auto get = [&](const float *q) __attribute__((always_inline)) {
        return count == kLanes ? load(q) : load_part(q, count);
      };
      VecF sum = acc[i][v] + bias;
      if (p.residual == Residual::BeforeAct) sum += get(plane.r + at);
      if (clip) sum = clamp(sum, low, high);
      if (p.residual == Residual::AfterAct && now) sum += get(plane.r + at);
      if (count == kLanes) store(plane.y + at, sum);
      else store_part(plane.y + at, sum, count);
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

// Activations of more than a bound follow: there is no room for them in the loops of the tiles.
void activate_rows(const Plane &plane, std::int64_t first, std::int64_t rows) noexcept {
  const DepthwiseF32 &p = plane.p;
  if (p.act.kind == Act::None || p.act.kind == Act::Clip) return;
  const std::int64_t at = first * p.window.ow, count = rows * p.window.ow;
  activate_in_place(p.act, plane.y + at, count);
  if (p.residual == Residual::AfterAct)
    for (std::int64_t i = at; i < at + count; ++i) plane.y[i] += plane.r[i];
}

template <int KH, int SH, int V>
void run_plane(const Plane &plane, float *rows_at) noexcept {
  constexpr int kRows = KH > 0 ? 4 : 1, kVectors = V;
  const DepthwiseF32 &p = plane.p;
  const Window &w = p.window;
  for (std::int64_t first = 0; first < w.oh; first += plane.s.rows) {
    const std::int64_t rows = min_of(plane.s.rows, w.oh - first);
    copy_plane_rows(w, plane.x, first, rows, plane.s.phase, rows_at);
    std::int64_t oy = 0;
    const auto some = [&](auto together) __attribute__((always_inline)) {
      constexpr int kTogether = decltype(together)::value;
      for (; oy + kTogether <= rows; oy += kTogether)
        for (std::int64_t ox = 0; ox < w.ow; ox += kVectors * kLanes)
          tile<KH, SH, kTogether, kVectors>(plane, plane.rows + oy * w.sh * plane.s.row, (first + oy) * w.ow, ox);
    };
    some(std::integral_constant<int, kRows>{});
    if constexpr (kRows > 1) some(std::integral_constant<int, 1>{});
    activate_rows(plane, first, rows);
  }
}

using RunPlane = void (*)(const Plane &plane, float *rows_at) noexcept;

#if defined(__AVX512F__) && QR_ISA_BYTES == 64
// Rows are read as they lie: loads under masks make zeros of what is outside of the image.
constexpr int kMostDirect = 7;  // columns of taps
struct Masks {
  __mmask16 left[kMostDirect], right[kMostDirect];  // per column of taps: of the first, of the last vector
};
QR_INLINE VecF load_lanes(const float *p, __mmask16 lanes) noexcept {
  return reinterpret_cast<VecF>(_mm512_maskz_loadu_ps(lanes, p));
}

// The lanes of a vector from a column on that are in the image.
QR_INLINE __mmask16 lanes_inside(const Window &w, std::int64_t column) noexcept {
  const std::int64_t begin = max_of<std::int64_t>(0, -column), end = min_of<std::int64_t>(kLanes, w.iw - column);
  return static_cast<__mmask16>(begin >= end ? 0 : (1u << end) - (1u << begin));
}

// Sums of R rows and V vectors from column ox on; row j of what they see begins at from[j]. K x K taps.
template <int K, int R, int V>
QR_INLINE void direct_tile(const Plane &plane, const VecF *held, const float *const *from, const Masks &masks,
                           std::int64_t out, std::int64_t ox) noexcept {
  VecF acc[R][V];
  QR_UNROLL for (int i = 0; i < R; ++i) QR_UNROLL for (int v = 0; v < V; ++v) acc[i][v] = VecF{};
  const std::int64_t first = ox - plane.p.window.pad_left;
  const auto column = [&](int j, const float *at, int kx) __attribute__((always_inline)) {
    VecF in[V];
    QR_UNROLL for (int v = 0; v < V; ++v) {
      if (V == 1) in[v] = load_lanes(at, masks.left[kx] & masks.right[kx]);
      else if (v == 0) in[v] = load_lanes(at, masks.left[kx]);
      else if (v == V - 1) in[v] = load_lanes(at + v * kLanes, masks.right[kx]);
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

template <int K, int V>
void run_direct(const Plane &plane, float *zeros) noexcept {
  const Window &w = plane.p.window;
  VecF held[K == 3 ? 9 : 1];
  if constexpr (K == 3) QR_UNROLL for (int i = 0; i < 9; ++i) held[i] = splat(plane.w[i * kLanes]);
  // Tiles of V vectors and one of what is left.
  const std::int64_t vectors = ceil_div<std::int64_t>(w.ow, kLanes), whole = (vectors - 1) / V * V,
                     last = vectors - whole;
  const auto lanes = [&](std::int64_t vector, int kx) { return lanes_inside(w, vector * kLanes - w.pad_left + kx); };
  Masks first{}, middle{}, end{};
  for (int kx = 0; kx < K; ++kx) {
    middle.left[kx] = middle.right[kx] = first.right[kx] = end.left[kx] = 0xffff;
    first.left[kx] = lanes(0, kx), end.right[kx] = lanes(vectors - 1, kx);
    if (whole == 0) end.left[kx] = first.left[kx];
  }
  const auto rows = [&]<int R>(std::integral_constant<int, R>, std::int64_t oy) __attribute__((always_inline)) {
    const float *from[R - 1 + K];
    for (int j = 0; j < R - 1 + K; ++j) {
      const std::int64_t iy = oy - w.pad_top + j;
      from[j] = iy >= 0 && iy < w.ih ? plane.x + iy * w.iw : zeros;
    }
    const std::int64_t out = oy * w.ow;
    for (std::int64_t vector = 0; vector < whole; vector += V)
      direct_tile<K, R, V>(plane, held, from, vector == 0 ? first : middle, out, vector * kLanes);
    const std::int64_t ox = whole * kLanes;
    switch (last) {
      case 1: direct_tile<K, R, 1>(plane, held, from, end, out, ox); break;
      case 2: direct_tile<K, R, 2>(plane, held, from, end, out, ox); break;
      case 3: direct_tile<K, R, 3>(plane, held, from, end, out, ox); break;
      default: direct_tile<K, R, 4>(plane, held, from, end, out, ox);
    }
  };
  std::int64_t oy = 0;
  for (; oy + 4 <= w.oh; oy += 4) rows(std::integral_constant<int, 4>{}, oy);
  for (; oy < w.oh; ++oy) rows(std::integral_constant<int, 1>{}, oy);
  activate_rows(plane, 0, w.oh);
}

// 3x3 with steps of two: columns of taps are the even and the odd ones of what lies side by side.
constexpr int kMostVectors = 16;  // of a row of output
struct PairMasks {
  __mmask16 of[4];  // of columns 0, 16, 2 and 18 from the first tap's on
};
template <int R>
QR_INLINE void pair_tile(const Plane &plane, const VecF (&held)[9], const float *const *from, const PairMasks &masks,
                         std::int64_t out, std::int64_t ox) noexcept {
  constexpr int kAt[4] = {0, 16, 2, 18};
  VecF acc[R][1];
  QR_UNROLL for (int i = 0; i < R; ++i) acc[i][0] = VecF{};
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
  VecF held[9];
  QR_UNROLL for (int i = 0; i < 9; ++i) held[i] = splat(plane.w[i * kLanes]);
  const std::int64_t vectors = ceil_div<std::int64_t>(w.ow, kLanes);
  PairMasks masks[kMostVectors];
  for (std::int64_t v = 0; v < vectors; ++v) {
    int i = 0;
    for (const int at : {0, 16, 2, 18}) masks[v].of[i++] = lanes_inside(w, 2 * v * kLanes - w.pad_left + at);
  }
  const auto rows = [&]<int R>(std::integral_constant<int, R>, std::int64_t oy) __attribute__((always_inline)) {
    const float *from[2 * R + 1];
    for (int j = 0; j < 2 * R + 1; ++j) {
      const std::int64_t iy = 2 * oy - w.pad_top + j;
      from[j] = iy >= 0 && iy < w.ih ? plane.x + iy * w.iw : zeros;
    }
    for (std::int64_t v = 0; v < vectors; ++v) pair_tile<R>(plane, held, from, masks[v], oy * w.ow, v * kLanes);
  };
  std::int64_t oy = 0;
  for (; oy + 4 <= w.oh; oy += 4) rows(std::integral_constant<int, 4>{}, oy);
  for (; oy < w.oh; ++oy) rows(std::integral_constant<int, 1>{}, oy);
  activate_rows(plane, 0, w.oh);
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
  return w.kw == 3 ? run_direct<3, 4> : w.kw == 5 ? run_direct<5, 4> : w.kw == 7 ? run_direct<7, 4> : nullptr;
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
  const std::int64_t taps = std::int64_t{w.kh} * w.kw, in_plane = std::int64_t{w.ih} * w.iw,
                     out_plane = std::int64_t{w.oh} * w.ow;
  const double work = static_cast<double>(out_plane) * static_cast<double>(taps);
  call.threads.run(static_cast<std::uint64_t>(w.n) * static_cast<std::uint64_t>(p.c),
                   static_cast<std::uint64_t>(1 + 1e5 / work),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     auto *const rows_at = reinterpret_cast<float *>(call.worker_scratch(worker));
                     std::memset(rows_at, 0, static_cast<std::size_t>(s.row) * 4);
                     for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end); ++i) {
                       const std::int64_t c = i % p.c;
                       run({p, s, x + i * in_plane, weights + c / kLanes * taps * kLanes + c % kLanes,
                            bias ? bias[c] : 0, r ? r + i * out_plane : nullptr, y + i * out_plane, columns, rows_at},
                           rows_at);
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
