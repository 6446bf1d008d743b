// SPDX-License-Identifier: Apache-2.0
// The inner loop of integer products: rows of activations, read a step of 4 bytes at a time, times a panel of packed
// weights.
#pragma once

#include "kernels/cpu/vector/int_vec.h"

namespace quarry::kernels::QR_ISA {

// sum += products where the sum lies (gemm_tile.cpp).
#if defined(__AVX2__) && QR_ISA_BYTES == 32
QR_INLINE VecI add_in_place(VecI sum, __m256i products) noexcept {
  asm("vpaddd %1, %0, %0" : "+x"(sum) : "x"(products));
  return sum;
}
#endif

// What a step of 4 bytes is: pairs of s16 with weights of one or two bytes, or quads of bytes.
template <class W>
struct Pairs {
  using Element = std::int16_t;
  using Weight = W;
  using Vec = VecH;
  using Held = VecH;                                 // weights of a step
  static constexpr std::int64_t kWeights = kHalves;  // of a vector
  static QR_MEMBER VecH weights(const W *w) noexcept { return widen_halves(w); }
  static QR_MEMBER VecI add(VecI c, VecH x, VecH w) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
    return add_in_place(c, _mm256_madd_epi16(reinterpret_cast<__m256i>(x), reinterpret_cast<__m256i>(w)));
#else
    return add_pairs(c, x, w);
#endif
  }
};
struct Quads {
  using Element = std::int8_t;
  using Weight = std::int8_t;
  using Vec = VecB;
  using Held = VecB;
  static constexpr std::int64_t kWeights = kBytes;
  static QR_MEMBER VecB weights(const std::int8_t *w) noexcept {
    VecB v;
    std::memcpy(&v, w, sizeof v);
    return v;
  }
  static QR_MEMBER VecI add(VecI c, VecB x, VecB w) noexcept { return add_quads(c, x, w); }
};

#if defined(__AVX2__) && QR_ISA_BYTES == 32
// Four bytes as two pairs, whose sums must fit 16 bits. Weights stay in memory: there are no registers left for them.
struct BytePairs : Quads {
  typedef VecB Stored __attribute__((aligned(1), may_alias));
  using Held = const Stored *;
  static QR_MEMBER Held weights(const std::int8_t *w) noexcept { return reinterpret_cast<const Stored *>(w); }
  static QR_MEMBER VecI add(VecI c, VecB x, Held w) noexcept {
    VecH pairs;
    asm("vpmaddubsw %[w], %[x], %[pairs]\n\tvpmaddwd %[ones], %[pairs], %[pairs]\n\tvpaddd %[pairs], %[c], %[c]"
        : [c] "+x"(c), [pairs] "=&x"(pairs)
        : [x] "x"(x), [w] "m"(*w), [ones] "x"(VecH{} + std::int16_t{1}));
    return c;
  }
};
#endif

// acc[r][v] += rows x panel, over `steps`; between() is called before every four of them.
template <class Kind, int R, int V, class Between>
QR_INLINE void multiply(const std::byte *rows, std::int64_t row_bytes, const typename Kind::Weight *w,
                        std::int64_t steps, VecI (&acc)[R][V], Between &&between) noexcept {
  const auto step = [&](std::int64_t s) __attribute__((always_inline)) {
    typename Kind::Held wv[V];
    QR_UNROLL
    for (int v = 0; v < V; ++v) wv[v] = Kind::weights(w + v * Kind::kWeights);
    w += V * Kind::kWeights;
    QR_UNROLL
    for (int r = 0; r < R; ++r) {
      std::int32_t four;
      std::memcpy(&four, rows + r * row_bytes + s * 4, 4);
      const auto x = reinterpret_cast<typename Kind::Vec>(splat(four));
      QR_UNROLL
      for (int v = 0; v < V; ++v) acc[r][v] = Kind::add(acc[r][v], x, wv[v]);
    }
    asm volatile("" ::: "memory");  // steps are not mixed: gemm_tile.cpp
  };
  std::int64_t s = 0;
  for (; s + 4 <= steps; s += 4) {
    between();
    step(s), step(s + 1), step(s + 2), step(s + 3);
  }
  _Pragma("GCC unroll 1") for (; s < steps; ++s) step(s);
}
template <class Kind, int R, int V>
QR_INLINE void multiply(const std::byte *rows, std::int64_t row_bytes, const typename Kind::Weight *w,
                        std::int64_t steps, VecI (&acc)[R][V]) noexcept {
  multiply<Kind>(rows, row_bytes, w, steps, acc, [] {});
}

// The tile of each shape: tile<R, V>() of 1 to kIntRows rows by the vectors of a panel.
template <int V, class Tile>
QR_INLINE void choose_rows(std::int64_t rows, const Tile &tile) noexcept {
  static_assert(kIntRows == 6);
  switch (rows) {
    case 1: return tile.template operator()<1, V>();
    case 2: return tile.template operator()<2, V>();
    case 3: return tile.template operator()<3, V>();
    case 4: return tile.template operator()<4, V>();
    case 5: return tile.template operator()<5, V>();
    default: return tile.template operator()<6, V>();
  }
}
template <class Tile>
QR_INLINE void choose_tile(std::int64_t rows, int vectors, const Tile &tile) noexcept {
  if (vectors == 1) return choose_rows<1>(rows, tile);
  if constexpr (kF32Panel >= 3) {
    if (vectors == 3) return choose_rows<3>(rows, tile);
    if (vectors == 4) return choose_rows<4>(rows, tile);
  }
  return choose_rows<2>(rows, tile);
}

}  // namespace quarry::kernels::QR_ISA
