// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/alloc.h"
#include "kernels/cpu/pack/pack.h"
#include "kernels/cpu/shapes/conv_int_shape.h"

namespace quarry::kernels {

namespace {

void put(void *packed, std::int64_t index, std::int32_t bytes, std::int32_t value) {
  if (bytes == 1) static_cast<std::int8_t *>(packed)[index] = static_cast<std::int8_t>(value);
  else static_cast<std::int16_t *>(packed)[index] = static_cast<std::int16_t>(value);
}

// ---- byte pairs (conv_int_shape.h) ----

constexpr int kBlock = static_cast<int>(kPairBytes);

// Which bytes of 16 are paired: as many as can be, found by trying; after `left` steps the best so far is taken.
class Matching {
 public:
  // partners[i]: bit j: i and j may be a pair.
  explicit Matching(const std::uint16_t *partners) : partners_(partners) { search(0xffff, 0); }
  int partner(int i) const { return best_[i]; }  // -1: none

 private:
  // `open`: bytes that are neither paired nor given up. True: nothing better can be.
  bool search(unsigned open, int given_up) {
    if (given_up >= best_alone_) return false;
    if (open == 0) {
      std::copy_n(pairs_, kBlock, best_);
      best_alone_ = given_up;
      return given_up == 0;
    }
    if (left_-- <= 0) return true;
    // The one with the fewest partners left has the least to lose by going first.
    int chosen = -1, fewest = kBlock + 1;
    for (unsigned rest = open; rest != 0; rest &= rest - 1) {
      const int i = std::countr_zero(rest), partners = std::popcount(partners_[i] & open & ~(1u << i));
      if (partners < fewest) chosen = i, fewest = partners;
    }
    open &= ~(1u << chosen);
    // Its neighbour first, then the others.
    const unsigned candidates = partners_[chosen] & open, neighbour = candidates & 1u << (chosen ^ 1);
    for (unsigned some : {neighbour, candidates & ~neighbour})
      for (; some != 0; some &= some - 1) {
        const int other = std::countr_zero(some);
        pairs_[chosen] = other, pairs_[other] = chosen;
        if (search(open & ~(1u << other), given_up)) return true;
      }
    pairs_[chosen] = -1;
    return search(open, given_up + 1);
  }

  const std::uint16_t *partners_;
  int pairs_[kBlock] = {}, best_[kBlock] = {};
  int best_alone_ = kBlock + 1, left_ = 400;
};

// Weights of one group of panels, [byte of K][channel], packed; the steps of a row that it multiplies, or -1: too many
// bytes find no partner.
std::int64_t pack_pair_group(const ConvIntShape &s, const std::int8_t *w, std::int64_t channels, std::byte *to) {
  const std::int64_t k = s.steps * 4;
  auto &header = *reinterpret_cast<BytePairHeader *>(to);
  header = {};
  std::fill_n(header.bytes_more, kBlock, std::uint16_t{0xffff});
  auto *const shuffle = reinterpret_cast<std::uint8_t *>(to + sizeof header);
  Vector<std::int64_t> order(static_cast<std::size_t>(k + kPairBytes), -1);  // which byte of K stands where; -1: zero
  Vector<std::int64_t> alone;
  const auto may_pair = [&](std::int64_t i, std::int64_t j) {
    const std::int8_t *const a = w + i * channels, *const b = w + j * channels;
    int high = 0, low = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      high = std::max(high, std::max<int>(a[c], 0) + std::max<int>(b[c], 0));
      low = std::min(low, std::min<int>(a[c], 0) + std::min<int>(b[c], 0));
    }
    return high <= 128 && low >= -128;
  };
  for (std::int64_t block = 0; block < k; block += kBlock) {
    bool as_it_is = true;
    for (int i = 0; i < kBlock && as_it_is; i += 2) as_it_is = may_pair(block + i, block + i + 1);
    std::uint8_t *const mask = shuffle + block;
    if (as_it_is) {
      for (int i = 0; i < kBlock; ++i) mask[i] = static_cast<std::uint8_t>(i), order[index_of(block + i)] = block + i;
      continue;
    }
    header.shuffled = 1;
    std::uint16_t partners[kBlock] = {};
    for (int i = 0; i < kBlock; ++i)
      for (int j = i + 1; j < kBlock; ++j)
        if (may_pair(block + i, block + j))
          partners[i] = static_cast<std::uint16_t>(partners[i] | 1 << j),
          partners[j] = static_cast<std::uint16_t>(partners[j] | 1 << i);
    const Matching matching(partners);
    int at = 0;
    const auto place = [&](int i) {
      mask[at] = static_cast<std::uint8_t>(i), order[index_of(block + at)] = block + i, ++at;
    };
    for (int i = 0; i < kBlock; ++i)
      if (matching.partner(i) > i) place(i), place(matching.partner(i));
    for (int i = 0; i < kBlock; ++i) {
      if (matching.partner(i) >= 0) continue;
      if (at < kBlock) place(i), mask[at++] = 0x80;  // zero
      else alone.push_back(block + i);
    }
  }
  // The others look for each other.
  std::size_t more = 0;
  const auto place = [&](std::int64_t byte) {
    header.bytes_more[more] = static_cast<std::uint16_t>(byte), order[static_cast<std::size_t>(k) + more++] = byte;
  };
  while (!alone.empty()) {
    if (more == kBlock) return -1;
    const std::int64_t first = alone.back();
    alone.pop_back();
    place(first);
    const auto other =
        std::find_if(alone.begin(), alone.end(), [&](std::int64_t byte) { return may_pair(first, byte); });
    if (other == alone.end()) {
      ++more;
      continue;
    }
    place(*other);
    alone.erase(other);
  }
  header.more = more != 0;
  for (std::int64_t at = 0; at < k + kPairBytes; ++at)
    if (order[index_of(at)] >= 0 && order[index_of(at)] < s.k) header.steps = static_cast<std::uint32_t>(at / 4 + 1);
  auto *out = reinterpret_cast<std::int8_t *>(shuffle + k);
  for (std::int64_t panel = 0; panel < channels; panel += s.panel) {
    const std::int64_t left = channels - panel,
                       width = left >= s.panel ? s.panel : (left + s.lanes - 1) / s.lanes * s.lanes;
    for (std::int64_t step = 0; step < k + kPairBytes; step += 4)
      for (std::int64_t c = 0; c < width; ++c)
        for (std::int64_t i = 0; i < 4; ++i) {
          const std::int64_t byte = order[index_of(step + i)];
          *out++ = byte >= 0 && c < left ? w[byte * channels + panel + c] : std::int8_t{0};
        }
  }
  return header.steps;
}

}  // namespace

bool may_pair_bytes(const ConvInt &params, const Isa &isa) {
  return byte_pairs_possible(params, static_cast<std::int32_t>(isa.f32_lanes), static_cast<std::int32_t>(isa.int_group),
                             isa.byte_pairs);
}

bool pack_conv_int(const ConvInt &params, const Isa &isa, FilterView<std::int32_t> weights, const std::int32_t *bias,
                   void *packed_weights, void *packed_bias) {
  const ConvIntShape s =
      conv_int_shape(params, static_cast<std::int32_t>(isa.f32_lanes), static_cast<std::int32_t>(isa.f32_panel),
                     static_cast<std::int32_t>(isa.int_group));
  const Window &window = params.window;
  const auto weight = [&](std::int64_t oc, std::int64_t ic, std::int64_t ky, std::int64_t kx) {
    return weights
        .data[oc * weights.oc_stride + ic * weights.ic_stride + ky * weights.kh_stride + kx * weights.kw_stride];
  };
  bool fits = true;
  const std::int32_t high = (1 << (params.w_bits - 1)) - 1,
                     low = params.w_bits == 16 && s.parts == 1 ? -high
                                                               : -high - 1;  // -2^15 twice in a step would overflow
  std::int64_t at = 0;
  if (s.depthwise) {
    for (std::int64_t first = 0; first < params.oc; first += s.lanes)
      for (std::int64_t ky = 0; ky < window.kh; ky += 2)
        for (std::int64_t kx = 0; kx < window.kw; ++kx)
          for (std::int64_t c = first; c < first + s.lanes; ++c)
            for (std::int64_t i = 0; i < 2; ++i)
              put(packed_weights, at++, s.weight_bytes,
                  c < params.oc && ky + i < window.kh ? weight(c, 0, ky + i, kx) : 0);
  } else if (s.winograd) {
    for (std::int64_t panel = 0; panel < params.oc; panel += s.panel) {
      const std::int64_t left = params.oc - panel,
                         width = left >= s.panel ? s.panel : (left + s.lanes - 1) / s.lanes * s.lanes;
      for (std::int64_t c = 0; c < width; ++c)
        for (std::int64_t ic = 0; ic < params.ic; ++ic) {
          // Twice G on both sides.
          std::int32_t half[4][3], whole[4][4];
          const auto transform = [](std::int32_t a, std::int32_t b, std::int32_t d, auto &&store) {
            store(0, 2 * a), store(1, a + b + d), store(2, a - b + d), store(3, 2 * d);
          };
          for (std::int64_t kx = 0; kx < 3; ++kx) {
            const auto tap = [&](std::int64_t ky) { return c < left ? weight(panel + c, ic, ky, kx) : 0; };
            transform(tap(0), tap(1), tap(2), [&](int i, std::int32_t value) { half[i][kx] = value; });
          }
          for (int i = 0; i < 4; ++i)
            transform(half[i][0], half[i][1], half[i][2], [&](int j, std::int32_t value) { whole[i][j] = value; });
          for (int i = 0; i < 16; ++i)
            put(packed_weights, at + ((i * s.steps + ic / 2) * width + c) * 2 + ic % 2, 2, whole[i / 4][i % 4]);
        }
      at += 16 * s.steps * width * 2;
    }
  } else if (s.byte_pairs) {
    const std::int64_t group = s.panel * s.pair_panels;
    Vector<std::int8_t> bytes;                           // [byte of K][channel]
    std::int64_t groups = 0, multiplied = 0, extra = 0;  // steps, and bytes beyond K
    std::memset(packed_weights, 0, static_cast<std::size_t>(s.group_weights));
    auto *to = static_cast<std::byte *>(packed_weights);
    for (std::int64_t first = 0; first < params.oc; first += group, to += s.pair_group_bytes) {
      const std::int64_t channels = std::min<std::int64_t>(group, params.oc - first);
      bytes.assign(static_cast<std::size_t>(s.steps * 4 * channels), 0);
      for (std::int64_t k = 0; k < s.k; ++k) {
        const std::int64_t tap = k / s.group_ic;
        for (std::int64_t c = 0; c < channels; ++c) {
          const std::int32_t value = weight(first + c, k % s.group_ic, tap / window.kw, tap % window.kw);
          if (value < low || value > high) return false;
          bytes[index_of(k * channels + c)] = static_cast<std::int8_t>(value);
        }
      }
      const std::int64_t steps = pack_pair_group(s, bytes.data(), channels, to);
      if (steps < 0) return false;
      multiplied += steps, ++groups;
      extra += std::max<std::int64_t>(0, steps - s.steps) * 4;
    }
    // Instructions for a row and a panel: 6 for 4 bytes as pairs, 8 for 4 words; 3 to shuffle 32 bytes for a group, 3
    // for each byte more.
    const std::int64_t shuffled = s.steps * 4 * 3 / 32 + 5;
    if (multiplied * 6 + (groups * shuffled + extra * 3) / s.pair_panels > groups * s.k * 2 * 97 / 100) return false;
  } else {
    for (std::int64_t group = 0; group < params.groups; ++group)
      for (std::int64_t panel = 0; panel < s.group_oc; panel += s.panel) {
        const std::int64_t left = s.group_oc - panel,
                           width = left >= s.panel ? s.panel : (left + s.lanes - 1) / s.lanes * s.lanes;
        for (std::int32_t part = 0; part < s.parts; ++part)
          for (std::int64_t step = 0; step < s.steps; ++step)
            for (std::int64_t c = 0; c < width; ++c)
              for (std::int64_t i = 0; i < s.elements; ++i) {
                const std::int64_t k = step * s.elements + i, tap = k / s.group_ic;
                const bool there = k < s.k && c < left;
                const std::int32_t value =
                    there ? weight(group * s.group_oc + panel + c, k % s.group_ic, tap / window.kw, tap % window.kw)
                          : 0;
                const std::int32_t above = (value + 128) >> 8;
                put(packed_weights, at++, s.weight_bytes,
                    s.parts == 1 ? value
                    : part == 0  ? above
                                 : value - above * 256);
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
  return fits && !(s.byte_pairs && overflows);
}

}  // namespace quarry::kernels
