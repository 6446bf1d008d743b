// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/pack/pack.h"
#include "kernels/cpu/shapes/conv_shape.h"
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
        if (oc >= s.group_outputs) {
          for (int tap = 0; tap < points * points; ++tap) at[tap * plane] = 0;
          continue;
        }
        const float *const g = w.data + (group * s.group_outputs + oc) * w.oc_stride + k * w.ic_stride;
        double half[6][3];
        for (int row = 0; row < points; ++row)
          for (int j = 0; j < 3; ++j) {
            half[row][j] = 0;
            for (int l = 0; l < 3; ++l)
              half[row][j] += matrix[row][l] * static_cast<double>(g[l * w.kh_stride + j * w.kw_stride]);
          }
        for (int row = 0; row < points; ++row)
          for (int j = 0; j < points; ++j) {
            double sum = 0;
            for (int l = 0; l < 3; ++l) sum += half[row][l] * matrix[j][l];
            at[(row * points + j) * plane] = static_cast<float>(sum);
          }
      }
  }
}

void pack_direct(const ConvF32 &p, const ConvShape &s, FilterView<float> w, float *to) {
  const float *const begin = to;
  for (std::int64_t group = 0; group < p.groups; ++group)
    for (std::int64_t panel = 0; panel < s.panels; ++panel) {
      const std::int64_t first = s.panel_begin(panel) * s.lanes, width = s.panel_vectors(panel) * s.lanes;
      const std::int64_t there = std::min(width, s.group_outputs - first);
      for (std::int64_t chunk = 0; chunk < s.run; chunk += s.chunk)
        for (std::int64_t tap = 0; tap < s.taps; ++tap)
          for (std::int64_t k = chunk; k < std::min(s.run, chunk + s.chunk); ++k, to += width) {
            // With padded rows a run is the columns of a row of taps, each with its channels.
            const std::int64_t ky = s.block_rows ? tap : tap / p.window.kw,
                               kx = s.block_rows ? k / p.ic : tap % p.window.kw, ic = s.block_rows ? k % p.ic : k;
            const float *const from = w.data + (group * s.group_outputs + first) * w.oc_stride + ic * w.ic_stride +
                                      ky * w.kh_stride + kx * w.kw_stride;
            for (std::int64_t oc = 0; oc < there; ++oc) to[oc] = from[oc * w.oc_stride];
            std::fill(to + there, to + width, 0.0f);
          }
    }
  while ((to - begin) % 16 != 0) *to++ = 0;
}

void pack_groups(const ConvF32 &p, std::int64_t lanes, FilterView<float> w, float *to) {
  const float *const begin = to;
  const std::int64_t each = p.ic / p.groups;
  for (std::int64_t c = 0; c < p.oc; c += lanes)
    for (std::int64_t ky = 0; ky < p.window.kh; ++ky)
      for (std::int64_t kx = 0; kx < p.window.kw; ++kx)
        for (std::int64_t j = 0; j < each; ++j)
          for (std::int64_t i = 0; i < lanes; ++i)
            *to++ = c + i < p.oc ? w.data[(c + i) * w.oc_stride + j * w.ic_stride + ky * w.kh_stride + kx * w.kw_stride]
                                 : 0;
  while ((to - begin) % 16 != 0) *to++ = 0;
}

void pack_split(const ConvF32 &p, FilterView<float> w, std::uint16_t *to) {
  const SplitShape s = split_shape(p);
  constexpr std::int64_t kVector = kSplitTileBytes / 2, kPart = 2 * kVector;
  for (std::int64_t pair = 0; pair < s.pairs; ++pair)
    for (std::int64_t step = 0; step < s.steps; ++step, to += kSplitParts * kPart)
      for (std::int64_t column = 0; column < kSplitColumns; ++column)
        for (std::int64_t i = 0; i < kSplitK; ++i) {
          const std::int64_t oc = pair * kSplitColumns + column, k = step * kSplitK + i;
          float left = oc < p.oc && k < p.ic ? w.data[oc * w.oc_stride + k * w.ic_stride] : 0;
          std::uint16_t *at = to + column / 16 * kVector + i / 2 * 32 + column % 16 * 2 + i % 2;
          for (std::int64_t part = 0; part < kSplitParts; ++part, at += kPart) {
            *at = f32_to_bf16(left);
            left -= bf16_to_f32(*at);
          }
        }
}

}  // namespace

void pack_conv_f32(const ConvF32 &p, const Isa &isa, FilterView<float> w, void *destination) {
  if (is_winograd(p.algorithm)) return pack_winograd(p, isa, w, static_cast<float *>(destination));
  if (p.algorithm == ConvAlgorithm::Split) return pack_split(p, w, static_cast<std::uint16_t *>(destination));
  if (p.algorithm == ConvAlgorithm::Groups) return pack_groups(p, isa.f32_lanes, w, static_cast<float *>(destination));
  const ConvShape s = conv_shape(p, isa.f32_lanes, isa.f32_panel);
  if (p.weights == WeightType::F32) return pack_direct(p, s, w, static_cast<float *>(destination));
  Vector<float> packed(static_cast<std::size_t>((s.group_weights() * p.groups + 15) / 16 * 16));
  pack_direct(p, s, w, packed.data());
  auto *const halves = static_cast<std::uint16_t *>(destination);
  for (std::size_t i = 0; i < packed.size(); ++i)
    halves[i] = p.weights == WeightType::F16 ? f32_to_f16(packed[i]) : f32_to_bf16(packed[i]);
  for (std::size_t i = packed.size(); i % 32 != 0; ++i) halves[i] = 0;
}

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

// Where rows, channels and k fill tiles: from there on six products of bf16 were 1.2 to 1.5 times as quick as FMA
// (Sapphire Rapids), and smaller ones were not tried.
bool split_possible(const ConvF32 &p, const Isa &isa) { return isa.splits_f32 && split_possible(p); }
bool split_wins(const ConvF32 &p, const Isa &isa) {
  return split_possible(p, isa) && p.ic >= 64 && p.oc >= 64 &&
         std::int64_t{p.window.n} * p.window.oh * p.window.ow >= kSplitRows;
}

void pack_depthwise_f32(const DepthwiseF32 &p, const Isa &isa, FilterView<float> w, void *destination) {
  auto *to = static_cast<float *>(destination);
  const std::int64_t lanes = isa.f32_lanes;
  for (std::int64_t c = 0; c < p.c; c += lanes)
    for (std::int64_t ky = 0; ky < p.window.kh; ++ky)
      for (std::int64_t kx = 0; kx < p.window.kw; ++kx)
        for (std::int64_t i = 0; i < lanes; ++i)
          *to++ = c + i < p.c ? w.data[(c + i) * w.oc_stride + ky * w.kh_stride + kx * w.kw_stride] : 0;
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

}  // namespace quarry::kernels
