// SPDX-License-Identifier: Apache-2.0
// Vectors of the instruction set that this source is compiled for. Sources of the families are compiled several times,
// so nothing in them may have linkage that another compilation could share: everything lies in namespace QR_ISA,
// helpers are `QR_INLINE`, and no template of std is instantiated (the linker would keep one copy, perhaps the one with
// instructions that the processor lacks).
//
// The compiler's vector types carry arithmetic; what it has no operator for is written once per instruction set here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/cpu/isa.h"

#if !defined(QR_ISA) || !defined(QR_ISA_BYTES)
#error "sources of the families are compiled with QR_ISA and QR_ISA_BYTES; see meson.build"
#endif

#define QR_INLINE __attribute__((always_inline)) static inline
#define QR_UNROLL _Pragma("GCC unroll 64")

namespace quarry::kernels::QR_ISA {

inline constexpr int kBytes = QR_ISA_BYTES;
inline constexpr int kLanes = kBytes / 4;

typedef float VecF __attribute__((vector_size(QR_ISA_BYTES)));
typedef std::int32_t VecI __attribute__((vector_size(QR_ISA_BYTES)));
typedef std::uint32_t VecU __attribute__((vector_size(QR_ISA_BYTES)));
typedef float VecFUnaligned __attribute__((vector_size(QR_ISA_BYTES), aligned(4), may_alias));
typedef std::int32_t VecIUnaligned __attribute__((vector_size(QR_ISA_BYTES), aligned(4), may_alias));

template <class T>
QR_INLINE constexpr T min_of(T a, T b) noexcept {
  return b < a ? b : a;
}
template <class T>
QR_INLINE constexpr T max_of(T a, T b) noexcept {
  return a < b ? b : a;
}
template <class T>
QR_INLINE constexpr T ceil_div(T a, T b) noexcept {
  return (a + b - 1) / b;
}
// Of so many elements, for memcpy and its like.
template <class T>
QR_INLINE constexpr std::size_t bytes_of(std::int64_t count) noexcept {
  return static_cast<std::size_t>(count) * sizeof(T);
}

QR_INLINE VecF load(const float *p) noexcept { return *reinterpret_cast<const VecFUnaligned *>(p); }
QR_INLINE void store(float *p, VecF v) noexcept { *reinterpret_cast<VecFUnaligned *>(p) = v; }
QR_INLINE VecI load(const std::int32_t *p) noexcept { return *reinterpret_cast<const VecIUnaligned *>(p); }
QR_INLINE void store(std::int32_t *p, VecI v) noexcept { *reinterpret_cast<VecIUnaligned *>(p) = v; }
QR_INLINE VecF splat(float x) noexcept { return x - VecF{}; }  // the form that compilers turn into one broadcast
QR_INLINE VecI splat(std::int32_t x) noexcept { return x - VecI{}; }

// The first `count` elements, 0 < count < kLanes; nothing beyond them is touched.
QR_INLINE VecF load_part(const float *p, int count) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecF>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p));
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  static constexpr std::int32_t kMask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return reinterpret_cast<VecF>(
      _mm256_maskload_ps(p, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(kMask + 8 - count))));
#elif QR_ISA_BYTES == 16
  return VecF{p[0], count > 1 ? p[1] : 0, count > 2 ? p[2] : 0, 0};
#else
  VecF v{};
  std::memcpy(&v, p, static_cast<std::size_t>(count) * 4);
  return v;
#endif
}
QR_INLINE void store_part(float *p, VecF v, int count) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), reinterpret_cast<__m512>(v));
#elif (defined(__AVX2__) && QR_ISA_BYTES == 32) || QR_ISA_BYTES == 16
  // Halves, quarters: masked stores are slow on some processors.
  typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
  typedef float Two __attribute__((vector_size(8), aligned(4), may_alias));
#if QR_ISA_BYTES == 32
  Four four = __builtin_shufflevector(v, v, 0, 1, 2, 3);
  if (count & 4) {
    *reinterpret_cast<Four *>(p) = four;
    four = __builtin_shufflevector(v, v, 4, 5, 6, 7);
    p += 4;
  }
#else
  Four four = v;
#endif
  if (count & 2) {
    *reinterpret_cast<Two *>(p) = __builtin_shufflevector(four, four, 0, 1);
    four = __builtin_shufflevector(four, four, 2, 3, 2, 3);
    p += 2;
  }
  if (count & 1) *p = four[0];
#else
  std::memcpy(p, &v, static_cast<std::size_t>(count) * 4);
#endif
}
// Ones in the lanes below count.
QR_INLINE VecI first_lanes(int count) noexcept {
  VecI lane;
  QR_UNROLL for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return lane < splat(static_cast<std::int32_t>(count));
}

// a * b + c; fused where the instruction set has it (-ffp-contract=fast).
QR_INLINE VecF fma(VecF a, VecF b, VecF c) noexcept { return a * b + c; }
// sum += a * b where the sum lies: left to itself, gcc moves sums from register to register in loops of more than one
// step.
QR_INLINE void add_product(VecF &sum, VecF a, VecF b) noexcept {
#if defined(__FMA__) && !defined(QR_EMULATED_AVX512)
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#else
  sum = fma(a, b, sum);
#endif
}

// The same rounded once whatever the compiler makes of the above, where kFusesProducts.
#if defined(__FMA__) || defined(__aarch64__)
inline constexpr bool kFusesProducts = true;
#else
inline constexpr bool kFusesProducts = false;
#endif
QR_INLINE VecF fused(VecF a, VecF b, VecF c) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecF>(
      _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#elif defined(__FMA__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecF>(
      _mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#elif defined(__ARM_NEON) && defined(__aarch64__) && QR_ISA_BYTES == 16
  return reinterpret_cast<VecF>(
      vfmaq_f32(reinterpret_cast<float32x4_t>(c), reinterpret_cast<float32x4_t>(a), reinterpret_cast<float32x4_t>(b)));
#else
  return a * b + c;
#endif
}

// Of NaN and a number: the second operand's value as x86 has it; use clamp() where NaN must stay. (gcc 12 makes a
// comparison and a selection of what is plainly written.)
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
QR_INLINE VecF min(VecF a, VecF b) noexcept {
  return reinterpret_cast<VecF>(_mm512_maskz_min_ps(0xffff, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
}
QR_INLINE VecF max(VecF a, VecF b) noexcept {
  return reinterpret_cast<VecF>(_mm512_maskz_max_ps(0xffff, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
}
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
QR_INLINE VecF min(VecF a, VecF b) noexcept {
  return reinterpret_cast<VecF>(_mm256_min_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
}
QR_INLINE VecF max(VecF a, VecF b) noexcept {
  return reinterpret_cast<VecF>(_mm256_max_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
}
#elif defined(__SSE2__) && QR_ISA_BYTES == 16
QR_INLINE VecF min(VecF a, VecF b) noexcept {
  return reinterpret_cast<VecF>(_mm_min_ps(reinterpret_cast<__m128>(a), reinterpret_cast<__m128>(b)));
}
QR_INLINE VecF max(VecF a, VecF b) noexcept {
  return reinterpret_cast<VecF>(_mm_max_ps(reinterpret_cast<__m128>(a), reinterpret_cast<__m128>(b)));
}
#else
QR_INLINE VecF min(VecF a, VecF b) noexcept { return a < b ? a : b; }
QR_INLINE VecF max(VecF a, VecF b) noexcept { return a > b ? a : b; }
#endif
// NaN stays NaN: the bound is the first operand, and min/max give the second when either is NaN.
QR_INLINE VecF clamp(VecF x, VecF low, VecF high) noexcept { return min(high, max(low, x)); }
QR_INLINE VecF abs(VecF x) noexcept { return reinterpret_cast<VecF>(reinterpret_cast<VecI>(x) & splat(0x7fffffff)); }
// `yes` where the sign of v is set, and anything where v is NaN.
QR_INLINE VecF select_negative(VecF v, VecF yes, VecF no) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecF>(
      _mm256_blendv_ps(reinterpret_cast<__m256>(no), reinterpret_cast<__m256>(yes), reinterpret_cast<__m256>(v)));
#else
  return reinterpret_cast<VecI>(v) < VecI{} ? yes : no;
#endif
}
QR_INLINE VecF select(VecI mask, VecF yes, VecF no) noexcept { return mask ? yes : no; }

QR_INLINE VecF to_float(VecI v) noexcept { return __builtin_convertvector(v, VecF); }
QR_INLINE VecI truncate(VecF v) noexcept { return __builtin_convertvector(v, VecI); }
// (AVX-512 below: masked forms of all lanes, because gcc 12 warns of the undefined operand in its own header's plain
// ones.) Nearest, ties to even; |x| < 2^31.
QR_INLINE VecI round_to_int(VecF v) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecI>(_mm512_maskz_cvtps_epi32(0xffff, reinterpret_cast<__m512>(v)));
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecI>(_mm256_cvtps_epi32(reinterpret_cast<__m256>(v)));
#elif defined(__SSE2__) && QR_ISA_BYTES == 16
  return reinterpret_cast<VecI>(_mm_cvtps_epi32(reinterpret_cast<__m128>(v)));
#elif defined(__ARM_NEON) && QR_ISA_BYTES == 16
  return reinterpret_cast<VecI>(vcvtnq_s32_f32(reinterpret_cast<float32x4_t>(v)));
#else
  VecI r;
  for (int i = 0; i < kLanes; ++i) r[i] = static_cast<std::int32_t>(__builtin_rintf(v[i]));
  return r;
#endif
}
QR_INLINE VecF sqrt(VecF v) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecF>(_mm512_maskz_sqrt_ps(0xffff, reinterpret_cast<__m512>(v)));
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecF>(_mm256_sqrt_ps(reinterpret_cast<__m256>(v)));
#elif defined(__ARM_NEON) && QR_ISA_BYTES == 16
  return reinterpret_cast<VecF>(vsqrtq_f32(reinterpret_cast<float32x4_t>(v)));
#else
  for (int i = 0; i < kLanes; ++i) v[i] = __builtin_sqrtf(v[i]);
  return v;
#endif
}
// table[index % kLanes], lane by lane.
QR_INLINE VecF choose(VecF table, VecI index) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecF>(
      _mm512_maskz_permutexvar_ps(0xffff, reinterpret_cast<__m512i>(index), reinterpret_cast<__m512>(table)));
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecF>(
      _mm256_permutevar8x32_ps(reinterpret_cast<__m256>(table), reinterpret_cast<__m256i>(index)));
#else
  VecF r{};
  for (int i = 0; i < kLanes; ++i) r[i] = table[index[i] & (kLanes - 1)];
  return r;
#endif
}
// Lanes in which a NaN was: two values in one comparison, where there is one for that.
struct NanSeen {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  __mmask16 lanes = 0;
  __attribute__((always_inline)) void see(VecF a, VecF b) noexcept {
    lanes = static_cast<__mmask16>(
        lanes | _mm512_cmp_ps_mask(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), _CMP_UNORD_Q));
  }
  __attribute__((always_inline)) bool any() const noexcept { return lanes != 0; }
  __attribute__((always_inline)) VecF put(VecF v) const noexcept {
    return reinterpret_cast<VecF>(
        _mm512_mask_mov_ps(reinterpret_cast<__m512>(v), lanes, reinterpret_cast<__m512>(splat(__builtin_nanf("")))));
  }
#else
  VecI lanes{};
  __attribute__((always_inline)) void see(VecF a, VecF b) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
    lanes |=
        reinterpret_cast<VecI>(_mm256_cmp_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), _CMP_UNORD_Q));
#elif defined(__SSE2__) && QR_ISA_BYTES == 16
    lanes |= reinterpret_cast<VecI>(_mm_cmpunord_ps(reinterpret_cast<__m128>(a), reinterpret_cast<__m128>(b)));
#else
    lanes |= (a != a) | (b != b);
#endif
  }
  __attribute__((always_inline)) bool any() const noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
    return _mm256_movemask_ps(reinterpret_cast<__m256>(lanes)) != 0;
#elif defined(__SSE2__) && QR_ISA_BYTES == 16
    return _mm_movemask_ps(reinterpret_cast<__m128>(lanes)) != 0;
#else
    std::int32_t all = 0;
    QR_UNROLL for (int i = 0; i < kLanes; ++i) all |= lanes[i];
    return all != 0;
#endif
  }
  __attribute__((always_inline)) VecF put(VecF v) const noexcept { return lanes ? splat(__builtin_nanf("")) : v; }
#endif
};

// Folds the halves of a vector onto each other until one lane is left; combine takes vectors of 8 and of 4.
typedef float Four __attribute__((vector_size(16)));
typedef float Eight __attribute__((vector_size(32)));
template <class Combine>
QR_INLINE float fold(VecF v, Combine &&combine) noexcept {
#if QR_ISA_BYTES == 64
  const Eight w = combine(Eight(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)),
                          Eight(__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)));
#elif QR_ISA_BYTES == 32
  const Eight w = v;
#endif
#if QR_ISA_BYTES >= 32
  const Four four =
      combine(Four(__builtin_shufflevector(w, w, 0, 1, 2, 3)), Four(__builtin_shufflevector(w, w, 4, 5, 6, 7)));
#else
  const Four four = v;
#endif
  const Four two = combine(four, Four(__builtin_shufflevector(four, four, 2, 3, 0, 1)));
  return combine(two, Four(__builtin_shufflevector(two, two, 1, 0, 3, 2)))[0];
}
QR_INLINE float sum(VecF v) noexcept {
  return fold(
      v, [](auto a, auto b) __attribute__((always_inline)) { return a + b; });
}
// The second of two where either is NaN.
struct Larger {
  __attribute__((always_inline)) Four operator()(Four a, Four b) const noexcept {
#if defined(__SSE2__)
    return reinterpret_cast<Four>(_mm_max_ps(reinterpret_cast<__m128>(a), reinterpret_cast<__m128>(b)));
#else
    return a > b ? a : b;
#endif
  }
#if QR_ISA_BYTES >= 32
  __attribute__((always_inline)) Eight operator()(Eight a, Eight b) const noexcept {
#if defined(__AVX2__)
    return reinterpret_cast<Eight>(_mm256_max_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
#else
    return a > b ? a : b;
#endif
  }
#endif
};
QR_INLINE float largest(VecF v) noexcept { return fold(v, Larger{}); }

}  // namespace quarry::kernels::QR_ISA
