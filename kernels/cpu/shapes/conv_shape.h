// SPDX-License-Identifier: Apache-2.0
// How ConvF32 lies in memory: what its check function, its packing and its kernels agree upon.
//
// Packed weights: [group][panel][chunk][tap][k][vectors of the panel * lanes]. A panel is some vectors of output
// channels, a chunk some input channels, so that a panel's chunk stays in a near cache while all pixels pass over it.
// Output channels are padded with zeros to whole vectors.
#pragma once

#include "kernels/cpu/kernel.h"

namespace quarry::kernels {

// x_stride where x lies in planes, as ONNX has it: of ConvF32 only where rows are copied with their borders
// (block_rows), of DepthwiseF32 with those of y and r.
inline constexpr std::int32_t kPlanes = 0;

struct ConvShape {
  std::int64_t taps, run;        // the sum of one output is over taps * run products; the run is adjacent in memory
  std::int64_t chunk, chunks;    // of the run
  std::int64_t vectors, panels;  // of one group's output channels
  std::int64_t group_inputs, group_outputs;
  std::int64_t block;       // most pixels that a worker takes at a time
  std::int64_t block_rows;  // with padded rows: rows of output of such a block; else 0
  std::int64_t padded_row;  // elements of one of them
  std::uint32_t lanes;
  bool dense;     // output pixel m reads input pixel m and nothing else
  bool bordered;  // some taps lie outside of the image
  // Scratch of a worker, in this order: pointers to the runs of a block's pixels; copied rows, or zeros for what lies
  // outside; a panel's chunk of weights, widened.
  std::int64_t table_bytes, extra_floats, panel_floats;

  // The panels' vectors differ by at most one.
  std::int64_t panel_vectors(std::int64_t panel) const noexcept {
    return vectors / panels + (panel < vectors % panels);
  }
  std::int64_t panel_begin(std::int64_t panel) const noexcept {
    const std::int64_t wider = vectors % panels;
    return panel * (vectors / panels) + (panel < wider ? panel : wider);
  }
  std::int64_t group_weights() const noexcept { return taps * run * vectors * lanes; }
  std::int64_t weights(std::int64_t group, std::int64_t panel, std::int64_t first_of_chunk) const noexcept {
    return group * group_weights() + taps * lanes * (panel_begin(panel) * run + panel_vectors(panel) * first_of_chunk);
  }
};

[[maybe_unused]] static inline std::int64_t conv_ceil_div(std::int64_t a, std::int64_t b) noexcept {
  return (a + b - 1) / b;
}

// Rows of input of a block of `rows` rows of output.
[[maybe_unused]] static inline std::int64_t conv_input_rows(const Window &w, std::int64_t rows) noexcept {
  return (rows - 1) * w.sh + std::int64_t{w.kh - 1} * w.dh + 1;
}

// Columns of x up to the last one that a window reads.
[[maybe_unused]] static inline std::int64_t conv_reach_x(const Window &w) noexcept {
  return std::int64_t{w.ow - 1} * w.sw + std::int64_t{w.kw - 1} * w.dw + 1 - w.pad_left;
}
// Few channels (the first layer of networks): rows of the image are copied with their borders, and a row of taps is one
// run. They may be copied from planes. A row is the least that a task takes: one of millions would not ask in time.
[[maybe_unused]] static inline bool reads_planes(const ConvF32 &p) noexcept {
  constexpr std::int32_t kMostRow = 1 << 17;
  const Window &w = p.window;
  return w.ow <= kMostRow && p.groups == 1 && w.dw == 1 && w.kw > 1 && p.ic <= 4 && w.kw <= 4096 && w.pad_left < w.kw &&
         conv_reach_x(w) <= std::int64_t{w.iw} + w.kw && w.kh <= 64;
}

// ConvAlgorithm::Groups: a vector holds one group or several, each of as many outputs as inputs.
[[maybe_unused]] static inline bool groups_possible(const ConvF32 &p, std::uint32_t lanes) noexcept {
  const std::int32_t each = p.ic / p.groups;
  return p.groups > 1 && p.ic == p.oc && (each == 2 || each == 4 || each == 8 || each == 16) &&
         each <= static_cast<std::int32_t>(lanes) && p.x_stride != kPlanes && p.y_stride != kPlanes;
}

// For parameters whose window, channels and groups are checked. `panel` is Isa::f32_panel.
[[maybe_unused]] static inline ConvShape conv_shape(const ConvF32 &p, std::uint32_t lanes,
                                                    std::uint32_t panel) noexcept {
  const Window &w = p.window;
  ConvShape s{};
  s.lanes = lanes;
  s.group_inputs = p.ic / p.groups, s.group_outputs = p.oc / p.groups;
  s.vectors = conv_ceil_div(s.group_outputs, lanes);
  s.panels = conv_ceil_div(s.vectors, panel);
  const std::int64_t reach_x = conv_reach_x(w);
  const std::int64_t reach_y = std::int64_t{w.oh - 1} * w.sh + std::int64_t{w.kh - 1} * w.dh + 1 - w.pad_top;
  s.dense = w.kh == 1 && w.kw == 1 && w.sh == 1 && w.sw == 1 && w.pad_top == 0 && w.pad_left == 0 && w.oh == w.ih &&
            w.ow == w.iw;
  s.bordered = w.pad_top > 0 || w.pad_left > 0 || reach_x > w.iw || reach_y > w.ih;
  const bool padded_rows = reads_planes(p);
  s.taps = padded_rows ? w.kh : std::int64_t{w.kh} * w.kw;
  s.run = padded_rows ? std::int64_t{w.kw} * p.ic : s.group_inputs;
  // In the second-level cache; in the first where weights are widened into scratch for a few rows alone.
  const std::int64_t pixels = std::int64_t{w.n} * w.oh * w.ow;
  const std::int64_t chunk_bytes =
      p.weights != WeightType::F32 && pixels > kFewRows && pixels <= 6 ? 12 << 10 : 96 << 10;
  const std::int64_t step_bytes = std::int64_t{panel} * lanes * 4;
  std::int64_t most = chunk_bytes / (step_bytes * s.taps) / 8 * 8;
  if (most < 16) most = 16;
  s.chunks = conv_ceil_div(s.run, most);
  s.chunk = conv_ceil_div(conv_ceil_div(s.run, s.chunks), 8) * 8;
  if (s.chunk > s.run) s.chunk = s.run;
  s.chunks = conv_ceil_div(s.run, s.chunk);
  // The block's part of x stays in the second-level cache, its pointers in the first.
  constexpr std::int64_t kBlockBytes = 256 << 10, kTableBytes = 48 << 10;
  const std::int64_t step = (w.sh < w.kh ? w.sh : w.kh) * std::int64_t{w.sw < w.kw ? w.sw : w.kw};
  s.block = kBlockBytes / (s.chunk * 4 * (step < 4 ? step : 4));
  if (s.block < 48) s.block = 48;
  if (s.block > 512) s.block = 512;
  if (!s.dense && s.block * s.taps * 8 > kTableBytes) s.block = kTableBytes / (8 * s.taps);
  s.block = s.block < 12 ? 12 : s.block / 12 * 12;
  if (padded_rows) {
    s.block_rows = s.block / w.ow;
    if (s.block_rows > w.oh) s.block_rows = w.oh;
    if (s.block_rows < 1) s.block_rows = 1;
    s.block = s.block_rows * w.ow;
    s.padded_row = (std::int64_t{w.ow - 1} * w.sw + w.kw) * p.ic;
  }
  if (s.block > pixels) s.block = pixels;
  s.table_bytes = s.dense ? 0 : conv_ceil_div(s.block * s.taps * 8, 64) * 64;
  // Below 2^53: a checked window has steps and dilations up to 2^16, and of padded rows 512 at most, none longer than
  // the image and its borders.
  s.extra_floats = s.dense ? 0 : s.block_rows ? conv_input_rows(w, s.block_rows) * s.padded_row : s.bordered ? p.ic : 0;
  s.extra_floats = conv_ceil_div(s.extra_floats, 16) * 16;
  s.panel_floats = p.weights == WeightType::F32
                       ? 0
                       : conv_ceil_div(s.taps * s.chunk * conv_ceil_div(s.vectors, s.panels) * lanes, 16) * 16;
  return s;
}

// DepthwiseF32 over planes: so many rows of output at a time, whose rows of input are copied, each as sw phases of
// every sw-th column.
inline constexpr std::int32_t kMostPlaneColumns = 256;  // of taps
struct DepthwisePlanes {
  std::int64_t rows, phase, row, floats;  // elements of a phase, of a row and of all of them
};
[[maybe_unused]] static inline bool depthwise_in_planes(const DepthwiseF32 &p) noexcept {
  constexpr std::int32_t kMostReach = 1 << 12;
  const Window &w = p.window;
  return w.kw <= kMostPlaneColumns && w.sw <= 16 && w.kw * std::int64_t{w.dw} <= kMostReach &&
         w.kh * std::int64_t{w.dh} <= kMostReach;
}
[[maybe_unused]] static inline DepthwisePlanes depthwise_planes(const DepthwiseF32 &p, std::uint32_t lanes) noexcept {
  const Window &w = p.window;
  constexpr std::int64_t kBytes = 24 << 10, kVectors = 4;
  DepthwisePlanes s{};
  const std::int64_t step = kVectors * lanes;
  s.phase = conv_ceil_div(w.ow, step) * step + conv_ceil_div(std::int64_t{w.kw} * w.dw / w.sw + 1, lanes) * lanes;
  s.row = s.phase * w.sw;
  s.rows = 1;
  while (s.rows < w.oh && conv_input_rows(w, s.rows + 1) * s.row * 4 <= kBytes) ++s.rows;
  if (s.rows > 4 && s.rows < w.oh) s.rows = s.rows / 4 * 4;
  s.floats = conv_input_rows(w, s.rows) * s.row;
  return s;
}

// ConvF32 from planes to planes, likewise.
inline constexpr std::int64_t kConvPlaneVectors = 4;  // of pixels at a time, at most
struct ConvPlanes {
  std::int64_t rows, phase, row, channel, floats;  // elements of a phase, a row, a channel's rows, all of them
};
[[maybe_unused]] static inline ConvPlanes conv_planes(const ConvF32 &p, std::uint32_t lanes) noexcept {
  const Window &w = p.window;
  constexpr std::int64_t kBytes = 24 << 10;
  const std::int64_t step = kConvPlaneVectors * lanes;
  ConvPlanes s{};
  s.phase = (conv_ceil_div(w.ow, step) + conv_ceil_div(std::int64_t{w.kw} / w.sw + 1, step)) * step;
  s.row = s.phase * w.sw;
  s.rows = 1;
  while (s.rows < w.oh && conv_input_rows(w, s.rows + 1) * s.row * p.ic * 4 <= kBytes) ++s.rows;
  s.channel = conv_input_rows(w, s.rows) * s.row;
  s.floats = s.channel * p.ic;
  return s;
}
// For a shape that reads planes.
[[maybe_unused]] static inline bool writes_planes(const ConvF32 &p, std::uint32_t lanes, std::uint32_t panel) noexcept {
  return reads_planes(p) && p.weights == WeightType::F32 && p.algorithm == ConvAlgorithm::Direct && p.window.sw <= 16 &&
         std::int64_t{p.window.kh} * p.window.dh <= 1 << 12 && conv_shape(p, lanes, panel).chunks == 1;
}

// From planes to pixels, of no more channels than a vector has lanes, which products of pixels would leave half empty
// or read a weight for each of: rows are made as planes, and then turned.
[[maybe_unused]] static inline bool turns_planes(const ConvF32 &p, std::uint32_t lanes, std::uint32_t panel) noexcept {
  return p.y_stride != kPlanes && p.oc <= static_cast<std::int32_t>(lanes) && p.residual == Residual::None &&
         writes_planes(p, lanes, panel);
}

// How many rows of output a block (BlockF32) works on at a time, and the rows of the expanded image that these read:
// both stay in the second-level cache.
struct BlockShape {
  std::int64_t rows, rows_in;
};
inline constexpr std::uint64_t kBlockRowsBytes = 64;  // of a worker's scratch: which rows it holds
[[maybe_unused]] static inline BlockShape block_shape(const BlockF32 &p) noexcept {
  const Window &w = p.depthwise.window;
  constexpr std::int64_t kBytes = 256 << 10;
  const std::int64_t row_in = std::int64_t{w.iw} * p.depthwise.c * 4, row_out = std::int64_t{w.ow} * p.depthwise.c * 4;
  BlockShape s{1, 0};
  while (s.rows < w.oh && conv_input_rows(w, s.rows + 1) * row_in + (s.rows + 1) * row_out <= kBytes) ++s.rows;
  s.rows_in = conv_input_rows(w, s.rows);
  return s;
}

// Winograd F(m x m, 3x3), m 2 or 4: tiles of m x m outputs, from (m + 2) x (m + 2) inputs, the points. Where taps are
// dilated, outputs as far apart as they are make an image of their own (a phase). Packed weights:
// [point][group][panel][k][vectors of the panel * lanes].
struct WinogradShape {
  std::int64_t side;                     // m
  std::int64_t points;                   // (m + 2)^2
  std::int64_t tiles_y, tiles_x, tiles;  // of a phase of an image; of all
  std::int64_t block;                    // tiles that are worked on at a time
  std::int64_t group_inputs, group_outputs;
  std::int64_t vectors, panels;    // of a group
  std::int64_t in_step, out_step;  // elements of a row of transformed inputs and outputs: one tile
  // Of the rows of a block. Not a multiple of a page: the rows of all points that are written together must fall into
  // different sets of the cache.
  std::int64_t in_plane, out_plane;
  std::uint32_t lanes;
  std::int64_t panel_vectors(std::int64_t panel) const noexcept {
    return vectors / panels + (panel < vectors % panels);
  }
  std::int64_t panel_begin(std::int64_t panel) const noexcept {
    const std::int64_t wider = vectors % panels;
    return panel * (vectors / panels) + (panel < wider ? panel : wider);
  }
};
[[maybe_unused]] static inline bool is_winograd(ConvAlgorithm algorithm) noexcept {
  return algorithm == ConvAlgorithm::Winograd4x4 || algorithm == ConvAlgorithm::Winograd2x2;
}
[[maybe_unused]] static inline bool winograd_possible(const ConvF32 &p) noexcept {
  const Window &w = p.window;
  constexpr std::int32_t kMostDilation = 256;
  return w.kh == 3 && w.kw == 3 && w.sh == 1 && w.sw == 1 && w.dh <= kMostDilation && w.dw <= kMostDilation;
}
[[maybe_unused]] static inline WinogradShape winograd_shape(const ConvF32 &p, std::uint32_t lanes,
                                                            std::uint32_t panel) noexcept {
  WinogradShape s{};
  s.lanes = lanes;
  const Window &w = p.window;
  s.side = p.algorithm == ConvAlgorithm::Winograd2x2 ? 2 : 4;
  s.points = (s.side + 2) * (s.side + 2);
  s.tiles_y = conv_ceil_div(w.oh, s.side * w.dh), s.tiles_x = conv_ceil_div(w.ow, s.side * w.dw);
  s.tiles = s.tiles_y * s.tiles_x * w.dh * w.dw * w.n;
  s.group_inputs = p.ic / p.groups, s.group_outputs = p.oc / p.groups;
  s.vectors = conv_ceil_div(s.group_outputs, lanes);
  s.panels = conv_ceil_div(s.vectors, panel);
  s.in_step = conv_ceil_div(p.ic, 16) * 16, s.out_step = conv_ceil_div(p.oc, 16) * 16;
  constexpr std::int64_t kBlockBytes = 2048 << 10;
  std::int64_t block = kBlockBytes / (s.points * (s.in_step + s.out_step) * 4) / 6 * 6;
  if (block < 12) block = 12;
  if (block > s.tiles) block = s.tiles;
  s.block = conv_ceil_div(s.tiles, conv_ceil_div(s.tiles, block));
  s.in_plane = s.block * s.in_step + 16, s.out_plane = s.block * s.out_step + 16;
  return s;
}

}  // namespace quarry::kernels
