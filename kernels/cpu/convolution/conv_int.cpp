// SPDX-License-Identifier: Apache-2.0
// Integer convolutions as products of gathered rows (conv_int_shape.h) with packed weights; sums are exact.
#include "kernels/cpu/contraction/int_gemm.h"
#include "kernels/cpu/convolution/conv_int_dense.h"
#include "kernels/cpu/quantization/finish_rows.h"

namespace quarry::kernels::QR_ISA {

void run_depthwise_int(const Call &call, const ConvInt &p, const ConvIntShape &shape);
void run_winograd_int(const Call &call, const ConvInt &p, const ConvIntShape &shape);

namespace {

constexpr std::int64_t kPanelMost = std::int64_t{kF32Panel} * kLanes;  // channels of a panel

struct Tile {
  const std::byte *rows;
  std::int64_t row_bytes;
  const void *w;
  std::int64_t steps;
  std::int64_t low;          // elements from the weights' high parts to their low ones; 0: they are whole
  const std::int32_t *bias;  // from the panel's first channel on
  std::int32_t *sums;        // [R][V * kLanes]
  // Instead of them, where finish_rows() has them from registers, a FinishOf<Element>: else nullptr.
  const void *finish;
  std::int64_t pixel, channel, channels;
  // Weights that will be needed next, `lines` of 64 bytes of them per four steps: they may come from far away, and to
  // read them only when they are multiplied makes the first tile of each panel wait.
  const std::byte *ahead;
  std::int64_t lines;
};
// Results have the size of the activations, or their sums go through memory.
template <class Element>
using FinishOf = std::conditional_t<sizeof(Element) == 1, FinishBytes, FinishHalves>;

template <class Kind, int R, int V>
__attribute__((noinline)) void run_tile(const Tile &t) noexcept {
  const auto *w = static_cast<const typename Kind::Weight *>(t.w);
  bool high = sizeof *w == 2 && t.low != 0;
  VecI acc[R][V];
  QR_UNROLL
  for (int v = 0; v < V; ++v) {
    const VecI b = high ? VecI{} : load(t.bias + v * kLanes);
    QR_UNROLL for (int r = 0; r < R; ++r) acc[r][v] = b;
  }
  for (;; high = false, w += t.low) {
#if QR_ISA_BYTES == 64
    const std::byte *ahead = t.ahead;
    multiply<Kind>(
        t.rows, t.row_bytes, w, t.steps, acc, [&]() __attribute__((always_inline)) {
          _Pragma("GCC unroll 1") for (std::int64_t i = 0; i < t.lines; ++i, ahead += 64)
              __builtin_prefetch(ahead, 0, 2);
        });
#else
    multiply<Kind>(t.rows, t.row_bytes, w, t.steps, acc);
#endif
    if (sizeof *w == 1 || !high) break;
    QR_UNROLL
    for (int v = 0; v < V; ++v) {
      const VecI b = load(t.bias + v * kLanes);
      QR_UNROLL for (int r = 0; r < R; ++r) acc[r][v] = (acc[r][v] << 8) + b;
    }
  }
#if QR_ISA_BYTES == 64
  if (t.finish)
    return finish_rows(*static_cast<const FinishOf<typename Kind::Element> *>(t.finish), acc, t.pixel, t.channel,
                       t.channels);
#endif
  std::int32_t *const sums = t.sums;
  QR_UNROLL
  for (int r = 0; r < R; ++r) QR_UNROLL for (int v = 0; v < V; ++v) store(sums + (r * V + v) * kLanes, acc[r][v]);
}

template <class Kind>
void run_vectors(const Tile &t, int rows, int vectors) noexcept {
  choose_tile(
      rows, vectors, [&]<int R, int V>() __attribute__((always_inline)) { run_tile<Kind, R, V>(t); });
}
using RunVectors = void (*)(const Tile &t, int rows, int vectors) noexcept;

// to = from + sums * factor, for rows of whole vectors; all rows add the same `from` where it has a step of 0.
void add_wide(const std::int32_t *sums, std::int64_t rows, std::int64_t width, double factor, const double *from,
              std::int64_t from_step, double *to) noexcept {
  const VecD by = VecD{} + factor;
  for (std::int64_t r = 0; r < rows; ++r, from += from_step, to += width)
    for (std::int64_t c = 0; c < width; c += kLanes) {
      const VecI v = load(sums + r * width + c);
      store(to + c, load(from + c) + double_low(v) * by);
      store(to + c + kLanes / 2, load(from + c + kLanes / 2) + double_high(v) * by);
    }
}

// A tile whose sums do not fit 32 bits: some steps at a time, in sums of f64.
void run_wide(const Tile &whole, RunVectors run, const ConvIntShape &shape, const double *bias, double *sums, int rows,
              int vectors) noexcept {
  static constexpr std::int32_t kNoBias[kPanelMost] = {};
  const std::int64_t width = std::int64_t{vectors} * kLanes, row_step = width * shape.elements * shape.weight_bytes;
  alignas(kBytes) std::int32_t some[kIntRows * kPanelMost];
  Tile t = whole;
  t.low = 0, t.bias = kNoBias, t.sums = some, t.finish = nullptr, t.lines = 0;
  // Whole fours of steps are the fastest.
  const std::int64_t most = shape.flush_steps < 4 ? shape.flush_steps : shape.flush_steps / 4 * 4;
  const auto *const w = static_cast<const std::byte *>(whole.w);
  for (std::int64_t s = 0, begun = 0; s < whole.steps; s += most) {
    t.rows = whole.rows + s * 4;
    t.steps = min_of(most, whole.steps - s);
    for (std::int64_t part = 0; part < shape.parts; ++part, begun = 1) {
      t.w = w + part * whole.low * shape.weight_bytes + s * row_step;
      run(t, rows, vectors);
      add_wide(some, rows, width, part + 1 < shape.parts ? 256.0 : 1.0, begun ? sums : bias, begun * width, sums);
    }
  }
}

template <class Element>
void run_dense(const Call &call, const ConvInt &p, const ConvIntShape &shape, bool wide, RunVectors run) noexcept {
  const auto *const bias = call.operand<const std::int32_t>(2);
  const double *const f64_bias = wide_bias(shape, bias);
  const Requantise finish(p, call, wide);
  const FinishOf<Element> finish_rows(finish, p, wide);
  const auto run_panel = [&](const DensePanel &panel) __attribute__((noinline)) {
    Tile t{};
    t.row_bytes = panel.row_bytes;
    t.w = panel.w;
    t.low = shape.parts == 2 ? panel.vectors * kLanes * shape.steps * shape.elements : 0;
    t.steps = shape.steps;
    t.bias = bias + panel.channel;
    t.finish = finish_rows.usable ? &finish_rows : nullptr;
    t.channel = panel.channel, t.channels = panel.channels;
    const std::int64_t tiles = ceil_div(panel.count, std::int64_t{kIntRows});
#if QR_ISA_BYTES == 64
    const std::int64_t fours = shape.steps / 4,
                       panel_lines = panel.vectors * kLanes * shape.steps * shape.elements * shape.weight_bytes / 64;
    // Weights that the second-level cache holds are there from the second block on.
    const bool fetch = fours > 0 && !panel.last && (panel.first == 0 || shape.group_weights > std::int64_t{1} << 20);
    const std::int64_t lines = fetch ? ceil_div(panel_lines, tiles * fours) : 0;
#endif
    for (std::int64_t tile = 0, from = 0, until = 0; tile < tiles; ++tile, from = until) {
      until = (tile + 1) * panel.count / tiles;
      const std::int64_t at = from * panel.vectors * kLanes;
#if QR_ISA_BYTES == 64
      const std::int64_t asked = tile * fours * lines;
      t.ahead = panel.w + (panel_lines + asked) * 64, t.lines = asked < panel_lines ? lines : 0;
#endif
      t.rows = panel.rows + from * panel.row_bytes;
      t.pixel = panel.first + from;
      t.sums = reinterpret_cast<std::int32_t *>(panel.sums) + at;
      const int rows = static_cast<int>(until - from);
      if (wide)
        run_wide(t, run, shape, f64_bias + panel.channel, reinterpret_cast<double *>(panel.sums) + at, rows,
                 panel.vectors);
      else run(t, rows, panel.vectors);
    }
    if (!t.finish)
      finish.run(finish, {panel.sums, static_cast<int>(panel.count), panel.vectors, panel.first, panel.channel,
                          panel.channels});
  };
  for_each_panel<Element>(
      call, p, shape, [&]() -> auto & { return run_panel; });
}

#if defined(__AVX2__) && QR_ISA_BYTES == 32
// Rows as a group of panels reads them: the bytes of each 16 in another order, then the bytes that found no partner
// among theirs.
void shuffle_rows(const std::byte *from, std::int64_t from_bytes, const BytePairHeader &header,
                  const std::uint8_t *shuffle, std::int64_t k, std::int64_t count, std::byte *to) noexcept {
  for (std::int64_t row = 0; row < count; ++row, from += from_bytes, to += k + kPairBytes) {
    std::int64_t i = 0;
    for (; i + 32 <= k; i += 32) {
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from + i)),
                    order = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(shuffle + i));
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(to + i), _mm256_shuffle_epi8(bytes, order));
    }
    if (i < k) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i)),
                    order = _mm_loadu_si128(reinterpret_cast<const __m128i *>(shuffle + i));
      _mm_storeu_si128(reinterpret_cast<__m128i *>(to + i), _mm_shuffle_epi8(bytes, order));
    }
    if (header.more)
      for (std::int64_t j = 0; j < kPairBytes; ++j)
        to[k + j] = header.bytes_more[j] < k ? from[header.bytes_more[j]] : std::byte{0};
  }
}

struct BytePairCall {
  const ConvIntShape &shape;
  const std::byte *weights;
  const std::int32_t *bias;
  const Requantise &finish;
  std::int64_t k, group_channels;
};
// Rows of a block of pixels as they are wanted, but for the order of bytes.
struct PairRows {
  const std::byte *at;
  std::int64_t bytes, steps;   // of a row
  std::int64_t first, count;   // pixels
  std::byte *shuffled, *sums;  // scratch
};

BytePairHeader header_of(const BytePairCall &g, std::int64_t group) noexcept {
  BytePairHeader header;
  std::memcpy(&header, g.weights + group * g.shape.pair_group_bytes, sizeof header);
  return header;
}

// The pixels of a block and a group of channels.
void run_pair_group(const BytePairCall &g, const PairRows &block, std::int64_t group) noexcept {
  const ConvIntShape &shape = g.shape;
  const std::int64_t tiles = ceil_div(block.count, std::int64_t{kIntRows});
  const std::byte *w = g.weights + group * shape.pair_group_bytes;
  const BytePairHeader header = header_of(g, group);
  const auto *const shuffle = reinterpret_cast<const std::uint8_t *>(w + sizeof header);
  w += static_cast<std::int64_t>(sizeof header) + g.k;
  const std::byte *rows = block.at;
  Tile t{};
  t.row_bytes = block.bytes, t.steps = block.steps;
  if (header.shuffled) {
    shuffle_rows(block.at, block.bytes, header, shuffle, g.k, block.count, block.shuffled);
    rows = block.shuffled, t.row_bytes = g.k + kPairBytes;
    if (header.more) t.steps += kPairBytes / 4;
  }
  t.steps = min_of<std::int64_t>(t.steps, header.steps);
  const std::int64_t end = min_of((group + 1) * g.group_channels, shape.group_oc);
  for (std::int64_t channel = group * g.group_channels; channel < end;
       channel += shape.panel, w += shape.panel * (g.k + kPairBytes)) {
    const std::int64_t channels = min_of(std::int64_t{shape.panel}, end - channel);
    const int vectors = static_cast<int>(ceil_div(channels, std::int64_t{kLanes}));
    t.w = w, t.bias = g.bias + channel;
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t from = tile * block.count / tiles, until = (tile + 1) * block.count / tiles;
      t.rows = rows + from * t.row_bytes;
      t.sums = reinterpret_cast<std::int32_t *>(block.sums) + from * vectors * kLanes;
      run_vectors<BytePairs>(t, static_cast<int>(until - from), vectors);
    }
    g.finish.run(g.finish, {block.sums, static_cast<int>(block.count), vectors, block.first, channel, channels});
  }
}

void run_byte_pairs(const Call &call, const ConvInt &p, const ConvIntShape &shape) noexcept {
  const Window &window = p.window;
  const auto *const x = call.operand<const std::byte>(0);
  const Gather<std::int8_t> gather(p, shape, x);
  const Requantise finish(p, call, false);
  const std::int64_t k = shape.steps * 4, group_channels = shape.pair_panels * shape.panel,
                     groups = ceil_div(shape.group_oc, group_channels);
  const BytePairCall g{shape,         call.operand<const std::byte>(1), call.operand<const std::int32_t>(2), finish, k,
                       group_channels};
  // Rows that lie in memory as they are wanted are read from there. To be shuffled, they must not end within 16 bytes:
  // the last one's next bytes may not be there.
  bool in_place = shape.taps == 1 && window.sh == 1 && window.sw == 1 && window.pad_top == 0 && window.pad_left == 0 &&
                  window.oh == window.ih && window.ow == window.iw && p.x.dtype == kU8 && p.ic % 4 == 0;
  if (k != p.ic)
    for (std::int64_t group = 0; group < groups && in_place; ++group) in_place = !header_of(g, group).shuffled;
  const std::int64_t row_steps = in_place ? p.ic / 4 : shape.steps;
  const Split split(call, p, shape, groups, 1);
  const std::int64_t pixels = split.pixels, block = split.block, parts = split.parts, part_groups = split.part_pieces;
  call.threads.run(static_cast<std::uint64_t>(split.blocks * parts), split.grain(shape, group_channels),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     std::byte *const scratch = call.worker_scratch(worker);
                     std::int64_t gathered = -1;
                     for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                       const std::int64_t part = task % parts, first = task / parts * block,
                                          count = min_of(block, pixels - first);
                       if (count <= 0) continue;
                       if (!in_place && gathered != task / parts)
                         gather.rows(first, count, 0, reinterpret_cast<std::int8_t *>(scratch));
                       gathered = task / parts;
                       const PairRows rows{in_place ? x + first * p.x_stride : scratch,
                                           in_place ? p.x_stride : k,
                                           row_steps,
                                           first,
                                           count,
                                           scratch + shape.shuffled,
                                           scratch + shape.sums};
                       const std::int64_t last = min_of(groups, (part + 1) * part_groups);
                       for (std::int64_t group = part * part_groups; group < last; ++group)
                         run_pair_group(g, rows, group);
                     }
                   });
}
#endif

}  // namespace

void run_ConvInt(const Call &call) {
  const auto &p = call.as<ConvInt>();
  const ConvIntShape shape = conv_int_shape(p, kLanes, kF32Panel, kIntGroup);
  if (shape.depthwise) return run_depthwise_int(call, p, shape);
  if (shape.winograd) return run_winograd_int(call, p, shape);
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  if (shape.byte_pairs) return run_byte_pairs(call, p, shape);
#endif
  const bool wide = sums_are_wide(shape, call.operands[2]);
  if constexpr (kIntGroup == 4) {
    if (shape.elements == 4) return run_dense<std::int8_t>(call, p, shape, wide, run_vectors<Quads>);
  }
  run_dense<std::int16_t>(call, p, shape, wide,
                          shape.weight_bytes == 2 ? run_vectors<Pairs<std::int16_t>> : run_vectors<Pairs<std::int8_t>>);
}

}  // namespace quarry::kernels::QR_ISA
