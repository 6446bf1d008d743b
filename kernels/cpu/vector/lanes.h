// SPDX-License-Identifier: Apache-2.0
// Comparisons as masks and as bits.
#pragma once

#include "kernels/cpu/vector/double_vec.h"

namespace quarry::kernels::QR_ISA {

// Whether vectors are a gain where T is compared: integers of 64 bits SSE2 has no comparison of.
#if defined(__SSE2__) && !defined(__SSE4_2__)
template <class T>
inline constexpr bool kInVectors = sizeof(T) < 8 || static_cast<T>(0.5) != 0;
#else
template <class T>
inline constexpr bool kInVectors = true;
#endif

// Whether any lane of a mask, of lanes of any width, is set.
template <class Mask>
QR_INLINE bool any_lane(Mask mask) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  return _mm256_movemask_epi8(reinterpret_cast<__m256i>(mask)) != 0;
#elif defined(__SSE2__) && QR_ISA_BYTES == 16
  return _mm_movemask_epi8(reinterpret_cast<__m128i>(mask)) != 0;
#else
  return any(reinterpret_cast<VecL>(mask));
#endif
}

// a > b. (SSE2 has no comparison of 64 bits: where the upper halves are equal the difference's sign says it.)
QR_INLINE VecL greater(VecL a, VecL b) noexcept {
#if defined(__SSE2__) && !defined(__SSE4_2__)
  const __m128i x = reinterpret_cast<__m128i>(a), y = reinterpret_cast<__m128i>(b);
  const __m128i upper = _mm_or_si128(_mm_cmpgt_epi32(x, y), _mm_and_si128(_mm_cmpeq_epi32(x, y), _mm_sub_epi64(y, x)));
  return reinterpret_cast<VecL>(_mm_srai_epi32(_mm_shuffle_epi32(upper, _MM_SHUFFLE(3, 3, 1, 1)), 31));
#else
  return a > b;
#endif
}

// `yes` where a mask is set. (Without an instruction for it gcc compares the mask with 0 first, lane by lane.)
template <class Mask, class V>
QR_INLINE V select_lanes(Mask mask, V yes, V no) noexcept {
#if defined(__SSE2__) && !defined(__SSE4_1__)
  const __m128i bits = reinterpret_cast<__m128i>(mask);
  return reinterpret_cast<V>(_mm_or_si128(_mm_and_si128(bits, reinterpret_cast<__m128i>(yes)),
                                          _mm_andnot_si128(bits, reinterpret_cast<__m128i>(no))));
#else
  return mask ? yes : no;
#endif
}

// The greater of vectors, or of single elements; of NaN and a number the second. (Gcc sees a maximum in what is plainly
// written, where there is one.)
template <class V>
QR_INLINE V greater_of(V a, V b) noexcept {
  if constexpr (__is_same(V, VecD)) return max(a, b);
#if defined(__SSE2__) && !defined(__SSE4_2__)
  else if constexpr (__is_same(V, VecL)) return select_lanes(greater(a, b), a, b);
#endif
  else return a > b ? a : b;
}

// A bit for each lane of `v` that is not less than `least`.
template <class Vec>
QR_INLINE std::uint32_t lanes_from(Vec v, Vec least) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  if constexpr (sizeof(v[0]) == 4)
    return _mm512_cmp_epi32_mask(reinterpret_cast<__m512i>(v), reinterpret_cast<__m512i>(least), _MM_CMPINT_NLT);
  else return _mm512_cmp_epi64_mask(reinterpret_cast<__m512i>(v), reinterpret_cast<__m512i>(least), _MM_CMPINT_NLT);
#else
  const auto mask = v >= least;
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  if constexpr (sizeof(v[0]) == 4)
    return static_cast<std::uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(mask)));
  else return static_cast<std::uint32_t>(_mm256_movemask_pd(reinterpret_cast<__m256d>(mask)));
#elif defined(__SSE2__) && QR_ISA_BYTES == 16
  if constexpr (sizeof(v[0]) == 4) return static_cast<std::uint32_t>(_mm_movemask_ps(reinterpret_cast<__m128>(mask)));
  else return static_cast<std::uint32_t>(_mm_movemask_pd(reinterpret_cast<__m128d>(mask)));
#else
  if (!any(reinterpret_cast<VecL>(mask))) return 0;
  std::uint32_t bits = 0;
  for (int lane = 0; lane < static_cast<int>(sizeof v / sizeof v[0]); ++lane)
    bits |= static_cast<std::uint32_t>(mask[lane] & 1) << lane;
  return bits;
#endif
#endif
}

}  // namespace quarry::kernels::QR_ISA
