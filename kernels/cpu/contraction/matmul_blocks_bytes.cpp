// SPDX-License-Identifier: Apache-2.0
// Products with weights of 2, 4 or 8 bits in blocks, x rounded to bytes: sums of a block are integers. Few rows read
// the weights as they lie, each once for as many rows as there are registers for; for many rows weights become panels
// of bytes with columns beside each other.
#include "kernels/cpu/contraction/block_weights.h"
#include "kernels/cpu/movement/transpose.h"
#include "kernels/cpu/vector/int_vec.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Weights of 8 bits are taken less 128 where products of bytes want both signed, or cannot take 255.
constexpr bool kWholeBytes = !kBytePairs && !kDotSigned;
template <int bits>
constexpr std::int32_t kMiddle = bits == 8 && !kWholeBytes ? 0 : 1 << (bits - 1);

// x in bytes, row after row. In the order of few rows: for each vector of weights, for each place in a byte, the x of
// its bytes; numbers are of the lanes of such vectors. In that of panels: for each dword of weights, for each place,
// four; numbers are of the rows of a block, or of a part of it.
struct ByteRows {
  std::int8_t *codes;
  float *scales;
  std::int32_t *starts;  // what sums begin with, as the weights are not less their middle (panels: start_of())
  float *sums;           // of a block, with its scale; where there are zero points
  std::int64_t codes_step, scales_step, starts_step;  // from row to row

  ByteRows(const BlockBytesShape &s, std::int64_t m, std::byte *at) noexcept
      : codes(reinterpret_cast<std::int8_t *>(at)),
        scales(reinterpret_cast<float *>(at + s.codes * m)),
        starts(reinterpret_cast<std::int32_t *>(scales + s.scales * m)),
        sums(reinterpret_cast<float *>(starts + s.starts * m)),
        codes_step(s.codes),
        scales_step(s.scales),
        starts_step(s.starts) {}
};

// What a sum begins with, of the lanes; then weights times x, of each four bytes.
template <int bits>
QR_INLINE VecI add_places(VecI start, const VecB (&w)[8 / bits], const std::int8_t *x) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  const auto at = [&](int place) __attribute__((always_inline)) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(x + place * kBytes));
  };
  __m256i pairs;
  if constexpr (bits == 8) {
    const auto signed_w = reinterpret_cast<__m256i>(w[0]);
    pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(signed_w), _mm256_sign_epi8(at(0), signed_w));
  } else {
    pairs = _mm256_maddubs_epi16(reinterpret_cast<__m256i>(w[0]), at(0));
    QR_UNROLL
    for (int place = 1; place < 8 / bits; ++place)
      pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(reinterpret_cast<__m256i>(w[place]), at(place)));
  }
  return start + reinterpret_cast<VecI>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#else
  QR_UNROLL
  for (int place = 0; place < 8 / bits; ++place) {
    VecB from;
    std::memcpy(&from, x + place * kBytes, sizeof from);
    start = add_quads(start, w[place], from);
  }
  return start;
#endif
}

// The weights at each place of a vector's bytes.
template <int bits>
QR_INLINE VecB bytes_at(VecI packed, int place) noexcept {
  if constexpr (bits == 8) {
    return reinterpret_cast<VecB>(kWholeBytes ? packed : packed ^ splat(static_cast<std::int32_t>(0x80808080)));
  } else {
    return reinterpret_cast<VecB>((packed >> (place * bits)) & splat(0x01010101 * ((1 << bits) - 1)));
  }
}

// ---- x

// Rounds a block of x, of which there are `left` elements or all; returns its scale. Not finite: NaN.
[[gnu::noinline]] float round_block(const float *x, std::int64_t left, std::int64_t block, std::int8_t *to) noexcept {
  const std::int64_t count = min_of(left, block);
  constexpr std::int32_t kInfinityBits = 0x7f800000;
  constexpr float kLeast = 1e-30f;  // below that 127 divided by it is none, and no product counts
  const auto at = [&](std::int64_t i) __attribute__((always_inline)) {
    return i + kLanes <= count ? load(x + i) : i < count ? load_part(x + i, static_cast<int>(count - i)) : VecF{};
  };
  VecI most{};
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const VecI v = reinterpret_cast<VecI>(abs(at(i)));
    most = v > most ? v : most;
  }
  std::int32_t bits = 0;
  QR_UNROLL for (int i = 0; i < kLanes; ++i) bits = max_of<std::int32_t>(bits, most[i]);
  float largest;
  std::memcpy(&largest, &bits, sizeof largest);
  const bool counts = bits < kInfinityBits && largest > kLeast;
  const VecF factor = splat(counts ? 127.0f / largest : 0.0f);
  for (std::int64_t i = 0; i < block; i += kLanes) narrow(to + i, round_to_int(counts ? at(i) * factor : VecF{}));
  return bits >= kInfinityBits ? __builtin_nanf("") : counts ? largest / 127.0f : 0.0f;
}

// A row in the order of few rows.
template <int bits>
[[gnu::noinline]] void round_row(const BlockWeights &s, const float *x, const ByteRows &rows,
                                 std::int64_t row) noexcept {
  constexpr int places = 8 / bits;
  const std::int64_t block = s.p.block, lanes_of_block = block * bits / 32;
  std::int8_t *codes = rows.codes + row * rows.codes_step;
  float *const scales = rows.scales + row * rows.scales_step;
  std::memset(codes + s.blocks * block, 0, static_cast<std::size_t>(rows.codes_step - s.blocks * block));
  std::memset(scales, 0, bytes_of<float>(rows.scales_step));
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    const float scale = round_block(x + b * block, s.p.k - b * block, block, codes + b * block);
    for (std::int64_t i = 0; i < lanes_of_block; ++i) scales[b * lanes_of_block + i] = scale;
  }
  std::int32_t *const starts = rows.starts + row * rows.starts_step;
  VecB ones[places];
  for (VecB &place : ones) place = VecB{} + static_cast<std::int8_t>(1);
  for (std::int64_t v = 0; v < s.vectors; ++v, codes += places * kBytes) {
    std::int8_t linear[places * kBytes];
    std::memcpy(linear, codes, sizeof linear);
    for (int place = 0; places > 1 && place < places; ++place)
      for (int i = 0; i < kBytes; ++i) {
        codes[place * kBytes + i] = linear[i * places + place];
        asm volatile("" ::: "memory");  // gcc's vectors of this take bytes out of registers one by one
      }
    store(starts + v * kLanes, add_places<bits>(VecI{}, ones, codes));
  }
  if (rows.sums) {
    for (std::int64_t b = 0; b < s.blocks; ++b) {
      std::int32_t total = 0;
      for (std::int64_t i = 0; i < lanes_of_block; ++i) total += starts[b * lanes_of_block + i];
      rows.sums[row * s.blocks + b] = scales[b * lanes_of_block] * static_cast<float>(total);
    }
  }
  for (std::int64_t i = 0; i < s.vectors * kLanes; ++i) starts[i] *= -kMiddle<bits>;
}

// ---- few rows

struct FewRows : BlockWeights {
  const ByteRows &x;
};

// R rows of x with C rows of weights.
template <int bits, int R, int C>
QR_INLINE void byte_tile(const FewRows &s, const Spread &spread, std::int64_t row, std::int64_t n) noexcept {
  constexpr int places = 8 / bits;
  const std::uint8_t *w = s.w + n * s.dwords * 4;
  const std::int8_t *codes = s.x.codes + row * s.x.codes_step;
  const float *x_scales = s.x.scales + row * s.x.scales_step;
  const std::int32_t *starts = s.x.starts + row * s.x.starts_step;
  VecF sums[R][C] = {};
  const auto step = [&](std::int64_t at, int dwords, int blocks) __attribute__((always_inline)) {
    const float *const scales = s.scales + n * s.blocks + (at >> s.log_dwords);
    QR_UNROLL
    for (int c = 0; c < C; ++c) {
      const std::uint8_t *const from = w + (c * s.dwords + at) * 4;
      const VecI packed = load_dwords(from, dwords);
      __builtin_prefetch(from + kWeightsAhead);
      __builtin_prefetch(reinterpret_cast<const char *>(scales + c * s.blocks) + kScalesAhead);
      VecB parts[places];
      QR_UNROLL for (int place = 0; place < places; ++place) parts[place] = bytes_at<bits>(packed, place);
      const VecF scale = spread(scales + c * s.blocks, blocks);
      QR_UNROLL
      for (int r = 0; r < R; ++r) {
        const VecI start = load(starts + r * s.x.starts_step + at);
        const VecI total = add_places<bits>(start, parts, codes + r * s.x.codes_step + at * 4 * places);
        sums[r][c] = fma(to_float(total), scale * load(x_scales + r * s.x.scales_step + at), sums[r][c]);
      }
    }
  };
  std::int64_t at = 0;
  for (; at + kLanes <= s.dwords; at += kLanes) step(at, kLanes, spread.count);
  if (at < s.dwords) step(at, static_cast<int>(s.dwords - at), static_cast<int>(s.blocks - (at >> s.log_dwords)));
  put_sums<R, C>(s, row, n, sums);
}

template <int bits, int R, int C>
void byte_rows(const FewRows &s, std::int64_t row, std::int64_t begin, std::int64_t end) noexcept {
  const Spread spread(s.p.block * bits / 32);
  std::int64_t n = begin;
  for (; n + C <= end; n += C) byte_tile<bits, R, C>(s, spread, row, n);
  for (; n < end; ++n) byte_tile<bits, R, 1>(s, spread, row, n);
}
template <int bits>
void byte_columns(const FewRows &s, std::int64_t begin, std::int64_t end) noexcept {
  constexpr int kRows = 4, kWide = bits == 4 ? 4 : 2;  // (what is met most)
  std::int64_t row = 0;
  for (; row + kRows <= s.p.m; row += kRows) byte_rows<bits, kRows, 1>(s, row, begin, end);
  for (; row < s.p.m; ++row) byte_rows<bits, 1, kWide>(s, row, begin, end);
}

// ---- panels, for many rows

constexpr std::int64_t kByteColumns = kF32Panel * kLanes;

#if (defined(__AVX2__) && QR_ISA_BYTES == 32) || defined(__AVX512VNNI__) || defined(__ARM_FEATURE_DOTPROD)

// Sums of a part of a block: of pairs of s16 that do not overflow within it, or of i32.
QR_INLINE VecI add_step(VecI sums, VecB w, VecI x) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  VecH pairs;  // (added in place: gemm_tile.cpp)
  asm("vpmaddubsw %[x], %[w], %[pairs]\n\tvpaddw %[pairs], %[sums], %[sums]"
      : [sums] "+x"(sums), [pairs] "=&x"(pairs)
      : [x] "x"(x), [w] "x"(w));
  return sums;
#else
  return add_quads(sums, w, reinterpret_cast<VecB>(x));
#endif
}
QR_INLINE VecI whole(VecI sums) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecI>(_mm256_madd_epi16(reinterpret_cast<__m256i>(sums), _mm256_set1_epi16(1)));
#else
  return sums;
#endif
}
// What the sums of a part begin with.
template <int bits>
QR_INLINE std::int32_t start_of(std::int32_t first_pair, std::int32_t second_pair) noexcept {
  if constexpr (kBytePairs)
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(-kMiddle<bits> * second_pair) << 16 |
                                     (static_cast<std::uint32_t>(-kMiddle<bits> * first_pair) & 0xffff));
  return -kMiddle<bits> * (first_pair + second_pair);
}

// A row in the order of panels.
template <int bits>
[[gnu::noinline]] void round_for_panels(const BlockWeights &s, const float *x, const ByteRows &rows,
                                        std::int64_t row) noexcept {
  typedef std::int8_t Sixteen __attribute__((vector_size(16)));
  typedef std::int16_t Eights __attribute__((vector_size(16)));
  typedef std::int32_t Fours __attribute__((vector_size(16)));
  const std::int64_t block = s.p.block, part = byte_part(s.p);
  std::int8_t *const codes = rows.codes + row * rows.codes_step;
  std::int32_t *start = rows.starts + row;
  for (std::int64_t b = 0; b < s.blocks; ++b) {
    std::int8_t *const to = codes + b * block;
    const float scale = round_block(x + b * block, s.p.k - b * block, block, to);
    std::int32_t total = 0;
    for (std::int64_t i = 0; i < block; i += part, start += s.p.m) {
      Eights pairs{};
      for (std::int64_t j = i; j < i + part; j += 16) {
        Sixteen v;
        std::memcpy(&v, to + j, sizeof v);
        if (bits == 4) v = __builtin_shufflevector(v, v, 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
        if (bits == 2) v = __builtin_shufflevector(v, v, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        std::memcpy(to + j, &v, sizeof v);
        const auto two = reinterpret_cast<Eights>(v);
        pairs += (two >> 8) + ((two << 8) >> 8);
      }
      const auto wide = reinterpret_cast<Fours>(pairs);  // of each, the low half and the high half
      Fours low = (wide << 16) >> 16, high = wide >> 16;
      low += __builtin_shufflevector(low, low, 2, 3, 0, 1), high += __builtin_shufflevector(high, high, 2, 3, 0, 1);
      const std::int32_t first = low[0] + low[1], second = high[0] + high[1];
      total += first + second;
      *start = start_of<bits>(first, second);
    }
    rows.scales[b * s.p.m + row] = scale;
    if (rows.sums) rows.sums[b * s.p.m + row] = scale * static_cast<float>(total);
  }
}

// Scratch of a panel of columns.
struct BytePanel {
  std::int8_t *bytes;      // [dword][place][column][4]
  std::int32_t *packed;    // [dword][column]
  float *scales, *shifts;  // [block][column]

  BytePanel(std::byte *scratch, const MatMulBlocks &p) noexcept
      : bytes(reinterpret_cast<std::int8_t *>(scratch)),
        packed(reinterpret_cast<std::int32_t *>(bytes + byte_depth(p) * kByteColumns)),
        scales(reinterpret_cast<float *>(packed + byte_depth(p) * p.bits / 32 * kByteColumns)),
        shifts(scales + byte_depth(p) / p.block * kByteColumns) {
    std::memset(scratch, 0, static_cast<std::size_t>(byte_panel_scratch(p, kByteColumns)));
  }
};

// Weights [k, k + depth) of columns from n on.
template <int bits>
void fill(const BlockWeights &s, const BytePanel &room, std::int64_t n, std::int64_t columns, std::int64_t k,
          std::int64_t depth) noexcept {
  const std::int64_t dwords = depth * bits / 32, first_block = k / s.p.block;
  transpose(4, reinterpret_cast<const std::byte *>(s.w) + (n * s.dwords + k * bits / 32) * 4,
            reinterpret_cast<std::byte *>(room.packed), columns, dwords, s.dwords * 4, kByteColumns * 4);
  std::int8_t *to = room.bytes;
  for (std::int64_t d = 0; d < dwords; ++d) QR_UNROLL
  for (int place = 0; place < 8 / bits; ++place) QR_UNROLL
  for (int v = 0; v < kF32Panel; ++v, to += kBytes)
    store(reinterpret_cast<std::int32_t *>(to),
          reinterpret_cast<VecI>(bytes_at<bits>(load(room.packed + d * kByteColumns + v * kLanes), place)));
  for (std::int64_t b = 0; b < depth / s.p.block; ++b)
    for (std::int64_t c = 0; c < columns; ++c) {
      const float scale = s.scales[(n + c) * s.blocks + first_block + b];
      room.scales[b * kByteColumns + c] = scale;
      if (rows_have_sums(s.p))
        room.shifts[b * kByteColumns + c] =
            scale * (zero_of<bits>(s, n + c, first_block + b) - static_cast<float>(1 << (bits - 1)));
    }
}

// Four dwords of x with four steps of a panel.
template <int R, int C>
QR_INLINE void add_steps(VecI (&some)[R][C], const std::int8_t *w, const std::int8_t *codes,
                         std::int64_t codes_step) noexcept {
  QR_UNROLL
  for (int step = 0; step < 4; ++step) {
    VecB weights[C];
    QR_UNROLL
    for (int c = 0; c < C; ++c)
      weights[c] = reinterpret_cast<VecB>(load(reinterpret_cast<const std::int32_t *>(w + (step * C + c) * kBytes)));
    QR_UNROLL
    for (int r = 0; r < R; ++r) {
      std::int32_t four;
      std::memcpy(&four, codes + r * codes_step + step * 4, sizeof four);
      const VecI factor = splat(four);
      QR_UNROLL for (int c = 0; c < C; ++c) some[r][c] = add_step(some[r][c], weights[c], factor);
    }
    asm volatile("" ::: "memory");  // steps are not mixed: gemm_tile.cpp
  }
}

// Sums of R rows and a panel's columns from n on, of which `columns` exist, become y or are added to it.
template <int R, int C>
QR_INLINE void put_panel(const BlockWeights &s, const VecF (&sums)[R][C], std::int64_t row, std::int64_t n,
                         std::int64_t columns, bool first) noexcept {
  QR_UNROLL
  for (int c = 0; c < C; ++c) {
    if (c * kLanes >= columns) break;
    const int lanes = static_cast<int>(min_of<std::int64_t>(kLanes, columns - c * kLanes));
    const auto some = [&](const float *from) __attribute__((always_inline)) {
      return lanes == kLanes ? load(from) : load_part(from, lanes);
    };
    const VecF bias = first && s.bias ? some(s.bias + n + c * kLanes) : VecF{};
    QR_UNROLL
    for (int r = 0; r < R; ++r) {
      float *const to = s.y + (row + r) * s.p.n + n + c * kLanes;
      const VecF total = sums[r][c] + (first ? bias : some(to));
      if (lanes == kLanes) store(to, total);
      else store_part(to, total, lanes);
    }
  }
}

// R rows with a panel.
template <int R>
void panel_tile(const BlockWeights &s, const ByteRows &x, const BytePanel &room, std::int64_t row, std::int64_t n,
                std::int64_t columns, std::int64_t k, std::int64_t depth) noexcept {
  constexpr int C = kF32Panel;
  const int log_block = __builtin_ctz(s.p.block);
  const std::int64_t part = byte_part(s.p), first_block = k >> log_block;
  const std::int64_t m = s.p.m, codes_step = x.codes_step;
  const std::int8_t *w = room.bytes, *codes = x.codes + row * codes_step + k;
  const std::int32_t *starts = x.starts + k / part * m + row;
  const float *const scales = x.scales + first_block * m + row, *const x_sums =
                                                                    x.sums ? x.sums + first_block * m + row : nullptr;
  VecF sums[R][C] = {};
  for (std::int64_t at = 0; at < depth; at += part, starts += m) {
    VecI some[R][C];
    QR_UNROLL
    for (int r = 0; r < R; ++r) QR_UNROLL for (int c = 0; c < C; ++c) some[r][c] = splat(starts[r]);
    for (const std::int8_t *const end = codes + part; codes < end; w += 4 * C * kBytes, codes += 16)
      add_steps<R, C>(some, w, codes, codes_step);
    const std::int64_t block = at >> log_block;
    const bool block_ends = (at + part) >> log_block != block;
    QR_UNROLL
    for (int c = 0; c < C; ++c) {
      const VecF scale = load(room.scales + block * kByteColumns + c * kLanes);
      QR_UNROLL
      for (int r = 0; r < R; ++r)
        sums[r][c] = fma(to_float(whole(some[r][c])), scale * splat(scales[block * m + r]), sums[r][c]);
    }
    if (!x_sums || !block_ends) continue;
    QR_UNROLL
    for (int c = 0; c < C; ++c) {
      const VecF shift = load(room.shifts + block * kByteColumns + c * kLanes);
      QR_UNROLL for (int r = 0; r < R; ++r) sums[r][c] = sums[r][c] - shift * splat(x_sums[block * m + r]);
    }
  }
  put_panel<R, C>(s, sums, row, n, columns, k == 0);
}

template <int bits>
void byte_panels(const BlockWeights &s, const ByteRows &x, std::byte *scratch, std::int64_t begin,
                 std::int64_t end) noexcept {
  constexpr int kRows = 4;
  const BytePanel room(scratch, s.p);
  for (std::int64_t task = begin; task < end; ++task) {
    const std::int64_t n = task * kByteColumns, columns = min_of(kByteColumns, s.p.n - n);
    for (std::int64_t k = 0; k < s.p.k; k += byte_depth(s.p)) {
      const std::int64_t depth = min_of(byte_depth(s.p), s.blocks * s.p.block - k);
      fill<bits>(s, room, n, columns, k, depth);
      std::int64_t row = 0;
      for (; row + kRows <= s.p.m; row += kRows) panel_tile<kRows>(s, x, room, row, n, columns, k, depth);
      for (; row < s.p.m; ++row) panel_tile<1>(s, x, room, row, n, columns, k, depth);
    }
  }
}
#else
template <int bits>
void round_for_panels(const BlockWeights &, const float *, const ByteRows &, std::int64_t) noexcept {}
template <int bits>
void byte_panels(const BlockWeights &, const ByteRows &, std::byte *, std::int64_t, std::int64_t) noexcept {}
#endif

template <int bits>
void run_bytes(const Call &call) noexcept {
  BlockWeights s(call);
  const MatMulBlocks &p = s.p;
  const bool in_panels = in_byte_panels(p, kBytePairs, kIntGroup);
  ByteRows x(block_bytes_shape(p, kLanes, in_panels), p.m, call.shared_scratch());
  if (!rows_have_sums(p)) x.sums = nullptr;
  s.x_sums = x.sums;
  const float *const from = call.operand<const float>(0);
  call.threads.run(static_cast<std::uint64_t>(p.m),
                   static_cast<std::uint64_t>(kWorthSharing / (8.0 * static_cast<double>(p.k))) + 1,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (auto row = static_cast<std::int64_t>(begin); row < static_cast<std::int64_t>(end); ++row)
                       if (in_panels) round_for_panels<bits>(s, from + row * p.k, x, row);
                       else round_row<bits>(s, from + row * p.k, x, row);
                   });
  const double work = 2.0 * static_cast<double>(p.m) * static_cast<double>(s.blocks * p.block);
  if (in_panels)
    return call.threads.run(static_cast<std::uint64_t>(ceil_div(p.n, kByteColumns)),
                            static_cast<std::uint64_t>(kWorthSharing / work / static_cast<double>(kByteColumns)) + 1,
                            [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                              byte_panels<bits>(s, x, call.worker_scratch(worker), static_cast<std::int64_t>(begin),
                                                static_cast<std::int64_t>(end));
                            });
  const FewRows few{s, x};
  call.threads.run(static_cast<std::uint64_t>(p.n), static_cast<std::uint64_t>(kWorthSharing / work) + 1,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     byte_columns<bits>(few, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
                   });
}

}  // namespace

void run_MatMulBlocksBytes(const Call &call) {
  switch (call.as<MatMulBlocks>().bits) {
    case 2: return run_bytes<2>(call);
    case 4: return run_bytes<4>(call);
    default: return run_bytes<8>(call);
  }
}

}  // namespace quarry::kernels::QR_ISA
