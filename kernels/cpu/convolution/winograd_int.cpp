// SPDX-License-Identifier: Apache-2.0
// 3x3 ConvInt by Winograd F(2x2, 3x3), in integers and exact (conv_int_shape.h). Blocks of tiles: patches of 4x4 pixels
// are transformed into 16 matrices of tiles x input channels, each is multiplied with its weights, and the products of
// a panel are transformed into 2x2 sums.
#include "kernels/cpu/contraction/int_gemm.h"
#include "kernels/cpu/quantization/requantise.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Tiles [first, first + count) -> inputs[16][count][ic]. `border`: ic elements of the zero point.
template <class T>
void transform_inputs(const ConvInt &p, const WinogradInt &s, const T *x, const T *border, std::int64_t first,
                      std::int64_t count, std::int16_t *inputs) noexcept {
  const Window &w = p.window;
  std::int64_t column = first % s.tile_columns, row = first / s.tile_columns % s.tile_rows,
               image = first / s.tile_columns / s.tile_rows;
  for (std::int64_t tile = 0; tile < count; ++tile) {
    const T *pixels[4][4];
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) {
        const std::int64_t iy = row * 2 - w.pad_top + i, ix = column * 2 - w.pad_left + j;
        pixels[i][j] =
            iy >= 0 && iy < w.ih && ix >= 0 && ix < w.iw ? x + ((image * w.ih + iy) * w.iw + ix) * p.x_stride : border;
      }
    std::int16_t *to = inputs + tile * p.ic;
    for (std::int64_t c = 0; c < p.ic; c += kHalves, to += kHalves) {
      VecH t[4][4];
      QR_UNROLL
      for (int j = 0; j < 4; ++j) {
        const VecH a = widen_halves(pixels[0][j] + c), b = widen_halves(pixels[1][j] + c),
                   d = widen_halves(pixels[2][j] + c), e = widen_halves(pixels[3][j] + c);
        t[0][j] = a - d, t[1][j] = b + d, t[2][j] = d - b, t[3][j] = b - e;
      }
      QR_UNROLL
      for (int i = 0; i < 4; ++i) {
        const std::int64_t step = count * p.ic;
        store(to + (i * 4) * step, t[i][0] - t[i][2]);
        store(to + (i * 4 + 1) * step, t[i][1] + t[i][2]);
        store(to + (i * 4 + 2) * step, t[i][2] - t[i][1]);
        store(to + (i * 4 + 3) * step, t[i][1] - t[i][3]);
      }
    }
    if (++column == s.tile_columns) {
      column = 0;
      if (++row == s.tile_rows) row = 0, ++image;
    }
  }
}

template <int R, int V>
__attribute__((noinline)) void multiply_rows(const std::int16_t *rows, std::int64_t row_bytes, const std::int16_t *w,
                                             std::int64_t steps, std::int32_t *to) noexcept {
  VecI acc[R][V];
  QR_UNROLL
  for (int r = 0; r < R; ++r) QR_UNROLL for (int v = 0; v < V; ++v) acc[r][v] = VecI{};
  multiply<Pairs<std::int16_t>>(reinterpret_cast<const std::byte *>(rows), row_bytes, w, steps, acc);
  QR_UNROLL
  for (int r = 0; r < R; ++r) QR_UNROLL for (int v = 0; v < V; ++v) store(to + (r * V + v) * kLanes, acc[r][v]);
}
template <int V>
QR_INLINE void multiply_tile(int rows, const std::int16_t *from, std::int64_t row_bytes, const std::int16_t *w,
                             std::int64_t steps, std::int32_t *to) noexcept {
  static_assert(kIntRows == 6);
  switch (rows) {
    case 1: return multiply_rows<1, V>(from, row_bytes, w, steps, to);
    case 2: return multiply_rows<2, V>(from, row_bytes, w, steps, to);
    case 3: return multiply_rows<3, V>(from, row_bytes, w, steps, to);
    case 4: return multiply_rows<4, V>(from, row_bytes, w, steps, to);
    case 5: return multiply_rows<5, V>(from, row_bytes, w, steps, to);
    default: return multiply_rows<6, V>(from, row_bytes, w, steps, to);
  }
}

// products[16][count][width] of tiles [first, first + count) -> y.
template <class Sum>
void finish_tiles(const ConvInt &p, const WinogradInt &s, const std::int32_t *products, std::int64_t first,
                  std::int64_t count, const Sum *bias, Sum *sums, int vectors, std::int64_t channel,
                  std::int64_t channels, const Requantise &finish) noexcept {
  const Window &w = p.window;
  const std::int64_t width = vectors * kLanes;
  // Stretches of a row of tiles: two rows of pixels each.
  for (std::int64_t tile = 0; tile < count;) {
    const std::int64_t column = (first + tile) % s.tile_columns, row = (first + tile) / s.tile_columns % s.tile_rows,
                       image = (first + tile) / s.tile_columns / s.tile_rows;
    const std::int64_t length = min_of(count - tile, s.tile_columns - column);
    Sum *const rows[2] = {sums, sums + length * 2 * width};
    for (int v = 0; v < vectors; ++v) {
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int32_t *const from = products + (tile + i) * width + v * kLanes;
        const auto at = [&](int k) { return reinterpret_cast<VecU>(load(from + k * count * width)); };
        VecU t[2][4];
        QR_UNROLL
        for (int j = 0; j < 4; ++j) {
          const VecU a = at(j), b = at(4 + j), c = at(8 + j), d = at(12 + j);
          t[0][j] = a + b + c, t[1][j] = b - c - d;
        }
        QR_UNROLL
        for (int y = 0; y < 2; ++y) {
          const VecI four[2] = {reinterpret_cast<VecI>(t[y][0] + t[y][1] + t[y][2]),
                                reinterpret_cast<VecI>(t[y][1] - t[y][2] - t[y][3])};
          QR_UNROLL
          for (int x = 0; x < 2; ++x) {
            Sum *const to = rows[y] + (i * 2 + x) * width + v * kLanes;
            const VecI sum = four[x] >> 2;
            if constexpr (sizeof(Sum) == 4) {
              store(to, reinterpret_cast<VecI>(reinterpret_cast<VecU>(sum) +
                                               reinterpret_cast<VecU>(load(bias + v * kLanes))));
            } else {
              store(to, double_low(sum) + load(bias + v * kLanes));
              store(to + kLanes / 2, double_high(sum) + load(bias + v * kLanes + kLanes / 2));
            }
          }
        }
      }
    }
    const int pixels = static_cast<int>(min_of(length * 2, w.ow - column * 2));
    for (std::int64_t y = 0; y < 2 && row * 2 + y < w.oh; ++y)
      finish.run(finish,
                 {rows[y], pixels, vectors, (image * w.oh + row * 2 + y) * w.ow + column * 2, channel, channels});
    tile += length;
  }
}

}  // namespace

void run_winograd_int(const Call &call, const ConvInt &p, const ConvIntShape &shape) {
  const WinogradInt s = winograd_int_blocks(p, shape.panel);
  const bool wide = sums_are_wide(shape, call.operands[2]);
  const auto *const narrow_bias = call.operand<const std::int32_t>(2);
  const double *const f64_bias = wide_bias(shape, call.operands[2]);
  const auto *const weights = call.operand<const std::int16_t>(1);
  const Requantise finish(p, call, wide);
  const std::int64_t blocks = ceil_div(s.tiles, s.block),
                     panels = ceil_div(std::int64_t{p.oc}, std::int64_t{shape.panel});
  // Where there are few blocks, panels are shared out as well.
  const std::int64_t wanted =
      tasks_wanted(call.threads.workers, static_cast<double>(s.tiles * 16) * static_cast<double>(p.ic) * p.oc);
  const std::int64_t parts = blocks >= wanted ? 1 : min_of(panels, ceil_div(wanted, blocks)),
                     part_panels = ceil_div(panels, parts);
  const double work =
      static_cast<double>(s.block * 16) * static_cast<double>(p.ic) * static_cast<double>(part_panels * shape.panel);
  call.threads.run(
      static_cast<std::uint64_t>(blocks * parts), static_cast<std::uint64_t>(kWorthSharing / work) + 1,
      [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
        std::byte *const scratch = call.worker_scratch(worker);
        auto *const inputs = reinterpret_cast<std::int16_t *>(scratch);
        auto *const products = reinterpret_cast<std::int32_t *>(scratch + s.products);
        std::memset(scratch + s.border, p.x.zero, static_cast<std::size_t>(p.ic));
        std::int64_t transformed = -1;
        for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
          const std::int64_t block = task / parts, part = task % parts, first = block * s.block,
                             count = min_of(s.block, s.tiles - first);
          if (count <= 0) continue;
          if (transformed != block) {
            if (p.x.dtype == kU8)
              transform_inputs(p, s, call.operand<const std::uint8_t>(0),
                               reinterpret_cast<const std::uint8_t *>(scratch + s.border), first, count, inputs);
            else
              transform_inputs(p, s, call.operand<const std::int8_t>(0),
                               reinterpret_cast<const std::int8_t *>(scratch + s.border), first, count, inputs);
          }
          transformed = block;
          const std::int64_t groups = ceil_div(count, std::int64_t{kIntRows}),
                             last = min_of(panels, (part + 1) * part_panels);
          for (std::int64_t panel = part * part_panels; panel < last; ++panel) {
            const std::int64_t channel = panel * shape.panel,
                               channels = min_of(std::int64_t{shape.panel}, p.oc - channel);
            const int vectors = static_cast<int>(ceil_div(channels, std::int64_t{kLanes}));
            const std::int64_t width = vectors * kLanes;
            const std::int16_t *w = weights + channel * 16 * p.ic;
            for (std::int64_t i = 0; i < 16; ++i, w += width * p.ic)
              for (std::int64_t group = 0; group < groups; ++group) {
                const std::int64_t from = group * count / groups, until = (group + 1) * count / groups;
                const std::int16_t *const rows = inputs + (i * count + from) * p.ic;
                std::int32_t *const to = products + (i * count + from) * width;
                const int n = static_cast<int>(until - from);
                if (vectors == 1) multiply_tile<1>(n, rows, p.ic * 2, w, shape.steps, to);
                else if (kF32Panel >= 3 && vectors == 3)
                  multiply_tile<(kF32Panel >= 3 ? 3 : 1)>(n, rows, p.ic * 2, w, shape.steps, to);
                else if (kF32Panel >= 3 && vectors == 4)
                  multiply_tile<(kF32Panel >= 3 ? 4 : 1)>(n, rows, p.ic * 2, w, shape.steps, to);
                else multiply_tile<2>(n, rows, p.ic * 2, w, shape.steps, to);
              }
            if (wide)
              finish_tiles(p, s, products, first, count, f64_bias + channel,
                           reinterpret_cast<double *>(scratch + s.sums), vectors, channel, channels, finish);
            else
              finish_tiles(p, s, products, first, count, narrow_bias + channel,
                           reinterpret_cast<std::int32_t *>(scratch + s.sums), vectors, channel, channels, finish);
          }
        }
      });
}

}  // namespace quarry::kernels::QR_ISA
