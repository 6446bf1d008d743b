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

// Channels of the panel that begins `left` channels before the last: only as many vectors as it needs.
std::int64_t panel_width(const ConvIntShape &s, std::int64_t left) {
  return left >= s.panel ? s.panel : (left + s.lanes - 1) / s.lanes * s.lanes;
}

// One group of panels as byte pairs: the order in which bytes of K stand, and what is packed by it.
class PairGroup {
 public:
  // w: [byte of K][channel].
  PairGroup(const ConvIntShape &s, const std::int8_t *w, std::int64_t channels, std::byte *to)
      : s_(s),
        w_(w),
        channels_(channels),
        header_(*reinterpret_cast<BytePairHeader *>(to)),
        shuffle_(reinterpret_cast<std::uint8_t *>(to + sizeof header_)),
        order_(index_of(k_ + kPairBytes), -1) {
    header_ = {};
    std::fill_n(header_.bytes_more, kBlock, std::uint16_t{0xffff});
  }

  // The steps of a row that the group multiplies, or -1: too many bytes find no partner.
  std::int64_t pack() {
    for (std::int64_t block = 0; block < k_; block += kBlock) order_block(block);
    if (!order_rest()) return -1;
    for (std::int64_t at = 0; at < k_ + kPairBytes; ++at)
      if (order_[index_of(at)] >= 0 && order_[index_of(at)] < s_.k)
        header_.steps = static_cast<std::uint32_t>(at / 4 + 1);
    write_panels();
    return header_.steps;
  }

 private:
  bool may_pair(std::int64_t i, std::int64_t j) const {
    const std::int8_t *const a = w_ + i * channels_, *const b = w_ + j * channels_;
    int high = 0, low = 0;
    for (std::int64_t c = 0; c < channels_; ++c) {
      high = std::max(high, std::max<int>(a[c], 0) + std::max<int>(b[c], 0));
      low = std::min(low, std::min<int>(a[c], 0) + std::min<int>(b[c], 0));
    }
    return high <= 128 && low >= -128;
  }

  // Bytes of a block find partners there, or pair with zero where there is room; others are alone_.
  void order_block(std::int64_t block) {
    bool as_it_is = true;
    for (int i = 0; i < kBlock && as_it_is; i += 2) as_it_is = may_pair(block + i, block + i + 1);
    std::uint8_t *const mask = shuffle_ + block;
    int at = 0;
    const auto put_next = [&](int i) {
      mask[at] = static_cast<std::uint8_t>(i), order_[index_of(block + at)] = block + i, ++at;
    };
    if (as_it_is) {
      for (int i = 0; i < kBlock; ++i) put_next(i);
      return;
    }
    header_.shuffled = 1;
    std::uint16_t partners[kBlock] = {};
    for (int i = 0; i < kBlock; ++i)
      for (int j = i + 1; j < kBlock; ++j)
        if (may_pair(block + i, block + j))
          partners[i] = static_cast<std::uint16_t>(partners[i] | 1 << j),
          partners[j] = static_cast<std::uint16_t>(partners[j] | 1 << i);
    const Matching matching(partners);
    for (int i = 0; i < kBlock; ++i)
      if (matching.partner(i) > i) put_next(i), put_next(matching.partner(i));
    for (int i = 0; i < kBlock; ++i) {
      if (matching.partner(i) >= 0) continue;
      if (at < kBlock) put_next(i), mask[at++] = 0x80;  // zero
      else alone_.push_back(block + i);
    }
  }

  // Those that are alone look for each other, in the bytes beyond K. False: they are too many.
  bool order_rest() {
    std::int64_t more = 0;
    const auto put_next = [&](std::int64_t byte) {
      header_.bytes_more[more] = static_cast<std::uint16_t>(byte), order_[index_of(k_ + more++)] = byte;
    };
    while (!alone_.empty()) {
      if (more == kBlock) return false;
      const std::int64_t first = alone_.back();
      alone_.pop_back();
      put_next(first);
      const auto other =
          std::find_if(alone_.begin(), alone_.end(), [&](std::int64_t byte) { return may_pair(first, byte); });
      if (other == alone_.end()) {
        ++more;
        continue;
      }
      put_next(*other);
      alone_.erase(other);
    }
    header_.more = more != 0;
    return true;
  }

  void write_panels() const {
    auto *out = reinterpret_cast<std::int8_t *>(shuffle_ + k_);
    for (std::int64_t panel = 0; panel < channels_; panel += s_.panel) {
      const std::int64_t left = channels_ - panel, width = panel_width(s_, left);
      for (std::int64_t step = 0; step < k_ + kPairBytes; step += 4)
        for (std::int64_t i = 0; i < width * 4; ++i) {
          const std::int64_t c = i / 4, byte = order_[index_of(step + i % 4)];
          *out++ = byte >= 0 && c < left ? w_[byte * channels_ + panel + c] : std::int8_t{0};
        }
    }
  }

  const ConvIntShape &s_;
  const std::int8_t *w_;
  std::int64_t channels_, k_ = s_.steps * 4;
  BytePairHeader &header_;
  std::uint8_t *shuffle_;
  Vector<std::int64_t> order_;  // which byte of K stands where; -1: zero
  Vector<std::int64_t> alone_;
};

// ---- a whole convolution ----

struct Packing {
  const ConvInt &params;
  const ConvIntShape &s;
  FilterView<std::int32_t> weights;
  std::int32_t low, high;  // what weights may be

  std::int32_t weight(std::int64_t oc, std::int64_t ic, std::int64_t ky, std::int64_t kx) const {
    return weights
        .data[oc * weights.oc_stride + ic * weights.ic_stride + ky * weights.kh_stride + kx * weights.kw_stride];
  }
  // That of a row's element k: tap by tap, the channels of a tap adjacent.
  std::int32_t weight_of_row(std::int64_t oc, std::int64_t k) const {
    const std::int64_t tap = k / s.group_ic;
    return weight(oc, k % s.group_ic, tap / params.window.kw, tap % params.window.kw);
  }
};

void pack_depthwise(const Packing &p, void *packed) {
  const Window &window = p.params.window;
  std::int64_t at = 0;
  for (std::int64_t first = 0; first < p.params.oc; first += p.s.lanes)
    for (std::int64_t tap = 0; tap < (window.kh + 1) / 2 * window.kw; ++tap)
      for (std::int64_t i = 0; i < p.s.lanes * 2; ++i) {
        const std::int64_t c = first + i / 2, ky = tap / window.kw * 2 + i % 2, kx = tap % window.kw;
        put(packed, at++, p.s.weight_bytes, c < p.params.oc && ky < window.kh ? p.weight(c, 0, ky, kx) : 0);
      }
}

// The weights of a channel and an input channel, by twice G on both sides.
void transform_winograd(const Packing &p, std::int64_t oc, std::int64_t ic, std::int32_t (&whole)[4][4]) {
  std::int32_t half[4][3];
  const auto transform = [](std::int32_t a, std::int32_t b, std::int32_t d, auto &&store) {
    store(0, 2 * a), store(1, a + b + d), store(2, a - b + d), store(3, 2 * d);
  };
  for (int kx = 0; kx < 3; ++kx)
    transform(p.weight(oc, ic, 0, kx), p.weight(oc, ic, 1, kx), p.weight(oc, ic, 2, kx),
              [&](int i, std::int32_t value) { half[i][kx] = value; });
  for (int i = 0; i < 4; ++i)
    transform(half[i][0], half[i][1], half[i][2], [&](int j, std::int32_t value) { whole[i][j] = value; });
}

void pack_winograd_int(const Packing &p, void *packed) {
  const ConvIntShape &s = p.s;
  std::int64_t at = 0;
  for (std::int64_t panel = 0; panel < p.params.oc; panel += s.panel) {
    const std::int64_t left = p.params.oc - panel, width = panel_width(s, left);
    for (std::int64_t pair = 0; pair < width * p.params.ic; ++pair) {
      const std::int64_t c = pair / p.params.ic, ic = pair % p.params.ic;
      std::int32_t whole[4][4] = {};
      if (c < left) transform_winograd(p, panel + c, ic, whole);
      for (int i = 0; i < 16; ++i)
        put(packed, at + ((i * s.steps + ic / 2) * width + c) * 2 + ic % 2, 2, whole[i / 4][i % 4]);
    }
    at += 16 * s.steps * width * 2;
  }
}

// False: weights do not fit, or pairs cost more than they save.
bool pack_byte_pairs(const Packing &p, void *packed) {
  const ConvIntShape &s = p.s;
  const std::int64_t group = s.panel * s.pair_panels;
  Vector<std::int8_t> bytes;                           // [byte of K][channel]
  std::int64_t groups = 0, multiplied = 0, extra = 0;  // steps, and bytes beyond K
  std::memset(packed, 0, static_cast<std::size_t>(s.group_weights));
  auto *to = static_cast<std::byte *>(packed);
  for (std::int64_t first = 0; first < p.params.oc; first += group, to += s.pair_group_bytes) {
    const std::int64_t channels = std::min<std::int64_t>(group, p.params.oc - first);
    bytes.assign(index_of(s.steps * 4 * channels), 0);
    for (std::int64_t k = 0; k < s.k; ++k)
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int32_t value = p.weight_of_row(first + c, k);
        if (value < p.low || value > p.high) return false;
        bytes[index_of(k * channels + c)] = static_cast<std::int8_t>(value);
      }
    const std::int64_t steps = PairGroup(s, bytes.data(), channels, to).pack();
    if (steps < 0) return false;
    multiplied += steps, ++groups;
    extra += std::max<std::int64_t>(0, steps - s.steps) * 4;
  }
  // Instructions for a row and a panel: 6 for 4 bytes as pairs, 8 for 4 words; 3 to shuffle 32 bytes for a group, 3
  // for each byte more.
  const std::int64_t shuffled = s.steps * 4 * 3 / 32 + 5;
  return multiplied * 6 + (groups * shuffled + extra * 3) / s.pair_panels <= groups * s.k * 2 * 97 / 100;
}

void pack_dense(const Packing &p, void *packed) {
  const ConvIntShape &s = p.s;
  std::int64_t at = 0;
  // Part 0 of two is the high one.
  const auto put_vectors = [&](std::int64_t first, std::int64_t left, std::int64_t step, std::int32_t part) {
    for (std::int64_t c = 0; c < panel_width(s, left); ++c)
      for (std::int64_t k = step * s.elements; k < (step + 1) * s.elements; ++k) {
        const std::int32_t value = k < s.k && c < left ? p.weight_of_row(first + c, k) : 0, above = (value + 128) >> 8;
        put(packed, at++, s.weight_bytes, s.parts == 1 ? value : part == 0 ? above : value - above * 256);
      }
  };
  for (std::int64_t group = 0; group < p.params.groups; ++group)
    for (std::int64_t panel = 0; panel < s.group_oc; panel += s.panel)
      for (std::int64_t i = 0; i < s.parts * s.steps; ++i)
        put_vectors(group * s.group_oc + panel, s.group_oc - panel, i % s.steps,
                    static_cast<std::int32_t>(i / s.steps));
}

// Sums of a channel's weights.
struct WeightSums {
  std::int64_t sum = 0, absolute = 0;
  bool fits = true;
};
WeightSums weight_sums(const Packing &p, std::int64_t oc) {
  const Window &window = p.params.window;
  WeightSums sums;
  for (std::int64_t ic = 0; ic < p.s.group_ic; ++ic)
    for (std::int64_t ky = 0; ky < window.kh; ++ky)
      for (std::int64_t kx = 0; kx < window.kw; ++kx) {
        const std::int32_t w = p.weight(oc, ic, ky, kx);
        sums.fits = sums.fits && w >= p.low && w <= p.high;
        sums.sum += w;
        sums.absolute += w < 0 ? -std::int64_t{w} : w;
      }
  return sums;
}

}  // namespace

bool may_pair_bytes(const ConvInt &params, const Isa &isa) {
  return byte_pairs_possible(params, static_cast<std::int32_t>(isa.f32_lanes), static_cast<std::int32_t>(isa.int_group),
                             isa.byte_pairs);
}

Vector<std::int64_t> pack_form(const ConvInt &params, const Isa &isa) {
  ConvInt narrow = params;
  narrow.w_bits = 8, narrow.form = IntForm::Plain;
  const ConvIntShape s =
      conv_int_shape(narrow, static_cast<std::int32_t>(isa.f32_lanes), static_cast<std::int32_t>(isa.f32_panel),
                     static_cast<std::int32_t>(isa.int_group));
  return {params.ic,      params.oc,     params.groups, params.window.kh,           params.window.kw,
          params.x.dtype, params.x.zero, s.winograd,    may_pair_bytes(narrow, isa)};
}

bool pack_conv_int(const ConvInt &params, const Isa &isa, FilterView<std::int32_t> weights, const std::int32_t *bias,
                   void *packed_weights, void *packed_bias) {
  const ConvIntShape s =
      conv_int_shape(params, static_cast<std::int32_t>(isa.f32_lanes), static_cast<std::int32_t>(isa.f32_panel),
                     static_cast<std::int32_t>(isa.int_group));
  const std::int32_t high = (1 << (params.w_bits - 1)) - 1;
  // -2^15 twice in a step would overflow.
  const Packing packing{params, s, weights, params.w_bits == 16 && s.parts == 1 ? -high : -high - 1, high};
  if (s.depthwise) pack_depthwise(packing, packed_weights);
  else if (s.winograd) pack_winograd_int(packing, packed_weights);
  else if (!s.byte_pairs) pack_dense(packing, packed_weights);
  else if (!pack_byte_pairs(packing, packed_weights)) return false;

  const std::int64_t zero = std::int64_t{params.x.zero} - s.zero_shift;
  const std::int64_t reach = params.x.dtype >= kU16 ? 65535 : 255;  // of x - zero_x
  auto *const narrow = static_cast<std::int32_t *>(packed_bias);
  auto *const wide = reinterpret_cast<double *>(narrow + s.channels);
  bool fits = true, overflows = false;
  for (std::int64_t oc = 0; oc < s.channels; ++oc) {
    const WeightSums sums = oc < params.oc ? weight_sums(packing, oc) : WeightSums{};
    fits = fits && sums.fits;
    const std::int64_t offset = oc < params.oc && bias ? bias[oc] : 0, value = offset - zero * sums.sum;
    overflows = overflows || sums.absolute * reach + (offset < 0 ? -offset : offset) > INT32_MAX;
    wide[oc] = static_cast<double>(value);
    narrow[oc] = static_cast<std::int32_t>(static_cast<std::uint32_t>(value));  // modulo 2^32
  }
  narrow[s.channels - 1] = overflows;
  return fits && !(s.byte_pairs && overflows);
}

}  // namespace quarry::kernels
