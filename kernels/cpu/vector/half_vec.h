// SPDX-License-Identifier: Apache-2.0
// Vectors of f32 from 16-bit numbers as they lie in memory.
#pragma once

#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

// As 32-bit integers.
QR_INLINE VecU load_u16(const std::uint16_t *p) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecU>(
      _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p))));
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecU>(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
#else
  VecU v{};
  QR_UNROLL for (int i = 0; i < kLanes; ++i) v[i] = p[i];
  return v;
#endif
}

QR_INLINE VecF load_bf16(const std::uint16_t *p) noexcept { return reinterpret_cast<VecF>(load_u16(p) << 16); }

QR_INLINE VecF load_f16(const std::uint16_t *p) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecF>(
      _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p))));
#elif defined(__F16C__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecF>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
#elif defined(__aarch64__)
  return reinterpret_cast<VecF>(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))));
#else
  const VecU half = load_u16(p), sign = (half & 0x8000u) << 16, magnitude = (half & 0x7fffu) << 13;
  // Moving the exponent by multiplication also normalises subnormals, exactly.
  const VecU scaled = reinterpret_cast<VecU>(reinterpret_cast<VecF>(magnitude) * splat(0x1p112f));
  const VecU endless = magnitude | 0x7f800000u;  // or no number
  return reinterpret_cast<VecF>(((half & 0x7c00u) == 0x7c00u ? endless : scaled) | sign);
#endif
}

// A vector of weights of a product.
template <WeightType type>
struct Weights {
  using Element = std::uint16_t;
  QR_INLINE VecF load(const Element *p) noexcept { return type == WeightType::F16 ? load_f16(p) : load_bf16(p); }
};
template <>
struct Weights<WeightType::F32> {
  using Element = float;
  QR_INLINE VecF load(const float *p) noexcept { return QR_ISA::load(p); }
};

}  // namespace quarry::kernels::QR_ISA
