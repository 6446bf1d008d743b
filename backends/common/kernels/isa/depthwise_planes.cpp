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
    // Activations of more than a bound follow: there is no room for them in the loops above.
    if (p.act.kind != Act::None && p.act.kind != Act::Clip) {
      const std::int64_t at = first * w.ow, count = rows * w.ow;
      activate_in_place(p.act, plane.y + at, count);
      if (p.residual == Residual::AfterAct)
        for (std::int64_t i = at; i < at + count; ++i) plane.y[i] += plane.r[i];
    }
  }
}

using RunPlane = void (*)(const Plane &plane, float *rows_at) noexcept;
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
                     for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end); ++i) {
                       const std::int64_t c = i % p.c;
                       run({p, s, x + i * in_plane, weights + c / kLanes * taps * kLanes + c % kLanes,
                            bias ? bias[c] : 0, r ? r + i * out_plane : nullptr, y + i * out_plane, columns, rows_at},
                           rows_at);
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
