// SPDX-License-Identifier: Apache-2.0
// Comparisons of integers as bits.
#pragma once

#include "backends/common/kernels/isa/double_vec.h"

namespace quarry::kernels::QR_ISA {

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
