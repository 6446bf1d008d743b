// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "backends/common/kernels/isa/conv_int_shape.h"
#include "backends/common/kernels/pack.h"

namespace quarry::kernels {

namespace {

void put(void *packed, std::int64_t index, std::int32_t bytes, std::int32_t value) {
  if (bytes == 1) static_cast<std::int8_t *>(packed)[index] = static_cast<std::int8_t>(value);
  else static_cast<std::int16_t *>(packed)[index] = static_cast<std::int16_t>(value);
}

}  // namespace

bool pack_conv_int(const ConvInt &params, const Isa &isa, FilterView<std::int32_t> weights, const std::int32_t *bias, void *packed_weights, void *packed_bias) {
  const ConvIntShape s = conv_int_shape(params, static_cast<std::int32_t>(isa.f32_lanes), static_cast<std::int32_t>(isa.f32_panel), static_cast<std::int32_t>(isa.int_group));
  const Window &window = params.window;
  const auto weight = [&](std::int64_t oc, std::int64_t ic, std::int64_t ky, std::int64_t kx) {
    return weights.data[oc * weights.oc_stride + ic * weights.ic_stride + ky * weights.kh_stride + kx * weights.kw_stride];
  };
  bool fits = true;
  const std::int32_t high = (1 << (params.w_bits - 1)) - 1, low = params.w_bits == 16 ? -high : -high - 1;  // -2^15 twice in a step would overflow
  std::int64_t at = 0;
  if (s.depthwise) {
    for (std::int64_t first = 0; first < params.oc; first += s.lanes)
      for (std::int64_t ky = 0; ky < window.kh; ky += 2)
        for (std::int64_t kx = 0; kx < window.kw; ++kx)
          for (std::int64_t c = first; c < first + s.lanes; ++c)
            for (std::int64_t i = 0; i < 2; ++i) put(packed_weights, at++, s.weight_bytes, c < params.oc && ky + i < window.kh ? weight(c, 0, ky + i, kx) : 0);
  } else if (s.winograd) {
    for (std::int64_t panel = 0; panel < params.oc; panel += s.panel) {
      const std::int64_t left = params.oc - panel, width = left >= s.panel ? s.panel : (left + s.lanes - 1) / s.lanes * s.lanes;
      for (std::int64_t c = 0; c < width; ++c)
        for (std::int64_t ic = 0; ic < params.ic; ++ic) {
          // Twice G on both sides.
          std::int32_t half[4][3], whole[4][4];
          const auto transform = [](std::int32_t a, std::int32_t b, std::int32_t d, auto &&store) { store(0, 2 * a), store(1, a + b + d), store(2, a - b + d), store(3, 2 * d); };
          for (std::int64_t kx = 0; kx < 3; ++kx) {
            const auto tap = [&](std::int64_t ky) { return c < left ? weight(panel + c, ic, ky, kx) : 0; };
            transform(tap(0), tap(1), tap(2), [&](int i, std::int32_t value) { half[i][kx] = value; });
          }
          for (int i = 0; i < 4; ++i) transform(half[i][0], half[i][1], half[i][2], [&](int j, std::int32_t value) { whole[i][j] = value; });
          for (int i = 0; i < 16; ++i) put(packed_weights, at + ((i * s.steps + ic / 2) * width + c) * 2 + ic % 2, 2, whole[i / 4][i % 4]);
        }
      at += 16 * s.steps * width * 2;
    }
  } else {
    for (std::int64_t group = 0; group < params.groups; ++group)
      for (std::int64_t panel = 0; panel < s.group_oc; panel += s.panel) {
        const std::int64_t left = s.group_oc - panel, width = left >= s.panel ? s.panel : (left + s.lanes - 1) / s.lanes * s.lanes;
        for (std::int64_t step = 0; step < s.steps; ++step)
          for (std::int64_t c = 0; c < width; ++c)
            for (std::int64_t i = 0; i < s.elements; ++i) {
              const std::int64_t k = step * s.elements + i, tap = k / s.group_ic;
              const bool there = k < s.k && c < left;
              put(packed_weights, at++, s.weight_bytes, there ? weight(group * s.group_oc + panel + c, k % s.group_ic, tap / window.kw, tap % window.kw) : 0);
            }
      }
  }
  const std::int64_t zero = std::int64_t{params.x.zero} - s.zero_shift;
  const std::int64_t reach = params.x.dtype >= kU16 ? 65535 : 255;  // of x - zero_x
  auto *const narrow = static_cast<std::int32_t *>(packed_bias);
  auto *const wide = reinterpret_cast<double *>(narrow + s.channels);
  bool overflows = false;
  for (std::int64_t oc = 0; oc < s.channels; ++oc) {
    std::int64_t sum = 0, most = 0;
    if (oc < params.oc)
      for (std::int64_t ic = 0; ic < s.group_ic; ++ic)
        for (std::int64_t ky = 0; ky < window.kh; ++ky)
          for (std::int64_t kx = 0; kx < window.kw; ++kx) {
            const std::int32_t w = weight(oc, ic, ky, kx);
            fits = fits && w >= low && w <= high;
            sum += w;
            most += w < 0 ? -std::int64_t{w} : w;
          }
    const std::int64_t offset = oc < params.oc && bias ? bias[oc] : 0, value = offset - zero * sum;
    overflows = overflows || most * reach + (offset < 0 ? -offset : offset) > INT32_MAX;
    wide[oc] = static_cast<double>(value);
    narrow[oc] = static_cast<std::int32_t>(static_cast<std::uint32_t>(value));  // modulo 2^32
  }
  narrow[s.channels - 1] = overflows;
  return fits;
}

}  // namespace quarry::kernels
