// SPDX-License-Identifier: Apache-2.0
// Dense convolutions of bytes by AMX. Packed weights ([step][vector][lane][4]) are tiles as they lie: 16 steps of a
// vector. Sums are those of the instruction set that this one stands on, bit by bit.
#include "kernels/cpu/convolution/conv_int_dense.h"
#include "kernels/cpu/loops/tiles.h"
#include "kernels/cpu/quantization/requantise.h"

namespace quarry::kernels::QR_ISA {

namespace {

constexpr std::int64_t kTileRows = 16, kTileSteps = 16;

// One or two tiles of rows times one or two vectors of channels.
struct TileGemm {
  const std::byte *a[2];
  std::int64_t row_bytes;
  const std::byte *b;
  std::int64_t b_stride, steps;
  std::int32_t *c[2];
  std::int64_t c_stride;
  const std::int32_t *bias;
  const std::byte *ahead;  // weights that will be needed next, `lines` of 64 bytes of them per 16 steps
  std::int64_t lines;
};

// Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 weights; where steps are left over, 5 and 7 have their shapes, and 4 and
// 6 are used again (a tile is loaded in half the time of a product).
TileShapes shapes_of(std::int64_t rows, std::int64_t left) noexcept {
  TileShapes s;
  for (int i = 0; i < 8; ++i) {
    s.columns[i] = 64;
    s.rows[i] = static_cast<std::uint8_t>(i < 6 ? rows : kTileSteps);
  }
  if (left) s.columns[5] = static_cast<std::uint16_t>(left * 4), s.rows[7] = static_cast<std::uint8_t>(left);
  return s;
}

template <int A, int B, int M, int N>
QR_INLINE void add_in_turn(const TileGemm &p, const std::byte *a0, const std::byte *a1, const std::byte *b) noexcept {
  tile_load<A>(a0, p.row_bytes);
  tile_load<B>(b, p.b_stride);
  tile_add_bytes<0, A, B>();
  if constexpr (M > 1) {
    tile_load<A>(a1, p.row_bytes);
    tile_add_bytes<2, A, B>();
  }
  if constexpr (N > 1) {
    tile_load<B>(b + 64, p.b_stride);
    if constexpr (M > 1) {
      tile_add_bytes<3, A, B>();
      tile_load<A>(a0, p.row_bytes);
    }
    tile_add_bytes<1, A, B>();
  }
}

template <int M, int N>
__attribute__((noinline)) void multiply_tiles(const TileGemm &given) noexcept {
  const TileGemm p = given;
  const std::byte *a0 = p.a[0], *a1 = p.a[1], *b = p.b, *ahead = p.ahead;
  const auto prefetch = [&]() __attribute__((always_inline)) {
    for (std::int64_t i = 0; i < p.lines; ++i, ahead += 64) __builtin_prefetch(ahead, 0, 2);
  };
  // The bias, in every row.
  tile_load<0>(p.bias, 0);
  if constexpr (N > 1) tile_load<1>(p.bias + 16, 0);
  if constexpr (M > 1) tile_load<2>(p.bias, 0);
  if constexpr (M > 1 && N > 1) tile_load<3>(p.bias + 16, 0);
  std::int64_t left = p.steps;
  if (left % kTileSteps == 0) {
    for (; left > 0; left -= kTileSteps, a0 += 64, a1 += 64, b += kTileSteps * p.b_stride) {
      prefetch();
      tile_load<4>(a0, p.row_bytes);
      tile_load<6>(b, p.b_stride);
      tile_add_bytes<0, 4, 6>();
      if constexpr (N > 1) {
        tile_load<7>(b + 64, p.b_stride);
        tile_add_bytes<1, 4, 7>();
      }
      if constexpr (M > 1) {
        tile_load<5>(a1, p.row_bytes);
        tile_add_bytes<2, 5, 6>();
        if constexpr (N > 1) tile_add_bytes<3, 5, 7>();
      }
    }
  } else {
    for (; left >= kTileSteps; left -= kTileSteps, a0 += 64, a1 += 64, b += kTileSteps * p.b_stride) {
      prefetch();
      add_in_turn<4, 6, M, N>(p, a0, a1, b);
    }
    add_in_turn<5, 7, M, N>(p, a0, a1, b);
  }
  tile_store<0>(p.c[0], p.c_stride);
  if constexpr (N > 1) tile_store<1>(p.c[0] + 16, p.c_stride);
  if constexpr (M > 1) tile_store<2>(p.c[1], p.c_stride);
  if constexpr (M > 1 && N > 1) tile_store<3>(p.c[1] + 16, p.c_stride);
}

struct Dense {
  const ConvIntShape &shape;
  const Requantise &finish;
  const std::int32_t *bias;
  std::int64_t weight_bytes;
};

// The panels of one worker.
class Worker {
 public:
  explicit Worker(const Dense &dense) noexcept : d_(dense) {}

  void operator()(const DensePanel &panel) noexcept {
    // Tiles of equal rows; the last begins within the one before it where there are too few.
    const std::int64_t tiles = ceil_div(panel.count, kTileRows), rows = ceil_div(panel.count, tiles);
    if (rows != rows_) tiles_.set(shapes_of(rows, d_.shape.steps % kTileSteps)), rows_ = rows;
    const std::int64_t width = panel.vectors * std::int64_t{kLanes}, pairs = ceil_div(tiles, std::int64_t{2});
    const std::int32_t *const bias = d_.bias + panel.channel;
    // The next panel is fetched meanwhile, where it is not in the second-level cache yet, or no longer.
    const bool fetch = !panel.last && (panel.first == 0 || d_.weight_bytes > 1 << 20);
    const std::int64_t products = pairs * ((panel.vectors + 1) / 2),
                       lines = fetch ? ceil_div(std::int64_t{panel.vectors} * kTileSteps, products) : 0;
    const std::byte *ahead = panel.w + width * 4 * d_.shape.steps;
    const std::byte *const fetched = ahead + width * 4 * d_.shape.steps;
    auto *const sums = reinterpret_cast<std::int32_t *>(panel.sums);
    // Two tiles of rows at a time, and their sums are finished while they are in the first-level cache.
    for (std::int64_t m = 0; m < panel.count; m += 2 * rows) {
      const std::int64_t end = min_of(panel.count, m + 2 * rows);
      const bool two = m + rows < panel.count;
      const std::int64_t at[2] = {min_of(m, panel.count - rows), min_of(m + rows, panel.count - rows)};
      const std::int64_t begin = at[0];
      TileGemm t{{panel.rows + at[0] * panel.row_bytes, panel.rows + at[1] * panel.row_bytes},
                 panel.row_bytes,
                 panel.w,
                 width * 4,
                 d_.shape.steps,
                 {sums, sums + (at[1] - begin) * width},
                 width * 4,
                 bias,
                 ahead,
                 lines};
      for (int v = 0; v < panel.vectors; v += 2, t.b += 128, t.c[0] += 32, t.c[1] += 32, t.bias += 32) {
        t.ahead = ahead, t.lines = ahead < fetched ? lines : 0;
        if (v + 1 < panel.vectors) two ? multiply_tiles<2, 2>(t) : multiply_tiles<1, 2>(t);
        else two ? multiply_tiles<2, 1>(t) : multiply_tiles<1, 1>(t);
        ahead += d_.shape.steps / kTileSteps * lines * 64;
      }
      d_.finish.run(d_.finish, {sums + (m - begin) * width, static_cast<int>(end - m), panel.vectors, panel.first + m,
                                panel.channel, panel.channels});
    }
  }

 private:
  const Dense &d_;
  TileScope tiles_;
  std::int64_t rows_ = 0;
};

}  // namespace

void run_ConvInt(const Call &call) {
  const auto &p = call.as<ConvInt>();
  const ConvIntShape shape = conv_int_shape(p, kLanes, kF32Panel, kIntGroup);
  // A few rows are bound by reading the weights, and would leave most of a tile empty.
  constexpr std::int64_t kFewest = 8;
  if (shape.depthwise || shape.winograd || shape.elements != 4 || sums_are_wide(shape, call.operands[2]) ||
      std::int64_t{p.window.n} * p.window.oh * p.window.ow < kFewest)
    return QR_ISA_BASE::run_ConvInt(call);
  const Requantise finish(p, call, false);
  const Dense dense{shape, finish, call.operand<const std::int32_t>(2), shape.group_weights * p.groups};
  for_each_panel<std::int8_t>(call, p, shape, [&] { return Worker(dense); });
}

}  // namespace quarry::kernels::QR_ISA
