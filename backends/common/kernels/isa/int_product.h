// SPDX-License-Identifier: Apache-2.0
// The inner loop of integer products: rows of activations, read a step of 4 bytes at a time, times a panel of packed weights.
#pragma once

#include "backends/common/kernels/isa/int_vec.h"

namespace quarry::kernels::QR_ISA {

// What a step of 4 bytes is: pairs of s16 with weights of one or two bytes, or quads of bytes.
template <class W>
struct Pairs {
  using Element = std::int16_t;
  using Weight = W;
  using Vec = VecH;
  static constexpr std::int64_t kWeights = kHalves;  // of a vector
  static QR_MEMBER VecH weights(const W *w) noexcept { return widen_halves(w); }
  static QR_MEMBER VecI add(VecI c, VecH x, VecH w) noexcept { return add_pairs(c, x, w); }
};
struct Quads {
  using Element = std::int8_t;
  using Weight = std::int8_t;
  using Vec = VecB;
  static constexpr std::int64_t kWeights = kBytes;
  static QR_MEMBER VecB weights(const std::int8_t *w) noexcept {
    VecB v;
    std::memcpy(&v, w, sizeof v);
    return v;
  }
  static QR_MEMBER VecI add(VecI c, VecB x, VecB w) noexcept { return add_quads(c, x, w); }
};

#if defined(__AVX2__) && QR_ISA_BYTES == 32
// Four bytes as two pairs, whose sums must fit 16 bits.
struct BytePairs : Quads {
  static QR_MEMBER VecI add(VecI c, VecB x, VecB w) noexcept {
    const __m256i pairs = _mm256_maddubs_epi16(reinterpret_cast<__m256i>(x), reinterpret_cast<__m256i>(w));
    return reinterpret_cast<VecI>(_mm256_add_epi32(reinterpret_cast<__m256i>(c), _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
  }
};
#endif

// acc[r][v] += rows x panel, over `steps`.
template <class Kind, int R, int V>
QR_INLINE void multiply(const std::byte *rows, std::int64_t row_bytes, const typename Kind::Weight *w, std::int64_t steps, VecI (&acc)[R][V]) noexcept {
  for (std::int64_t s = 0; s < steps; ++s) {
    typename Kind::Vec wv[V];
    QR_UNROLL
    for (int v = 0; v < V; ++v) wv[v] = Kind::weights(w + v * Kind::kWeights);
    w += V * Kind::kWeights;
    QR_UNROLL
    for (int r = 0; r < R; ++r) {
      std::int32_t step;
      std::memcpy(&step, rows + r * row_bytes + s * 4, 4);
      const auto x = reinterpret_cast<typename Kind::Vec>(splat(step));
      QR_UNROLL
      for (int v = 0; v < V; ++v) acc[r][v] = Kind::add(acc[r][v], x, wv[v]);
    }
  }
}

}  // namespace quarry::kernels::QR_ISA
