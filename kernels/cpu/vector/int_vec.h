// SPDX-License-Identifier: Apache-2.0
// Vectors of small integers: loads that widen, stores that narrow, products of pairs and of quads.
#pragma once

#include "kernels/cpu/shapes/conv_int_shape.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

#define QR_MEMBER __attribute__((always_inline)) inline  // of a class

inline constexpr int kHalves = kBytes / 2;  // s16 of a vector

typedef std::int8_t VecB __attribute__((vector_size(QR_ISA_BYTES)));
typedef std::int16_t VecH __attribute__((vector_size(QR_ISA_BYTES)));
typedef double VecD __attribute__((vector_size(QR_ISA_BYTES)));
typedef std::int16_t VecHUnaligned __attribute__((vector_size(QR_ISA_BYTES), aligned(2), may_alias));
typedef double VecDUnaligned __attribute__((vector_size(QR_ISA_BYTES), aligned(8), may_alias));
// As many elements as VecH, VecI has lanes, in less room.
typedef std::int8_t HalfB __attribute__((vector_size(QR_ISA_BYTES / 2), aligned(1), may_alias));
typedef std::uint8_t HalfBU __attribute__((vector_size(QR_ISA_BYTES / 2), aligned(1), may_alias));
typedef std::int8_t QuarterB __attribute__((vector_size(QR_ISA_BYTES / 4), aligned(1), may_alias));
typedef std::uint8_t QuarterBU __attribute__((vector_size(QR_ISA_BYTES / 4), aligned(1), may_alias));
typedef std::int16_t HalfH __attribute__((vector_size(QR_ISA_BYTES / 2), aligned(2), may_alias));
typedef std::uint16_t HalfHU __attribute__((vector_size(QR_ISA_BYTES / 2), aligned(2), may_alias));

QR_INLINE VecH load(const std::int16_t *p) noexcept { return *reinterpret_cast<const VecHUnaligned *>(p); }
QR_INLINE void store(std::int16_t *p, VecH v) noexcept { *reinterpret_cast<VecHUnaligned *>(p) = v; }
QR_INLINE VecD load(const double *p) noexcept { return *reinterpret_cast<const VecDUnaligned *>(p); }
QR_INLINE void store(double *p, VecD v) noexcept { *reinterpret_cast<VecDUnaligned *>(p) = v; }

#if defined(__AVX512F__) && QR_ISA_BYTES == 64
// (gcc 12 warns of what its own casts between widths leave undefined.)
QR_INLINE __m256i lower_half(__m512i v) noexcept { return __builtin_shufflevector(v, v, 0, 1, 2, 3); }
QR_INLINE __m256i upper_half(__m512i v) noexcept { return __builtin_shufflevector(v, v, 4, 5, 6, 7); }
QR_INLINE __m512i join(__m256i low, __m256i high) noexcept {
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
}
#endif
// At 64 bytes conversions are written out: gcc 12 takes __builtin_convertvector apart there, element by element.

// kHalves elements as s16. u16 comes as x - 32768.
QR_INLINE VecH widen_halves(const std::int8_t *p) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecH>(_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
#elif defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecH>(
      _mm512_maskz_cvtepi8_epi16(~__mmask32{}, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p))));
#else
  return __builtin_convertvector(*reinterpret_cast<const HalfB *>(p), VecH);
#endif
}
QR_INLINE VecH widen_halves(const std::uint8_t *p) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecH>(_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
#elif defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecH>(
      _mm512_maskz_cvtepu8_epi16(~__mmask32{}, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p))));
#else
  return __builtin_convertvector(*reinterpret_cast<const HalfBU *>(p), VecH);
#endif
}
QR_INLINE VecH widen_halves(const std::int16_t *p) noexcept { return load(p); }
QR_INLINE VecH widen_halves(const std::uint16_t *p) noexcept {
  return load(reinterpret_cast<const std::int16_t *>(p)) ^ static_cast<std::int16_t>(-32768);
}

// kLanes elements as i32.
QR_INLINE VecI widen(const std::int8_t *p) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecI>(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p))));
#elif defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecI>(
      _mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
#else
  return __builtin_convertvector(*reinterpret_cast<const QuarterB *>(p), VecI);
#endif
}
QR_INLINE VecI widen(const std::uint8_t *p) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecI>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p))));
#elif defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecI>(
      _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
#else
  return __builtin_convertvector(*reinterpret_cast<const QuarterBU *>(p), VecI);
#endif
}
QR_INLINE VecI widen(const std::int16_t *p) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecI>(_mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
#elif defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecI>(
      _mm512_maskz_cvtepi16_epi32(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p))));
#else
  return __builtin_convertvector(*reinterpret_cast<const HalfH *>(p), VecI);
#endif
}
QR_INLINE VecI widen(const std::uint16_t *p) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecI>(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
#elif defined(__AVX512F__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecI>(
      _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p))));
#else
  return __builtin_convertvector(*reinterpret_cast<const HalfHU *>(p), VecI);
#endif
}
// The first `count` elements, 0 < count < kLanes; nothing beyond them is touched.
template <class T>
QR_INLINE VecI widen_part(const T *p, int count) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  const auto mask = static_cast<__mmask16>((1u << count) - 1);
  if constexpr (sizeof(T) == 1) {
    const __m128i bytes = _mm_maskz_loadu_epi8(mask, p);
    return reinterpret_cast<VecI>(T(-1) < T(0) ? _mm512_maskz_cvtepi8_epi32(mask, bytes)
                                               : _mm512_maskz_cvtepu8_epi32(mask, bytes));
  }
#endif
  T part[kLanes] = {};
  std::memcpy(part, p, static_cast<std::size_t>(count) * sizeof(T));
  return widen(part);
}

// kLanes elements that lie in T's range.
template <class T>
QR_INLINE void narrow(T *p, VecI v) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  // With masks: gcc 12 takes the value that those without leave alone for one that is used.
  if constexpr (sizeof(T) == 1)
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm512_maskz_cvtepi32_epi8(0xffff, reinterpret_cast<__m512i>(v)));
  else
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p),
                        _mm512_maskz_cvtepi32_epi16(0xffff, reinterpret_cast<__m512i>(v)));
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  const __m128i low = _mm256_castsi256_si128(reinterpret_cast<__m256i>(v)),
                high = _mm256_extracti128_si256(reinterpret_cast<__m256i>(v), 1);
  if constexpr (sizeof(T) == 2) {
    constexpr bool is_signed = T(-1) < T(0);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p),
                     is_signed ? _mm_packs_epi32(low, high) : _mm_packus_epi32(low, high));
  } else {
    constexpr bool is_signed = T(-1) < T(0);
    const __m128i halves = _mm_packs_epi32(low, high);
    _mm_storel_epi64(reinterpret_cast<__m128i *>(p),
                     is_signed ? _mm_packs_epi16(halves, halves) : _mm_packus_epi16(halves, halves));
  }
#elif defined(__SSE2__) && QR_ISA_BYTES == 16
  constexpr bool is_signed = T(-1) < T(0);
  const __m128i wide = reinterpret_cast<__m128i>(v);
  if constexpr (sizeof(T) == 2) {
    // Without packusdw: by way of the signed range.
    const __m128i halves =
        is_signed ? _mm_packs_epi32(wide, wide)
                  : _mm_xor_si128(_mm_packs_epi32(_mm_sub_epi32(wide, _mm_set1_epi32(32768)), _mm_setzero_si128()),
                                  _mm_set1_epi16(-32768));
    _mm_storel_epi64(reinterpret_cast<__m128i *>(p), halves);
  } else {
    const __m128i halves = _mm_packs_epi32(wide, wide);
    const int bytes = _mm_cvtsi128_si32(is_signed ? _mm_packs_epi16(halves, halves) : _mm_packus_epi16(halves, halves));
    std::memcpy(p, &bytes, 4);
  }
#else
  T part[kLanes];
  for (int i = 0; i < kLanes; ++i) part[i] = static_cast<T>(v[i]);
  std::memcpy(p, part, sizeof part);
#endif
}
// 2 * kLanes elements.
template <class T>
QR_INLINE void narrow(T *p, VecI a, VecI b) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  constexpr bool is_signed = T(-1) < T(0);
  const __m256i x = reinterpret_cast<__m256i>(a), y = reinterpret_cast<__m256i>(b);
  const __m256i halves = _mm256_permute4x64_epi64(
      sizeof(T) == 1 || is_signed ? _mm256_packs_epi32(x, y) : _mm256_packus_epi32(x, y), 0xd8);
  if constexpr (sizeof(T) == 2) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), halves);
  } else {
    const __m128i low = _mm256_castsi256_si128(halves), high = _mm256_extracti128_si256(halves, 1);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p),
                     is_signed ? _mm_packs_epi16(low, high) : _mm_packus_epi16(low, high));
  }
#else
  narrow(p, a);
  narrow(p + kLanes, b);
#endif
}
template <class T>
QR_INLINE void narrow_part(T *p, VecI v, int count) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  const auto mask = static_cast<__mmask16>((1u << count) - 1);
  if constexpr (sizeof(T) == 1) return _mm512_mask_cvtepi32_storeu_epi8(p, mask, reinterpret_cast<__m512i>(v));
  else return _mm512_mask_cvtepi32_storeu_epi16(p, mask, reinterpret_cast<__m512i>(v));
#endif
  T part[kLanes];
  narrow(part, v);
  std::memcpy(p, part, static_cast<std::size_t>(count) * sizeof(T));
}

// Where vectors have 64 bytes, a row of up to four of them becomes bytes by saturating packs.
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
inline constexpr bool kPacksRows = true;
// d + zero of the first V as bytes of T's sign, where it saturates, neither below `low` nor above `high`; within each
// 16 bytes four of each vector.
template <class T, int V>
QR_INLINE VecB pack_bytes(const VecI (&d)[V], VecH zero, VecH low, VecH high) noexcept {
  const auto halves = [&](VecI a, VecI b) __attribute__((always_inline)) {
    const __m512i sum = _mm512_maskz_adds_epi16(
        ~__mmask32{},
        _mm512_maskz_packs_epi32(~__mmask32{}, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)),
        reinterpret_cast<__m512i>(zero));
    return _mm512_maskz_max_epi16(~__mmask32{},
                                  _mm512_maskz_min_epi16(~__mmask32{}, sum, reinterpret_cast<__m512i>(high)),
                                  reinterpret_cast<__m512i>(low));
  };
  const __m512i a = halves(d[0], d[V > 1 ? 1 : 0]), b = V > 2 ? halves(d[V > 2 ? 2 : 0], d[V - 1]) : a;
  return reinterpret_cast<VecB>(T(-1) < T(0) ? _mm512_maskz_packs_epi16(~__mmask64{}, a, b)
                                             : _mm512_maskz_packus_epi16(~__mmask64{}, a, b));
}
// The same of u8 where that is all.
template <int V>
QR_INLINE VecB pack_bytes(const VecI (&d)[V]) noexcept {
  const auto halves = [&](VecI a, VecI b) __attribute__((always_inline)) {
    return _mm512_maskz_packs_epi32(~__mmask32{}, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b));
  };
  const __m512i a = halves(d[0], d[V > 1 ? 1 : 0]), b = V > 2 ? halves(d[V > 2 ? 2 : 0], d[V - 1]) : a;
  return reinterpret_cast<VecB>(_mm512_maskz_packus_epi16(~__mmask64{}, a, b));
}
// The first vector's bytes, then the second's.
QR_INLINE VecB in_order(VecB packed) noexcept {
  constexpr VecI kOrder{0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  return reinterpret_cast<VecB>(
      _mm512_maskz_permutexvar_epi32(0xffff, reinterpret_cast<__m512i>(kOrder), reinterpret_cast<__m512i>(packed)));
}
// The order before that: what interleave_four() makes of it is the first vector's, then the second's.
QR_INLINE VecB for_pack(VecB bytes) noexcept {
  constexpr VecI kOrder{0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};  // its own inverse
  return reinterpret_cast<VecB>(
      _mm512_maskz_permutexvar_epi32(0xffff, reinterpret_cast<__m512i>(kOrder), reinterpret_cast<__m512i>(bytes)));
}
using ByteMask = std::uint64_t;
QR_INLINE ByteMask first_bytes(std::int64_t count) noexcept {
  return count >= 64 ? ~ByteMask{} : (ByteMask{1} << count) - 1;
}
QR_INLINE VecB load_bytes(const void *p, ByteMask mask) noexcept {
  return reinterpret_cast<VecB>(_mm512_maskz_loadu_epi8(mask, p));
}
QR_INLINE void store_bytes(void *p, ByteMask mask, VecB v) noexcept {
  _mm512_mask_storeu_epi8(p, mask, reinterpret_cast<__m512i>(v));
}
using HalfMask = std::uint32_t;
QR_INLINE HalfMask first_halves(std::int64_t count) noexcept {
  return count <= 0 ? 0 : count >= 32 ? ~HalfMask{} : (HalfMask{1} << count) - 1;
}
QR_INLINE void store_halves(void *p, HalfMask mask, VecH v) noexcept {
  _mm512_mask_storeu_epi16(p, mask, reinterpret_cast<__m512i>(v));
}
// Sixteen u16 of which the mask's are there.
QR_INLINE VecI widen_unsigned(const void *p, HalfMask mask) noexcept {
  return reinterpret_cast<VecI>(
      _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_maskz_loadu_epi16(static_cast<__mmask16>(mask), p)));
}
QR_INLINE VecH load_halves(const void *p, HalfMask mask) noexcept {
  return reinterpret_cast<VecH>(_mm512_maskz_loadu_epi16(mask, p));
}
// a0 b0 a1 b1 ... within each 16 bytes, of which each result has four in turn.
QR_INLINE void interleave_two(VecH a, VecH b, VecH (&to)[2]) noexcept {
  const auto x = reinterpret_cast<__m512i>(a), y = reinterpret_cast<__m512i>(b);
  to[0] = reinterpret_cast<VecH>(_mm512_maskz_unpacklo_epi16(~__mmask32{}, x, y));
  to[1] = reinterpret_cast<VecH>(_mm512_maskz_unpackhi_epi16(~__mmask32{}, x, y));
}
// As s16 where they saturate, neither below `low` nor above `high`; within each 16 bytes four of a, then four of b:
// what interleave_two() took apart.
QR_INLINE VecH pack_in_order(VecI a, VecI b, VecH low, VecH high) noexcept {
  const __m512i packed =
      _mm512_maskz_packs_epi32(~__mmask32{}, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b));
  return reinterpret_cast<VecH>(_mm512_maskz_max_epi16(
      ~__mmask32{}, _mm512_maskz_min_epi16(~__mmask32{}, packed, reinterpret_cast<__m512i>(high)),
      reinterpret_cast<__m512i>(low)));
}
// The same, a before b.
QR_INLINE VecH pack_halves(VecI a, VecI b, VecH low, VecH high) noexcept {
  constexpr long long kOrder __attribute__((vector_size(64))){0, 2, 4, 6, 1, 3, 5, 7};
  return reinterpret_cast<VecH>(_mm512_maskz_permutexvar_epi64(
      0xff, reinterpret_cast<__m512i>(kOrder), reinterpret_cast<__m512i>(pack_in_order(a, b, low, high))));
}
// 32 bytes from each of two places, of which `mask` has those that are there.
QR_INLINE VecB load_halves(const void *low, const void *high, ByteMask mask) noexcept {
  const auto half = [&](const void *p) __attribute__((always_inline)) {
    return static_cast<std::uint32_t>(mask) == ~std::uint32_t{}
               ? _mm256_loadu_si256(static_cast<const __m256i *>(p))
               : _mm256_maskz_loadu_epi8(static_cast<__mmask32>(mask), p);
  };
  return reinterpret_cast<VecB>(join(half(low), half(high)));
}
QR_INLINE void store_halves(void *low, void *high, ByteMask mask, VecB v) noexcept {
  const auto bytes = reinterpret_cast<__m512i>(v);
  _mm256_mask_storeu_epi8(low, static_cast<__mmask32>(mask), lower_half(bytes));
  _mm256_mask_storeu_epi8(high, static_cast<__mmask32>(mask), upper_half(bytes));
}
// a0 b0 c0 d0 a1 b1 c1 d1 ... within each 16 bytes, of which each result has four in turn.
QR_INLINE void interleave_four(VecB a, VecB b, VecB c, VecB d, VecB (&to)[4]) noexcept {
  const auto w = [](VecB v) __attribute__((always_inline)) { return reinterpret_cast<__m512i>(v); };
  const __m512i ab0 = _mm512_maskz_unpacklo_epi8(~__mmask64{}, w(a), w(b)),
                ab1 = _mm512_maskz_unpackhi_epi8(~__mmask64{}, w(a), w(b)),
                cd0 = _mm512_maskz_unpacklo_epi8(~__mmask64{}, w(c), w(d)),
                cd1 = _mm512_maskz_unpackhi_epi8(~__mmask64{}, w(c), w(d));
  to[0] = reinterpret_cast<VecB>(_mm512_maskz_unpacklo_epi16(~__mmask32{}, ab0, cd0));
  to[1] = reinterpret_cast<VecB>(_mm512_maskz_unpackhi_epi16(~__mmask32{}, ab0, cd0));
  to[2] = reinterpret_cast<VecB>(_mm512_maskz_unpacklo_epi16(~__mmask32{}, ab1, cd1));
  to[3] = reinterpret_cast<VecB>(_mm512_maskz_unpackhi_epi16(~__mmask32{}, ab1, cd1));
}
#else
inline constexpr bool kPacksRows = false;
#endif

// Of each pair: a0 * b0 + a1 * b1, plus c. Wraps around.
QR_INLINE VecI add_pairs(VecI c, VecH a, VecH b) noexcept {
#if defined(__AVX512VNNI__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecI>(
      _mm512_dpwssd_epi32(reinterpret_cast<__m512i>(c), reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecI>(_mm256_add_epi32(
      reinterpret_cast<__m256i>(c), _mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b))));
#elif defined(__SSE2__) && QR_ISA_BYTES == 16
  return reinterpret_cast<VecI>(_mm_add_epi32(
      reinterpret_cast<__m128i>(c), _mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b))));
#elif defined(__aarch64__) && QR_ISA_BYTES == 16
  const int16x8_t x = reinterpret_cast<int16x8_t>(a), y = reinterpret_cast<int16x8_t>(b);
  return reinterpret_cast<VecI>(vaddq_s32(
      reinterpret_cast<int32x4_t>(c), vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y))));
#else
  for (int i = 0; i < kLanes; ++i)
    c[i] =
        static_cast<std::int32_t>(static_cast<std::uint32_t>(c[i]) + static_cast<std::uint32_t>(a[2 * i] * b[2 * i]) +
                                  static_cast<std::uint32_t>(a[2 * i + 1] * b[2 * i + 1]));
  return c;
#endif
}
// Of each four bytes: sum of a * b, plus c; a is unsigned unless kDotSigned, b is signed.
QR_INLINE VecI add_quads(VecI c, VecB a, VecB b) noexcept {
#if defined(__AVX512VNNI__) && QR_ISA_BYTES == 64
  return reinterpret_cast<VecI>(
      _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(c), reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__ARM_FEATURE_DOTPROD) && QR_ISA_BYTES == 16
  return reinterpret_cast<VecI>(
      vdotq_s32(reinterpret_cast<int32x4_t>(c), reinterpret_cast<int8x16_t>(a), reinterpret_cast<int8x16_t>(b)));
#else
  for (int i = 0; i < 4 * kLanes; ++i) c[i / 4] += (kDotSigned ? a[i] : static_cast<std::uint8_t>(a[i])) * b[i];
  return c;
#endif
}

// a0 b0 a1 b1 ...: the first half of the pairs, and the second.
QR_INLINE void zip(VecH a, VecH b, VecH *low, VecH *high) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  const __m256i x = reinterpret_cast<__m256i>(a), y = reinterpret_cast<__m256i>(b);
  const __m256i even = _mm256_unpacklo_epi16(x, y), odd = _mm256_unpackhi_epi16(x, y);
  *low = reinterpret_cast<VecH>(_mm256_permute2x128_si256(even, odd, 0x20));
  *high = reinterpret_cast<VecH>(_mm256_permute2x128_si256(even, odd, 0x31));
#elif QR_ISA_BYTES == 64
  *low = __builtin_shufflevector(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9, 41, 10, 42, 11,
                                 43, 12, 44, 13, 45, 14, 46, 15, 47);
  *high = __builtin_shufflevector(a, b, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24, 56, 25, 57,
                                  26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
#elif QR_ISA_BYTES == 16
  *low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  *high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  QR_UNROLL for (int i = 0; i < kHalves; ++i) {
    VecH &to = i < kHalves / 2 ? *low : *high;
    to[2 * i % kHalves] = a[i], to[2 * i % kHalves + 1] = b[i];
  }
#endif
}
// Lanes [0, kLanes / 2) and the rest.
QR_INLINE VecD double_low(VecI v) noexcept {
  VecD r{};
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  r = reinterpret_cast<VecD>(_mm256_cvtepi32_pd(_mm256_castsi256_si128(reinterpret_cast<__m256i>(v))));
#elif defined(__AVX512F__) && QR_ISA_BYTES == 64
  r = reinterpret_cast<VecD>(_mm512_maskz_cvtepi32_pd(0xff, lower_half(reinterpret_cast<__m512i>(v))));
#else
  for (int i = 0; i < kLanes / 2; ++i) r[i] = v[i];
#endif
  return r;
}
QR_INLINE VecD double_high(VecI v) noexcept {
  VecD r{};
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  r = reinterpret_cast<VecD>(_mm256_cvtepi32_pd(_mm256_extracti128_si256(reinterpret_cast<__m256i>(v), 1)));
#elif defined(__AVX512F__) && QR_ISA_BYTES == 64
  r = reinterpret_cast<VecD>(_mm512_maskz_cvtepi32_pd(0xff, upper_half(reinterpret_cast<__m512i>(v))));
#else
  for (int i = 0; i < kLanes / 2; ++i) r[i] = v[i + kLanes / 2];
#endif
  return r;
}
QR_INLINE VecF to_float(VecD low, VecD high) noexcept {
#if defined(__AVX2__) && QR_ISA_BYTES == 32
  return reinterpret_cast<VecF>(_mm256_set_m128(_mm256_cvtpd_ps(reinterpret_cast<__m256d>(high)),
                                                _mm256_cvtpd_ps(reinterpret_cast<__m256d>(low))));
#elif defined(__AVX512F__) && QR_ISA_BYTES == 64
  const auto half = [](VecD v) __attribute__((always_inline)) {
    return reinterpret_cast<__m256i>(_mm512_maskz_cvtpd_ps(0xff, reinterpret_cast<__m512d>(v)));
  };
  return reinterpret_cast<VecF>(join(half(low), half(high)));
#else
  VecF r{};
  for (int i = 0; i < kLanes / 2; ++i)
    r[i] = static_cast<float>(low[i]), r[i + kLanes / 2] = static_cast<float>(high[i]);
  return r;
#endif
}

// Calls body(const T *) or the like with the type of a dtype.
template <class Body>
QR_INLINE void with_dtype(std::uint32_t dtype, Body &&body) noexcept {
  switch (dtype) {
    case kU8: return body(std::uint8_t{});
    case kI8: return body(std::int8_t{});
    case kU16: return body(std::uint16_t{});
    default: return body(std::int16_t{});
  }
}

// Code for widths instead of types: bytes are unsigned and halves signed, which is what every instruction set packs
// best; those of the other sign are turned by their upper bit, and zero points and bounds move along by as much.
QR_INLINE std::int32_t stored_flip(std::uint32_t dtype) noexcept {
  return dtype == kI8 ? 128 : dtype == kU16 ? -32768 : 0;
}
// Stores the first `count` lanes, which are turned already, as bytes or as halves.
QR_INLINE void put_stored(void *y, bool bytes, VecI v, int count) noexcept {
  if (bytes) {
    if (count == kLanes) narrow(static_cast<std::uint8_t *>(y), v);
    else narrow_part(static_cast<std::uint8_t *>(y), v, count);
  } else {
    if (count == kLanes) narrow(static_cast<std::int16_t *>(y), v);
    else narrow_part(static_cast<std::int16_t *>(y), v, count);
  }
}

}  // namespace quarry::kernels::QR_ISA
