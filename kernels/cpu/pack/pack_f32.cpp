// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/pack/pack.h"
#include "kernels/cpu/shapes/conv_shape.h"
#include "kernels/cpu/shapes/recurrent_shape.h"
#include "kernels/cpu/shapes/split_shape.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/alloc.h"
#include "base/float16.h"

namespace quarry::kernels {

namespace {

// G of F(4x4, 3x3) for the points 0, 1, -1, 2, -2, infinity.
constexpr double kWinogradG[6][3] = {{1.0 / 4, 0, 0},
                                     {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                                     {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                                     {1.0 / 24, 1.0 / 12, 1.0 / 6},
                                     {1.0 / 24, -1.0 / 12, 1.0 / 6},
                                     {0, 0, 1}};
// Of F(2x2, 3x3): 0, 1, -1, infinity.
constexpr double kWinogradSmallG[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};

// The points of a filter of 3x3, `plane` elements apart, by the matrix on both sides; zeros without a filter.
void transform_filter(const double (*matrix)[3], int points, const float *filter, FilterView<float> w, float *at,
                      std::int64_t plane) {
  double half[6][3] = {};
  if (filter)
    for (int i = 0; i < points * 9; ++i) {
      const int row = i / 9, j = i / 3 % 3, l = i % 3;
      half[row][j] += matrix[row][l] * static_cast<double>(filter[l * w.kh_stride + j * w.kw_stride]);
    }
  for (int row = 0; row < points; ++row)
    for (int j = 0; j < points; ++j, at += plane) {
      double sum = 0;
      for (int l = 0; l < 3; ++l) sum += half[row][l] * matrix[j][l];
      *at = static_cast<float>(sum);
    }
}

void pack_winograd(const ConvF32 &p, const Isa &isa, FilterView<float> w, float *to) {
  const WinogradShape s = winograd_shape(p, isa.f32_lanes, isa.f32_panel);
  const auto *const matrix = s.side == 2 ? kWinogradSmallG : kWinogradG;
  const int points = static_cast<int>(s.side + 2);  // of a row
  const std::int64_t group_weights = s.vectors * s.lanes * s.group_inputs, plane = group_weights * p.groups;
  for (std::int64_t i = 0; i < p.groups * s.panels; ++i) {
    const std::int64_t group = i / s.panels, panel = i % s.panels;
    const std::int64_t begin = s.panel_begin(panel) * s.lanes, width = s.panel_vectors(panel) * s.lanes;
    for (std::int64_t k = 0; k < s.group_inputs; ++k)
      for (std::int64_t column = 0; column < width; ++column) {
        float *const at = to + group * group_weights + begin * s.group_inputs + k * width + column;
        const std::int64_t oc = begin + column;
        const float *const filter =
            oc < s.group_outputs ? w.data + (group * s.group_outputs + oc) * w.oc_stride + k * w.ic_stride : nullptr;
        transform_filter(matrix, points, filter, w, at, plane);
      }
  }
}

// One k of a panel: columns that are there, then zeros.
float *put_columns(const float *from, std::int64_t step, std::int64_t there, std::int64_t width, float *to) {
  for (std::int64_t i = 0; i < there; ++i) to[i] = from[i * step];
  std::fill(to + there, to + width, 0.0f);
  return to + width;
}

// Where parts of a layout begin with whole lines of the caches.
void fill_line(const float *begin, float *to) {
  while ((to - begin) % 16 != 0) *to++ = 0;
}

// A tap of a chunk of a panel, whose first output channel w begins with.
float *pack_direct_tap(const ConvF32 &p, const ConvShape &s, FilterView<float> w, std::int64_t chunk, std::int64_t tap,
                       std::int64_t there, std::int64_t width, float *to) {
  for (std::int64_t k = chunk; k < std::min(s.run, chunk + s.chunk); ++k) {
    // With padded rows a run is the columns of a row of taps, each with its channels.
    const std::int64_t ky = s.block_rows ? tap : tap / p.window.kw, kx = s.block_rows ? k / p.ic : tap % p.window.kw,
                       ic = s.block_rows ? k % p.ic : k;
    const float *const from = w.data + ic * w.ic_stride + ky * w.kh_stride + kx * w.kw_stride;
    to = put_columns(from, w.oc_stride, there, width, to);
  }
  return to;
}

std::int64_t direct_parts(const ConvF32 &p, const ConvShape &s) { return p.groups * s.panels * s.chunks * s.taps; }

// Of [begin, end) of all taps of all chunks of all panels of all groups.
void pack_direct(const ConvF32 &p, const ConvShape &s, FilterView<float> w, float *to, std::int64_t begin,
                 std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t tap = i % s.taps, chunk = i / s.taps % s.chunks * s.chunk, all = i / s.taps / s.chunks,
                       group = all / s.panels, panel = all % s.panels;
    const std::int64_t first = s.panel_begin(panel) * s.lanes, width = s.panel_vectors(panel) * s.lanes;
    FilterView<float> from = w;
    from.data += (group * s.group_outputs + first) * w.oc_stride;
    float *const behind =
        pack_direct_tap(p, s, from, chunk, tap, std::min(width, s.group_outputs - first), width,
                        to + s.weights(group, panel, chunk) + tap * width * std::min(s.chunk, s.run - chunk));
    if (i + 1 == direct_parts(p, s)) fill_line(to, behind);
  }
}

std::int64_t lane_parts(std::int64_t oc, const Window &window, std::int64_t lanes) {
  return conv_ceil_div(oc, lanes) * window.kh * window.kw;
}

// [output channels / lanes][tap][input channel of the group][lane]: of [begin, end) of all taps of the first.
float *pack_lanes(std::int64_t oc, std::int64_t group_ic, const Window &window, std::int64_t lanes, FilterView<float> w,
                  float *to, std::int64_t begin, std::int64_t end) {
  const std::int64_t taps = std::int64_t{window.kh} * window.kw;
  to += begin * group_ic * lanes;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t c = i / taps * lanes, tap = i % taps;
    const float *from = w.data + c * w.oc_stride + tap / window.kw * w.kh_stride + tap % window.kw * w.kw_stride;
    for (std::int64_t ic = 0; ic < group_ic; ++ic, from += w.ic_stride)
      to = put_columns(from, w.oc_stride, std::min(lanes, oc - c), lanes, to);
  }
  return to;
}

// Parts of a weight, `step` elements apart: each is what those before it leave, rounded.
void put_parts(float left, std::uint16_t *at, std::int64_t step) {
  for (std::int64_t part = 0; part < kSplitParts; ++part, at += step) {
    *at = f32_to_bf16(left);
    left -= bf16_to_f32(*at);
  }
}

void pack_split(const ConvF32 &p, FilterView<float> w, std::uint16_t *to) {
  const SplitShape s = split_shape(p);
  constexpr std::int64_t kVector = kSplitTileBytes / 2, kPart = 2 * kVector;
  for (std::int64_t block = 0; block < s.pairs * s.steps; ++block, to += kSplitParts * kPart)
    for (std::int64_t column = 0; column < kSplitColumns; ++column)
      for (std::int64_t i = 0; i < kSplitK; ++i) {
        const std::int64_t oc = block / s.steps * kSplitColumns + column, k = block % s.steps * kSplitK + i;
        put_parts(oc < p.oc && k < p.ic ? w.data[oc * w.oc_stride + k * w.ic_stride] : 0,
                  to + column / 16 * kVector + i / 2 * 32 + column % 16 * 2 + i % 2, kPart);
      }
}

}  // namespace

std::int64_t conv_pack_parts(const ConvF32 &p, std::uint32_t lanes, std::uint32_t panel) {
  if (p.algorithm == ConvAlgorithm::Groups) return lane_parts(p.oc, p.window, lanes);
  return direct_parts(p, conv_shape(p, lanes, panel));
}

void pack_conv_parts(const ConvF32 &p, std::uint32_t lanes, std::uint32_t panel, FilterView<float> w, float *to,
                     std::int64_t begin, std::int64_t end) {
  if (p.algorithm != ConvAlgorithm::Groups) return pack_direct(p, conv_shape(p, lanes, panel), w, to, begin, end);
  float *const behind = pack_lanes(p.oc, p.ic / p.groups, p.window, lanes, w, to, begin, end);
  if (end == lane_parts(p.oc, p.window, lanes)) fill_line(to, behind);
}

void pack_conv_f32(const ConvF32 &p, const Isa &isa, FilterView<float> w, void *destination) {
  if (is_winograd(p.algorithm)) return pack_winograd(p, isa, w, static_cast<float *>(destination));
  if (p.algorithm == ConvAlgorithm::Split) return pack_split(p, w, static_cast<std::uint16_t *>(destination));
  if (p.weights == WeightType::F32)
    return pack_conv_parts(p, isa.f32_lanes, isa.f32_panel, w, static_cast<float *>(destination), 0,
                           conv_pack_parts(p, isa.f32_lanes, isa.f32_panel));
  const ConvShape s = conv_shape(p, isa.f32_lanes, isa.f32_panel);
  Vector<float> packed(static_cast<std::size_t>((s.group_weights() * p.groups + 15) / 16 * 16));
  pack_direct(p, s, w, packed.data(), 0, direct_parts(p, s));
  auto *const halves = static_cast<std::uint16_t *>(destination);
  for (std::size_t i = 0; i < packed.size(); ++i)
    halves[i] = p.weights == WeightType::F16 ? f32_to_f16(packed[i]) : f32_to_bf16(packed[i]);
  for (std::size_t i = packed.size(); i % 32 != 0; ++i) halves[i] = 0;
}

Vector<std::int64_t> pack_form(const ConvF32 &p, const Isa &isa) {
  Vector<std::int64_t> form{static_cast<std::int64_t>(p.algorithm), p.ic, p.oc, p.groups, p.window.kh, p.window.kw};
  if (p.algorithm != ConvAlgorithm::Direct) return form;
  const ConvShape s = conv_shape(p, isa.f32_lanes, isa.f32_panel);
  form.insert(form.end(), {static_cast<std::int64_t>(p.weights), s.run, s.chunk, s.taps, s.block_rows != 0, s.panels});
  return form;
}

Vector<std::int64_t> pack_form(const DepthwiseF32 &p) { return {p.c, p.window.kh, p.window.kw}; }

WeightType shortest_exact(const float *values, std::int64_t count) {
  const auto all = [&](auto there, auto back) {
    return std::all_of(values, values + count, [&](float v) {
      return std::bit_cast<std::uint32_t>(back(there(v))) == std::bit_cast<std::uint32_t>(v);
    });
  };
  if (all(f32_to_f16, f16_to_f32)) return WeightType::F16;
  return all(f32_to_bf16, bf16_to_f32) ? WeightType::BF16 : WeightType::F32;
}

bool adds_in_place(const ConvF32 &p, const Isa &isa) {
  if (p.residual == Residual::None || p.r_stride != p.y_stride) return false;
  if (is_winograd(p.algorithm)) return true;
  // Sums of several chunks wait in y, and so do those that other activations than a bound are made of.
  return p.algorithm == ConvAlgorithm::Direct && conv_shape(p, isa.f32_lanes, isa.f32_panel).chunks == 1 &&
         (p.residual == Residual::BeforeAct || p.act.kind == Act::None || p.act.kind == Act::Clip);
}

bool split_holds(const float *values, std::int64_t count) {
  return std::all_of(values, values + count, [](float v) {
    const std::uint32_t size = std::bit_cast<std::uint32_t>(v) & 0x7fffffff;
    return size == 0 || (size >= kSplitLeastW && size <= kSplitMostW);
  });
}

bool split_possible(const ConvF32 &p, const Isa &isa) { return isa.splits_f32 && split_possible(p); }

std::int64_t depthwise_pack_parts(const DepthwiseF32 &p, std::uint32_t lanes) {
  return lane_parts(p.c, p.window, lanes);
}

void pack_depthwise_parts(const DepthwiseF32 &p, std::uint32_t lanes, FilterView<float> w, float *to,
                          std::int64_t begin, std::int64_t end) {
  pack_lanes(p.c, 1, p.window, lanes, w, to, begin, end);
}

void pack_depthwise_f32(const DepthwiseF32 &p, const Isa &isa, FilterView<float> w, void *destination) {
  pack_depthwise_parts(p, isa.f32_lanes, w, static_cast<float *>(destination), 0,
                       depthwise_pack_parts(p, isa.f32_lanes));
}

void pack_channels(const float *values, std::int64_t count, void *destination, std::uint64_t bytes) {
  const std::uint64_t have = std::min(static_cast<std::uint64_t>(count) * 4, bytes);
  if (have) std::memcpy(destination, values, have);
  std::memset(static_cast<std::byte *>(destination) + have, 0, bytes - have);
}

namespace {

// What a form of a convolution costs, in multiplications: those it makes, three for each channel that a point of a tile
// is transformed of, and what its weights are counted as. To read a byte takes the time of three (weights come from
// memory, of which a core reads 20 GB while it multiplies 65 G times); but they stay in memory too, so a form with
// more of them shall save more than it costs to read them. With seven, F(2x2) is taken for 14x14 pixels of 256 channels
// (within 3 % of F(4x4)'s time, with 5 MB less) and the plain sum for 7x7 of 512 (F(2x2) would save a third of its time
// and have 7 MB more).
double conv_cost(const ConvF32 &p, const Isa &isa) {
  constexpr double kOfByte = 7, kOfPoint = 3;
  const double k = p.ic / p.groups, n = p.oc;
  const Window &w = p.window;
  if (!is_winograd(p.algorithm)) {
    const double taps = static_cast<double>(w.kh) * w.kw, pixels = static_cast<double>(w.n) * w.oh * w.ow;
    return pixels * taps * k * n + taps * k * n * 4 * kOfByte;
  }
  const WinogradShape s = winograd_shape(p, isa.f32_lanes, isa.f32_panel);
  const auto tiles = static_cast<double>(s.tiles), points = static_cast<double>(s.points);
  return points * (tiles * k * n + k * n * 4 * kOfByte + tiles * (p.ic + n) * kOfPoint);
}

}  // namespace

ConvAlgorithm winograd_choice(const ConvF32 &p, const Isa &isa) {
  if (!winograd_possible(p) || p.ic / p.groups < 16 || p.oc / p.groups < 16) return ConvAlgorithm::Direct;
  const auto cost = [&](ConvAlgorithm algorithm) {
    ConvF32 other = p;
    other.algorithm = algorithm;
    return conv_cost(other, isa);
  };
  const double direct = cost(ConvAlgorithm::Direct), small = cost(ConvAlgorithm::Winograd2x2),
               large = cost(ConvAlgorithm::Winograd4x4);
  if (large < small && large < direct) return ConvAlgorithm::Winograd4x4;
  return small < direct ? ConvAlgorithm::Winograd2x2 : ConvAlgorithm::Direct;
}

namespace {

// Four numbers of each of four rows, as columns.
void turn_four(const float *from, std::int64_t row, float *to, std::int64_t step) {
  typedef float Four __attribute__((vector_size(16)));
  Four rows[4];
  for (int i = 0; i < 4; ++i) std::memcpy(&rows[i], from + i * row, sizeof rows[i]);
  const Four a = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5),
             b = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7),
             c = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5),
             d = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
  const Four made[] = {__builtin_shufflevector(a, c, 0, 1, 4, 5), __builtin_shufflevector(a, c, 2, 3, 6, 7),
                       __builtin_shufflevector(b, d, 0, 1, 4, 5), __builtin_shufflevector(b, d, 2, 3, 6, 7)};
  for (int i = 0; i < 4; ++i) std::memcpy(to + i * step, &made[i], sizeof made[i]);
}

// A line of each row of r is read as a whole.
constexpr std::int64_t kLine = 16;

// Of a block of the state's lanes, of which there are so many, of some gates: [k][gate][lane], a line of k.
void pack_gates(const float *r, std::int64_t line, std::int64_t hidden, std::int64_t gates, std::int64_t lanes,
                std::int64_t there, float *to) {
  const std::int64_t step = gates * lanes, depth = std::min(kLine, hidden - line);
  for (std::int64_t gate = 0; gate < gates; ++gate) {
    const float *const from = r + gate * hidden * hidden + line;
    float *const at = to + line * step + gate * lanes;
    const bool whole = there == lanes && depth % 4 == 0;
    for (std::int64_t n = 0; whole && n < lanes / 4 * (depth / 4); ++n) {
      const std::int64_t lane = n / (depth / 4) * 4, k = n % (depth / 4) * 4;
      turn_four(from + lane * hidden + k, hidden, at + k * step + lane, step);
    }
    if (whole) continue;
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t lane = 0; lane < there; ++lane) at[k * step + lane] = from[lane * hidden + k];
      std::fill(at + k * step + there, at + k * step + lanes, 0.0f);
    }
  }
}

}  // namespace

std::int64_t recurrent_pack_parts(const RecurrentF32 &p, std::uint32_t lanes) {
  return recurrent_shape(p, lanes).blocks * conv_ceil_div(p.hidden, kLine);
}

void pack_recurrent_parts(const RecurrentF32 &p, std::uint32_t lanes, const float *r, float *destination,
                          std::int64_t begin, std::int64_t end) {
  const RecurrentShape s = recurrent_shape(p, lanes);
  const std::int64_t hidden = p.hidden, second = s.gates - s.first_gates, lines = conv_ceil_div(hidden, kLine);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t first = i / lines * lanes, line = i % lines * kLine,
                       there = std::min<std::int64_t>(lanes, hidden - first);
    const float *const from = r + first * hidden;
    pack_gates(from, line, hidden, s.first_gates, lanes, there, destination + first * hidden * s.first_gates);
    if (second > 0)
      pack_gates(from + s.first_gates * hidden * hidden, line, hidden, second, lanes, there,
                 destination + s.second + first * hidden * second);
  }
}

void pack_recurrent_f32(const RecurrentF32 &p, const Isa &isa, const float *r, void *destination) {
  pack_recurrent_parts(p, isa.f32_lanes, r, static_cast<float *>(destination), 0,
                       recurrent_pack_parts(p, isa.f32_lanes));
}

}  // namespace quarry::kernels
