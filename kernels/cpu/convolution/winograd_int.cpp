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

// A tile's sums of a vector of channels, with the bias: from its 16 products, `step` apart, to two rows of two pixels,
// `width` apart.
template <class Sum>
QR_INLINE void transform_tile(const std::int32_t *from, std::int64_t step, const Sum *bias, Sum *const (&rows)[2],
                              std::int64_t width) noexcept {
  const auto at = [&](int k) { return reinterpret_cast<VecU>(load(from + k * step)); };
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
      Sum *const to = rows[y] + x * width;
      const VecI sum = four[x] >> 2;
      if constexpr (sizeof(Sum) == 4) {
        store(to, reinterpret_cast<VecI>(reinterpret_cast<VecU>(sum) + reinterpret_cast<VecU>(load(bias))));
      } else {
        store(to, double_low(sum) + load(bias));
        store(to + kLanes / 2, double_high(sum) + load(bias + kLanes / 2));
      }
    }
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
        const std::int64_t at = i * 2 * width + v * kLanes;
        transform_tile(products + (tile + i) * width + v * kLanes, count * width, bias + v * kLanes,
                       {rows[0] + at, rows[1] + at}, width);
      }
    }
    const int pixels = static_cast<int>(min_of(length * 2, w.ow - column * 2));
    for (std::int64_t y = 0; y < 2 && row * 2 + y < w.oh; ++y)
      finish.run(finish,
                 {rows[y], pixels, vectors, (image * w.oh + row * 2 + y) * w.ow + column * 2, channel, channels});
    tile += length;
  }
}

// The products of `count` tiles' inputs and a panel's weights, at each of the 16 points.
void multiply_panel(const ConvInt &p, const std::int16_t *inputs, std::int64_t count, const std::int16_t *w,
                    std::int64_t steps, int vectors, std::int32_t *products) noexcept {
  const std::int64_t groups = ceil_div(count, std::int64_t{kIntRows}), width = vectors * kLanes;
  for (std::int64_t i = 0; i < 16; ++i, w += width * p.ic)
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t from = group * count / groups, until = (group + 1) * count / groups;
      const std::int16_t *const rows = inputs + (i * count + from) * p.ic;
      std::int32_t *const to = products + (i * count + from) * width;
      const int n = static_cast<int>(until - from);
      if (vectors == 1) multiply_tile<1>(n, rows, p.ic * 2, w, steps, to);
      else if (kF32Panel >= 3 && vectors == 3) multiply_tile<(kF32Panel >= 3 ? 3 : 1)>(n, rows, p.ic * 2, w, steps, to);
      else if (kF32Panel >= 3 && vectors == 4) multiply_tile<(kF32Panel >= 3 ? 4 : 1)>(n, rows, p.ic * 2, w, steps, to);
      else multiply_tile<2>(n, rows, p.ic * 2, w, steps, to);
    }
}

// Tiles [first, first + count) of x, of either type of bytes.
void transform_block(const Call &call, const ConvInt &p, const WinogradInt &s, const std::byte *border,
                     std::int64_t first, std::int64_t count, std::int16_t *inputs) noexcept {
  if (p.x.dtype == kU8)
    transform_inputs(p, s, call.operand<const std::uint8_t>(0), reinterpret_cast<const std::uint8_t *>(border), first,
                     count, inputs);
  else
    transform_inputs(p, s, call.operand<const std::int8_t>(0), reinterpret_cast<const std::int8_t *>(border), first,
                     count, inputs);
}

struct WinogradCall {
  const Call &call;
  const ConvInt &p;
  const ConvIntShape &shape;
  const Requantise &finish;
  WinogradInt s;
  bool wide;
  std::int64_t panels, parts, part_panels;
};

// The products of tiles [first, first + count) and one panel, and what becomes of them.
void run_panel(const WinogradCall &g, std::byte *scratch, std::int64_t first, std::int64_t count,
               std::int64_t panel) noexcept {
  const std::int64_t channel = panel * g.shape.panel, channels = min_of(std::int64_t{g.shape.panel}, g.p.oc - channel);
  const int vectors = static_cast<int>(ceil_div(channels, std::int64_t{kLanes}));
  auto *const products = reinterpret_cast<std::int32_t *>(scratch + g.s.products);
  multiply_panel(g.p, reinterpret_cast<const std::int16_t *>(scratch), count,
                 g.call.operand<const std::int16_t>(1) + channel * 16 * g.p.ic, g.shape.steps, vectors, products);
  if (g.wide)
    finish_tiles(g.p, g.s, products, first, count, wide_bias(g.shape, g.call.operands[2]) + channel,
                 reinterpret_cast<double *>(scratch + g.s.sums), vectors, channel, channels, g.finish);
  else
    finish_tiles(g.p, g.s, products, first, count, g.call.operand<const std::int32_t>(2) + channel,
                 reinterpret_cast<std::int32_t *>(scratch + g.s.sums), vectors, channel, channels, g.finish);
}

// (One copy of it, for one thread and for several.)
__attribute__((noinline)) void run_tasks(const WinogradCall &g, std::int64_t begin, std::int64_t end,
                                         std::byte *scratch) noexcept {
  std::memset(scratch + g.s.border, g.p.x.zero, static_cast<std::size_t>(g.p.ic));
  std::int64_t transformed = -1;
  for (std::int64_t task = begin; task < end; ++task) {
    const std::int64_t block = task / g.parts, part = task % g.parts, first = block * g.s.block,
                       count = min_of(g.s.block, g.s.tiles - first);
    if (count <= 0) continue;
    if (transformed != block)
      transform_block(g.call, g.p, g.s, scratch + g.s.border, first, count, reinterpret_cast<std::int16_t *>(scratch));
    transformed = block;
    const std::int64_t last = min_of(g.panels, (part + 1) * g.part_panels);
    for (std::int64_t panel = part * g.part_panels; panel < last; ++panel) run_panel(g, scratch, first, count, panel);
  }
}

}  // namespace

void run_winograd_int(const Call &call, const ConvInt &p, const ConvIntShape &shape) {
  const WinogradInt s = winograd_int_blocks(p, shape.panel);
  const bool wide = sums_are_wide(shape, call.operands[2]);
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
  const WinogradCall g{call, p, shape, finish, s, wide, panels, parts, part_panels};
  call.threads.run(static_cast<std::uint64_t>(blocks * parts), static_cast<std::uint64_t>(kWorthSharing / work) + 1,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     run_tasks(g, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end),
                               call.worker_scratch(worker));
                   });
}

}  // namespace quarry::kernels::QR_ISA
