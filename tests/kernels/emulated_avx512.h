// SPDX-License-Identifier: Apache-2.0
// The intrinsics of AVX-512 that the kernels use, in C, after the pseudocode of Intel's manual: with
// -Demulate_avx512=true this is included before every source of the instruction set avx512, which then runs on
// processors with AVX2. For tests alone.
#pragma once
#pragma GCC system_header

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace emulated_avx512 {

#define EMULATED __attribute__((always_inline)) inline

template <class T>
struct Lanes {
  static constexpr int kCount = 64 / sizeof(T);
  T at[kCount] = {};
  Lanes() = default;
  template <class V>
  EMULATED explicit Lanes(V v) {
    static_assert(sizeof v == 64);
    std::memcpy(at, &v, 64);
  }
  template <class V>
  EMULATED V as() const {
    V v;
    static_assert(sizeof v == 64);
    std::memcpy(&v, at, 64);
    return v;
  }
};
// Lane by lane where the mask has a bit; zero elsewhere.
template <class T, class F>
EMULATED Lanes<T> each(__mmask16 mask, F &&f) {
  Lanes<T> r;
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) r.at[i] = f(i);
  return r;
}
// The result of one instruction for each half.
template <class Half, class V, class F>
EMULATED V halves(V v, F &&f) {
  Half h[2];
  std::memcpy(h, &v, 64);
  h[0] = f(h[0]), h[1] = f(h[1]);
  std::memcpy(&v, h, 64);
  return v;
}

EMULATED __m512i dpbusd(__m512i sum, __m512i a, __m512i b) {
  const Lanes<std::uint8_t> x(a);
  const Lanes<std::int8_t> y(b);
  const Lanes<std::int32_t> s(sum);
  return each<std::int32_t>(0xffff,
                            [&](int i) {
                              std::uint32_t total = static_cast<std::uint32_t>(s.at[i]);
                              for (int j = 0; j < 4; ++j)
                                total += static_cast<std::uint32_t>(x.at[4 * i + j] * y.at[4 * i + j]);
                              return static_cast<std::int32_t>(total);
                            })
      .template as<__m512i>();
}
EMULATED __m512i dpwssd(__m512i sum, __m512i a, __m512i b) {
  const Lanes<std::int16_t> x(a), y(b);
  const Lanes<std::int32_t> s(sum);
  return each<std::int32_t>(
             0xffff,
             [&](int i) {
               return static_cast<std::int32_t>(static_cast<std::uint32_t>(s.at[i]) +
                                                static_cast<std::uint32_t>(x.at[2 * i] * y.at[2 * i]) +
                                                static_cast<std::uint32_t>(x.at[2 * i + 1] * y.at[2 * i + 1]));
             })
      .template as<__m512i>();
}
template <int Predicate>
EMULATED __mmask16 cmp_ps(__m512 a, __m512 b) {
  static_assert(Predicate == _CMP_UNORD_Q || Predicate == _CMP_NLT_UQ);
  const Lanes<float> x(a), y(b);
  unsigned mask = 0;
  for (int i = 0; i < 16; ++i) {
    const bool nan = std::isnan(x.at[i]) || std::isnan(y.at[i]);
    mask |= static_cast<unsigned>(nan || (Predicate == _CMP_NLT_UQ && !(x.at[i] < y.at[i]))) << i;
  }
  return static_cast<__mmask16>(mask);
}
EMULATED __m512 mask_mov_ps(__m512 other, __mmask16 mask, __m512 a) {
  const Lanes<float> x(a), y(other);
  return each<float>(0xffff, [&](int i) { return mask >> i & 1 ? x.at[i] : y.at[i]; }).template as<__m512>();
}
EMULATED __m512 maskz_loadu_ps(__mmask16 mask, const void *from) {
  return each<float>(mask, [&](int i) { return static_cast<const float *>(from)[i]; }).template as<__m512>();
}
EMULATED __m512 maskz_cvtph_ps(__mmask16 mask, __m256i halves) {
  Lanes<float> wide;
  _mm256_storeu_ps(wide.at, _mm256_cvtph_ps(_mm256_castsi256_si128(halves)));
  _mm256_storeu_ps(wide.at + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)));
  return each<float>(mask, [&](int i) { return wide.at[i]; }).template as<__m512>();
}
// To the nearest.
EMULATED __m256i maskz_cvtps_ph(__mmask16 mask, __m512 a) {
  const Lanes<float> x(a);
  alignas(32) std::uint16_t halves[16];
  for (int i = 0; i < 16; i += 8)
    _mm_store_si128(reinterpret_cast<__m128i *>(halves + i),
                    _mm256_cvtps_ph(_mm256_loadu_ps(x.at + i), _MM_FROUND_TO_NEAREST_INT));
  for (int i = 0; i < 16; ++i)
    if (!(mask >> i & 1)) halves[i] = 0;
  return _mm256_load_si256(reinterpret_cast<const __m256i *>(halves));
}
template <class T, class V>
EMULATED void mask_store(void *to, __mmask16 mask, V a) {
  using From = decltype(T() + T());  // i32 or f32: what is narrowed loses its upper bits
  const Lanes<From> x(a);
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) static_cast<T *>(to)[i] = static_cast<T>(x.at[i]);
}
// f64
EMULATED __m512d maskz_loadu_pd(__mmask8 mask, const void *from) {
  return each<double>(mask, [&](int i) { return static_cast<const double *>(from)[i]; }).template as<__m512d>();
}
EMULATED void mask_storeu_pd(void *to, __mmask8 mask, __m512d a) {
  const Lanes<double> x(a);
  for (int i = 0; i < 8; ++i)
    if (mask >> i & 1) static_cast<double *>(to)[i] = x.at[i];
}
EMULATED __m512d maskz_min_pd(__mmask8 mask, __m512d a, __m512d b) {
  const Lanes<double> x(a), y(b);
  return each<double>(mask, [&](int i) { return x.at[i] < y.at[i] ? x.at[i] : y.at[i]; }).as<__m512d>();
}
EMULATED __m512d maskz_max_pd(__mmask8 mask, __m512d a, __m512d b) {
  const Lanes<double> x(a), y(b);
  return each<double>(mask, [&](int i) { return x.at[i] > y.at[i] ? x.at[i] : y.at[i]; }).as<__m512d>();
}
EMULATED __m512d maskz_sqrt_pd(__mmask8 mask, __m512d a) {
  const Lanes<double> r(halves<__m256d>(a, [](__m256d h) { return _mm256_sqrt_pd(h); }));
  return each<double>(mask, [&](int i) { return r.at[i]; }).template as<__m512d>();
}
EMULATED __mmask8 test_epi64_mask(__m512i a, __m512i b) {
  const Lanes<std::int64_t> x(a), y(b);
  unsigned mask = 0;
  for (int i = 0; i < 8; ++i) mask |= static_cast<unsigned>((x.at[i] & y.at[i]) != 0) << i;
  return static_cast<__mmask8>(mask);
}
template <class T, class To>
EMULATED To maskz_narrow(__mmask16 mask, __m512i a) {
  T r[16] = {};
  mask_store<T>(r, mask, a);
  To to;
  static_assert(sizeof to == sizeof r);
  std::memcpy(&to, r, sizeof r);
  return to;
}
EMULATED __m512i maskz_cvtps_epi32(__mmask16 mask, __m512 a) {
  const Lanes<std::int32_t> r(halves<__m256>(a, [](__m256 h) { return _mm256_castsi256_ps(_mm256_cvtps_epi32(h)); }));
  return each<std::int32_t>(mask, [&](int i) { return r.at[i]; }).template as<__m512i>();
}
template <int Control>  // of whole numbers: as vroundps has it
EMULATED __m512 maskz_roundscale_ps(__mmask16 mask, __m512 a) {
  static_assert(Control >> 4 == 0);
  const Lanes<float> r(halves<__m256>(a, [](__m256 h) { return _mm256_round_ps(h, Control); }));
  return each<float>(mask, [&](int i) { return r.at[i]; }).template as<__m512>();
}
EMULATED __m512 maskz_sqrt_ps(__mmask16 mask, __m512 a) {
  const Lanes<float> r(halves<__m256>(a, [](__m256 h) { return _mm256_sqrt_ps(h); }));
  return each<float>(mask, [&](int i) { return r.at[i]; }).template as<__m512>();
}
EMULATED __m512 fmadd_ps(__m512 a, __m512 b, __m512 c) {
  const Lanes<float> x(a), y(b), z(c);
  return each<float>(0xffff, [&](int i) { return std::fma(x.at[i], y.at[i], z.at[i]); }).as<__m512>();
}
// The second operand where one is NaN, or both are zeros.
EMULATED __m512 maskz_min_ps(__mmask16 mask, __m512 a, __m512 b) {
  const Lanes<float> x(a), y(b);
  return each<float>(mask, [&](int i) { return x.at[i] < y.at[i] ? x.at[i] : y.at[i]; }).as<__m512>();
}
EMULATED __m512 maskz_max_ps(__mmask16 mask, __m512 a, __m512 b) {
  const Lanes<float> x(a), y(b);
  return each<float>(mask, [&](int i) { return x.at[i] > y.at[i] ? x.at[i] : y.at[i]; }).as<__m512>();
}
EMULATED __m512 maskz_scalef_ps(__mmask16 mask, __m512 a, __m512 b) {
  const Lanes<float> x(a), y(b);
  return each<float>(mask,
                     [&](int i) {
                       const float power = std::floor(y.at[i]);
                       if (std::isnan(x.at[i]) || std::isnan(power)) return __builtin_nanf("");
                       if (std::isinf(power)) {
                         if (power > 0)
                           return x.at[i] == 0 ? __builtin_nanf("") : std::copysign(__builtin_inff(), x.at[i]);
                         return std::isinf(x.at[i]) ? __builtin_nanf("") : std::copysign(0.0f, x.at[i]);
                       }
                       const float bounded = power < -2000 ? -2000 : power > 2000 ? 2000 : power;
                       return static_cast<float>(std::ldexp(static_cast<double>(x.at[i]), static_cast<int>(bounded)));
                     })
      .template as<__m512>();
}
EMULATED __m512d maskz_cvtps_pd(__mmask8 mask, __m256 a) {
  float x[8];
  std::memcpy(x, &a, sizeof x);
  Lanes<double> r;
  for (int i = 0; i < 8; ++i) r.at[i] = mask >> i & 1 ? static_cast<double>(x[i]) : 0;
  return r.as<__m512d>();
}
EMULATED __m512 maskz_permutexvar_ps(__mmask16 mask, __m512i index, __m512 table) {
  const Lanes<float> from(table);
  const Lanes<std::int32_t> at(index);
  return each<float>(mask, [&](int i) { return from.at[at.at[i] & 15]; }).as<__m512>();
}

// Conversions of all lanes. Loads of fewer bytes come as vectors of their own width.
template <class From, class To, class Result, class V>
EMULATED Result maskz_convert(std::uint64_t mask, V v) {
  constexpr int kCount = sizeof(Result) / sizeof(To);
  From from[sizeof v / sizeof(From)];
  To to[kCount] = {};
  std::memcpy(from, &v, sizeof v);
  for (int i = 0; i < kCount; ++i)
    if (mask >> i & 1) to[i] = static_cast<To>(from[i]);
  Result r;
  std::memcpy(&r, to, sizeof r);
  return r;
}
template <class T>
EMULATED T saturate(std::int32_t v) {
  constexpr std::int32_t low = T(-1) < T(0) ? -(1 << (8 * sizeof(T) - 1)) : 0;
  constexpr std::int32_t high = T(-1) < T(0) ? (1 << (8 * sizeof(T) - 1)) - 1 : (1 << (8 * sizeof(T))) - 1;
  return static_cast<T>(v < low ? low : v > high ? high : v);
}
// In each 16 bytes: those of a, then those of b.
template <class From, class To>
EMULATED __m512i maskz_pack(std::uint64_t mask, __m512i a, __m512i b) {
  const Lanes<From> x(a), y(b);
  Lanes<To> r;
  constexpr int kGroup = 16 / sizeof(From);
  for (int i = 0; i < Lanes<To>::kCount; ++i) {
    const int group = i / (2 * kGroup), at = i % (2 * kGroup);
    if (mask >> i & 1)
      r.at[i] = saturate<To>(at < kGroup ? x.at[group * kGroup + at] : y.at[group * kGroup + at - kGroup]);
  }
  return r.template as<__m512i>();
}
template <class T, bool High>
EMULATED __m512i maskz_unpack(std::uint64_t mask, __m512i a, __m512i b) {
  const Lanes<T> x(a), y(b);
  Lanes<T> r;
  constexpr int kGroup = 16 / sizeof(T);
  for (int i = 0; i < Lanes<T>::kCount; ++i) {
    const int from = i / kGroup * kGroup + i % kGroup / 2 + (High ? kGroup / 2 : 0);
    if (mask >> i & 1) r.at[i] = i % 2 == 0 ? x.at[from] : y.at[from];
  }
  return r.template as<__m512i>();
}
template <class T, class F>
EMULATED __m512i halves_of(std::uint64_t mask, __m512i a, __m512i b, F &&f) {
  const Lanes<T> x(a), y(b);
  Lanes<T> r;
  for (int i = 0; i < Lanes<T>::kCount; ++i)
    if (mask >> i & 1) r.at[i] = f(x.at[i], y.at[i]);
  return r.template as<__m512i>();
}
EMULATED __m512i maskz_adds_epi16(__mmask32 mask, __m512i a, __m512i b) {
  return halves_of<std::int16_t>(mask, a, b, [](int x, int y) { return saturate<std::int16_t>(x + y); });
}
EMULATED __m512i maskz_max_epi16(__mmask32 mask, __m512i a, __m512i b) {
  return halves_of<std::int16_t>(mask, a, b, [](std::int16_t x, std::int16_t y) { return x > y ? x : y; });
}
EMULATED __m512i maskz_min_epi16(__mmask32 mask, __m512i a, __m512i b) {
  return halves_of<std::int16_t>(mask, a, b, [](std::int16_t x, std::int16_t y) { return x < y ? x : y; });
}
EMULATED __m512i maskz_permutexvar_epi32(__mmask16 mask, __m512i order, __m512i a) {
  const Lanes<std::int32_t> o(order), x(a);
  return each<std::int32_t>(mask, [&](int i) { return x.at[o.at[i] & 15]; }).template as<__m512i>();
}
EMULATED __m512i maskz_permutexvar_epi64(__mmask8 mask, __m512i order, __m512i a) {
  const Lanes<std::int64_t> o(order), x(a);
  return each<std::int64_t>(mask, [&](int i) { return x.at[o.at[i] & 7]; }).template as<__m512i>();
}
template <class T, int Predicate>
EMULATED auto cmp_int(__m512i a, __m512i b) {
  static_assert(Predicate == _MM_CMPINT_NLT);
  const Lanes<T> x(a), y(b);
  unsigned mask = 0;
  for (int i = 0; i < Lanes<T>::kCount; ++i) mask |= static_cast<unsigned>(x.at[i] >= y.at[i]) << i;
  if constexpr (sizeof(T) == 4) return static_cast<__mmask16>(mask);
  else return static_cast<__mmask8>(mask);
}
template <class T>
EMULATED __m512i maskz_compress(unsigned mask, __m512i a) {
  const Lanes<T> x(a);
  Lanes<T> r;
  int to = 0;
  for (int i = 0; i < Lanes<T>::kCount; ++i)
    if (mask >> i & 1) r.at[to++] = x.at[i];
  return r.template as<__m512i>();
}
template <class V, std::size_t N = 1>  // of elements of N bytes
EMULATED V maskz_loadu(std::uint64_t mask, const void *from) {
  std::uint8_t r[sizeof(V)] = {};
  for (std::size_t i = 0; i < sizeof r; ++i)
    if (mask >> i / N & 1) r[i] = static_cast<const std::uint8_t *>(from)[i];
  V v;
  std::memcpy(&v, r, sizeof r);
  return v;
}
template <class V, std::size_t N = 1>
EMULATED void mask_storeu(void *to, std::uint64_t mask, V v) {
  std::uint8_t r[sizeof(V)];
  std::memcpy(r, &v, sizeof r);
  for (std::size_t i = 0; i < sizeof r; ++i)
    if (mask >> i / N & 1) static_cast<std::uint8_t *>(to)[i] = r[i];
}

#undef EMULATED

}  // namespace emulated_avx512

#undef _mm512_cmp_ps_mask
#undef _mm512_cmp_epi32_mask
#undef _mm512_cmp_epi64_mask
#undef _mm512_maskz_roundscale_ps
#undef _mm512_maskz_cvtps_ph
#define _mm512_dpbusd_epi32 emulated_avx512::dpbusd
#define _mm512_dpwssd_epi32 emulated_avx512::dpwssd
#define _mm512_cmp_ps_mask(a, b, predicate) emulated_avx512::cmp_ps<predicate>(a, b)
#define _mm512_cmp_epi32_mask(a, b, predicate) emulated_avx512::cmp_int<std::int32_t, predicate>(a, b)
#define _mm512_cmp_epi64_mask(a, b, predicate) emulated_avx512::cmp_int<std::int64_t, predicate>(a, b)
#define _mm512_maskz_compress_epi32 emulated_avx512::maskz_compress<std::int32_t>
#define _mm512_maskz_compress_epi64 emulated_avx512::maskz_compress<std::int64_t>
#define _mm512_mask_mov_ps emulated_avx512::mask_mov_ps
#define _mm512_maskz_cvtph_ps emulated_avx512::maskz_cvtph_ps
#define _mm512_maskz_cvtps_ph(mask, a, rounding) emulated_avx512::maskz_cvtps_ph(mask, a)
#define _mm512_maskz_loadu_ps emulated_avx512::maskz_loadu_ps
#define _mm512_mask_storeu_ps emulated_avx512::mask_store<float>
#define _mm512_mask_cvtepi32_storeu_epi8 emulated_avx512::mask_store<std::int8_t>
#define _mm512_mask_cvtepi32_storeu_epi16 emulated_avx512::mask_store<std::int16_t>
#define _mm512_maskz_cvtepi32_epi8 emulated_avx512::maskz_narrow<std::int8_t, __m128i>
#define _mm512_maskz_cvtepi32_epi16 emulated_avx512::maskz_narrow<std::int16_t, __m256i>
#define _mm512_maskz_cvtps_epi32 emulated_avx512::maskz_cvtps_epi32
#define _mm512_maskz_roundscale_ps(mask, a, control) emulated_avx512::maskz_roundscale_ps<control>(mask, a)
#define _mm512_fmadd_ps emulated_avx512::fmadd_ps
#define _mm512_maskz_sqrt_ps emulated_avx512::maskz_sqrt_ps
#define _mm512_maskz_min_ps emulated_avx512::maskz_min_ps
#define _mm512_maskz_max_ps emulated_avx512::maskz_max_ps
#define _mm512_maskz_loadu_pd emulated_avx512::maskz_loadu_pd
#define _mm512_mask_storeu_pd emulated_avx512::mask_storeu_pd
#define _mm512_maskz_min_pd emulated_avx512::maskz_min_pd
#define _mm512_maskz_max_pd emulated_avx512::maskz_max_pd
#define _mm512_maskz_sqrt_pd emulated_avx512::maskz_sqrt_pd
#define _mm512_test_epi64_mask emulated_avx512::test_epi64_mask
#define _mm512_maskz_cvtps_pd emulated_avx512::maskz_cvtps_pd
#define _mm512_maskz_permutexvar_ps emulated_avx512::maskz_permutexvar_ps
#define _mm512_maskz_scalef_ps emulated_avx512::maskz_scalef_ps
#define _mm512_maskz_cvtepi8_epi16 emulated_avx512::maskz_convert<std::int8_t, std::int16_t, __m512i>
#define _mm512_maskz_cvtepu8_epi16 emulated_avx512::maskz_convert<std::uint8_t, std::int16_t, __m512i>
#define _mm512_maskz_cvtepi8_epi32 emulated_avx512::maskz_convert<std::int8_t, std::int32_t, __m512i>
#define _mm512_maskz_cvtepu8_epi32 emulated_avx512::maskz_convert<std::uint8_t, std::int32_t, __m512i>
#define _mm512_maskz_cvtepi16_epi32 emulated_avx512::maskz_convert<std::int16_t, std::int32_t, __m512i>
#define _mm512_maskz_cvtepu16_epi32 emulated_avx512::maskz_convert<std::uint16_t, std::int32_t, __m512i>
#define _mm512_maskz_cvtepi32_pd emulated_avx512::maskz_convert<std::int32_t, double, __m512d>
#define _mm512_maskz_cvtpd_ps emulated_avx512::maskz_convert<double, float, __m256>
#define _mm512_maskz_packs_epi32 emulated_avx512::maskz_pack<std::int32_t, std::int16_t>
#define _mm512_maskz_packs_epi16 emulated_avx512::maskz_pack<std::int16_t, std::int8_t>
#define _mm512_maskz_packus_epi16 emulated_avx512::maskz_pack<std::int16_t, std::uint8_t>
#define _mm512_maskz_unpacklo_epi8 emulated_avx512::maskz_unpack<std::int8_t, false>
#define _mm512_maskz_unpackhi_epi8 emulated_avx512::maskz_unpack<std::int8_t, true>
#define _mm512_maskz_unpacklo_epi16 emulated_avx512::maskz_unpack<std::int16_t, false>
#define _mm512_maskz_unpackhi_epi16 emulated_avx512::maskz_unpack<std::int16_t, true>
#define _mm512_maskz_adds_epi16 emulated_avx512::maskz_adds_epi16
#define _mm512_maskz_min_epi16 emulated_avx512::maskz_min_epi16
#define _mm512_maskz_max_epi16 emulated_avx512::maskz_max_epi16
#define _mm512_maskz_permutexvar_epi64 emulated_avx512::maskz_permutexvar_epi64
#define _mm512_maskz_permutexvar_epi32 emulated_avx512::maskz_permutexvar_epi32
#define _mm512_maskz_loadu_epi8 emulated_avx512::maskz_loadu<__m512i>
#define _mm256_maskz_loadu_epi8 emulated_avx512::maskz_loadu<__m256i>
#define _mm_maskz_loadu_epi8 emulated_avx512::maskz_loadu<__m128i>
#define _mm512_maskz_loadu_epi16 emulated_avx512::maskz_loadu<__m512i, 2>
#define _mm256_maskz_loadu_epi16 emulated_avx512::maskz_loadu<__m256i, 2>
#define _mm512_mask_storeu_epi16 emulated_avx512::mask_storeu<__m512i, 2>
#define _mm512_mask_storeu_epi8 emulated_avx512::mask_storeu<__m512i>
#define _mm256_mask_storeu_epi8 emulated_avx512::mask_storeu<__m256i>
#define _mm256_mask_storeu_epi16 emulated_avx512::mask_storeu<__m256i, 2>

// What the sources look at. QR_EMULATED_AVX512: there are no registers of 64 bytes.
#define QR_EMULATED_AVX512 1
#define __AVX512F__ 1
#define __AVX512VNNI__ 1
