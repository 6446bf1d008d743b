// SPDX-License-Identifier: Apache-2.0
// Conversions between dtypes: a chunk is read as f32, f64, i32, i64 or u64, whichever holds the source exactly, and
// written from that.
#include "base/dtype.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

constexpr int kChunk = 512;
constexpr std::uint64_t kGrain = 32768;

// Memory that may lie anywhere (template arguments lose the attributes of a typedef, so a struct).
template <class T>
struct __attribute__((packed, may_alias)) Loose {
  T value;
};
template <class T>
QR_INLINE T get(const std::byte *p, std::int64_t i) noexcept {
  return reinterpret_cast<const Loose<T> *>(p)[i].value;
}
template <class T>
QR_INLINE void put(std::byte *p, std::int64_t i, T value) noexcept {
  reinterpret_cast<Loose<T> *>(p)[i].value = value;
}

QR_INLINE float f16_to_f32(std::uint32_t half) noexcept {
  const std::uint32_t sign = (half & 0x8000u) << 16, magnitude = (half & 0x7fffu) << 13;
  // Moving the exponent by multiplication also normalises subnormals, exactly.
  const auto scaled = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude) * 0x1p112f);
  return __builtin_bit_cast(float, ((half & 0x7c00u) == 0x7c00u ? magnitude | 0x7f800000u : scaled) | sign);
}
QR_INLINE std::uint16_t f32_to_f16(float value) noexcept {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu, rebased = magnitude - 0x38000000u;
  std::uint32_t half = (rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13;
  // Subnormal: an addition aligns the mantissa and rounds it.
  if (magnitude < 0x38800000u)
    half = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000u;
  if (magnitude >= 0x477ff000u) half = 0x7c00u;
  if (magnitude > 0x7f800000u) half = 0x7e00u | ((bits >> 13) & 0x3ffu);
  return static_cast<std::uint16_t>(half | sign);
}
QR_INLINE std::uint16_t f32_to_bf16(float value) noexcept {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, nan = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

// Several vectors are read before one is written: what waits for memory waits for them together.
constexpr int kTogether = 4;
template <int width, class One>
QR_INLINE std::int64_t in_vectors(std::int64_t count, One &&one) noexcept {
  std::int64_t i = 0;
  for (; i + kTogether * width <= count; i += kTogether * width) {
    decltype(one.load(i)) v[kTogether];
    QR_UNROLL for (int k = 0; k < kTogether; ++k) v[k] = one.load(i + k * width);
    QR_UNROLL for (int k = 0; k < kTogether; ++k) one.store(i + k * width, v[k]);
  }
  for (; i + width <= count; i += width) one.store(i, one.load(i));
  return i;
}
#if defined(__F16C__)
struct WidenF16 {
  const std::byte *from;
  float *to;
  __attribute__((always_inline)) __m256 load(std::int64_t i) const noexcept {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from + 2 * i)));
  }
  __attribute__((always_inline)) void store(std::int64_t i, __m256 v) const noexcept { _mm256_storeu_ps(to + i, v); }
};
struct NarrowF16 {
  const float *from;
  std::byte *to;
  __attribute__((always_inline)) __m128i load(std::int64_t i) const noexcept {
    return _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  __attribute__((always_inline)) void store(std::int64_t i, __m128i v) const noexcept {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + 2 * i), v);
  }
};
constexpr int kF16Vector = 8;
#elif defined(__aarch64__)
struct WidenF16 {
  const std::byte *from;
  float *to;
  __attribute__((always_inline)) float32x4_t load(std::int64_t i) const noexcept {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(reinterpret_cast<const std::uint8_t *>(from + 2 * i))));
  }
  __attribute__((always_inline)) void store(std::int64_t i, float32x4_t v) const noexcept { vst1q_f32(to + i, v); }
};
struct NarrowF16 {
  const float *from;
  std::byte *to;
  __attribute__((always_inline)) uint8x8_t load(std::int64_t i) const noexcept {
    return vreinterpret_u8_f16(vcvt_f16_f32(vld1q_f32(from + i)));
  }
  __attribute__((always_inline)) void store(std::int64_t i, uint8x8_t v) const noexcept {
    vst1_u8(reinterpret_cast<std::uint8_t *>(to + 2 * i), v);
  }
};
constexpr int kF16Vector = 4;
#endif

void widen_f16(const std::byte *from, float *to, std::int64_t count) noexcept {
  std::int64_t i = 0;
#if defined(__F16C__) || defined(__aarch64__)
  i = in_vectors<kF16Vector>(count, WidenF16{from, to});
#endif
  for (; i < count; ++i) to[i] = f16_to_f32(get<std::uint16_t>(from, i));
}
void narrow_f16(const float *from, std::byte *to, std::int64_t count) noexcept {
  std::int64_t i = 0;
#if defined(__F16C__) || defined(__aarch64__)
  i = in_vectors<kF16Vector>(count, NarrowF16{from, to});
#endif
  for (; i < count; ++i) put<std::uint16_t>(to, i, f32_to_f16(from[i]));
}

// Rounds to odd: what comes out can be rounded again, to a shorter type, as if it had been rounded once.
QR_INLINE float to_odd(double value) noexcept {
  const float rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) == value || value != value) return rounded;
  auto bits = __builtin_bit_cast(std::uint32_t, rounded);
  if (__builtin_fabs(static_cast<double>(rounded)) > __builtin_fabs(value)) --bits;
  return __builtin_bit_cast(float, bits | 1u);
}
// The integer part, saturated; NaN is 0. To u64, as bits, numbers from 2^63 on have them too.
QR_INLINE std::int64_t to_integer(double value, bool is_u64) noexcept {
  if (is_u64 && value >= 0x1p63) return value >= 0x1p64 ? -1 : static_cast<std::int64_t>(value - 0x1p63) ^ INT64_MIN;
  if (value != value) return 0;
  if (value >= 0x1p63) return INT64_MAX;
  return value <= -0x1p63 ? INT64_MIN : static_cast<std::int64_t>(value);
}

template <class From, class To>
QR_INLINE void convert(const std::byte *from, To *to, int count) noexcept {
  for (int i = 0; i < count; ++i) to[i] = static_cast<To>(get<From>(from, i));
}
// Integers lose their higher bits.
template <class From>
bool store_integers(const From *from, DType dtype, std::byte *to, int count) noexcept {
  const auto convert_to = [&]<class To>(To) __attribute__((always_inline)) {
    for (int i = 0; i < count; ++i) put<To>(to, i, static_cast<To>(from[i]));
  };
  switch (dtype) {
    case DType::I8:
    case DType::U8: convert_to(std::uint8_t{}); return true;
    case DType::I16:
    case DType::U16: convert_to(std::uint16_t{}); return true;
    case DType::I32:
    case DType::U32: convert_to(std::uint32_t{}); return true;
    case DType::I64:
    case DType::U64: convert_to(std::uint64_t{}); return true;
    default: return false;
  }
}
// Integer parts that an i32 (or i64) holds. What processors make of others, NaN among them, is one end of the type (or,
// of NaN, 0, as it has to be): false where an end came out.
template <class To, class From>
bool to_whole(const std::byte *from, std::byte *to, int count) noexcept {
  constexpr To kMost = sizeof(To) == 4 ? To{INT32_MAX} : static_cast<To>(INT64_MAX), kLeast = -kMost - 1;
  const auto *const __restrict x = reinterpret_cast<const Loose<From> *>(from);
  auto *const __restrict y = reinterpret_cast<Loose<To> *>(to);
  To ends = 0;
  for (int i = 0; i < count; ++i) {
    const auto whole = static_cast<To>(x[i].value);
    ends |= (whole == kLeast) | (whole == kMost);
    y[i].value = whole;
  }
  return ends == 0;
}
// f32 and f64 to integers.
template <class From>
bool store_truncated(const std::byte *from, DType dtype, std::byte *to, int count) noexcept {
  if (dtype == DType::I32 || dtype == DType::U32) return to_whole<std::int32_t, From>(from, to, count);
  if (dtype == DType::I64 || dtype == DType::U64) return to_whole<std::int64_t, From>(from, to, count);
  std::int32_t values[kChunk];
  return to_whole<std::int32_t, From>(from, reinterpret_cast<std::byte *>(values), count) &&
         store_integers(values, dtype, to, count);
}
constexpr bool is_short_integer(DType dtype) noexcept {
  return dtype == DType::I32 || dtype == DType::U32 || dtype == DType::I16 || dtype == DType::U16 ||
         dtype == DType::I8 || dtype == DType::U8;
}

// As f64, rounded to odd: of 54 bits and more the lowest 11 become one that says whether any was set.
QR_INLINE double to_double_odd(std::int64_t value) noexcept {
  constexpr std::int64_t kLow = (1 << 11) - 1;
  const bool fits = static_cast<std::uint64_t>(value) + (std::uint64_t{1} << 53) <= std::uint64_t{1} << 54;
  return static_cast<double>(fits ? value : (value & ~kLow) | ((value & kLow) != 0 ? kLow + 1 : 0));
}
QR_INLINE double to_double_odd(std::uint64_t value) noexcept {
  constexpr std::uint64_t kLow = (1 << 11) - 1;
  const bool fits = value <= std::uint64_t{1} << 53;
  return static_cast<double>(fits ? value : (value & ~kLow) | ((value & kLow) != 0 ? kLow + 1 : 0));
}
template <class T>
QR_INLINE double to_double_odd(T value) noexcept {
  return static_cast<double>(value);  // exact
}

template <class From>
void store_floats(const From *from, DType dtype, std::byte *to, int count) noexcept {
  switch (dtype) {
    case DType::F32:
      for (int i = 0; i < count; ++i) put<float>(to, i, static_cast<float>(from[i]));
      return;
    case DType::F64:
      for (int i = 0; i < count; ++i) put<double>(to, i, static_cast<double>(from[i]));
      return;
    case DType::Bool:
      for (int i = 0; i < count; ++i) put<std::uint8_t>(to, i, from[i] != 0);
      return;
    default: break;
  }
  // f32 is enough for what is rounded to odd.
  float values[kChunk];
  const float *shorter = values;
  if constexpr (__is_same(From, float)) shorter = from;
  else
    for (int i = 0; i < count; ++i) values[i] = to_odd(to_double_odd(from[i]));
  if (dtype == DType::F16) narrow_f16(shorter, to, count);
  else
    for (int i = 0; i < count; ++i) put<std::uint16_t>(to, i, f32_to_bf16(shorter[i]));
}
template <class From>
__attribute__((noinline)) void store_chunk(const From *from, DType dtype, std::byte *to, int count) noexcept {
  if constexpr (__is_same(From, std::int32_t) || __is_same(From, std::int64_t) || __is_same(From, std::uint64_t)) {
    if (store_integers(from, dtype, to, count)) return;
  } else if (is_short_integer(dtype) || dtype == DType::I64 || dtype == DType::U64) {
    const auto *const bytes = reinterpret_cast<const std::byte *>(from);
    if (store_truncated<From>(bytes, dtype, to, count)) return;
    std::int64_t values[kChunk];
    for (int i = 0; i < count; ++i) values[i] = to_integer(static_cast<double>(from[i]), dtype == DType::U64);
    store_integers(values, dtype, to, count);
    return;
  }
  store_floats(from, dtype, to, count);
}

// What needs no stop in between: from and to do not overlap.
template <class From, class To, class F>
QR_INLINE void straight(const std::byte *from, std::byte *to, std::int64_t count, F f) noexcept {
  const auto *const __restrict x = reinterpret_cast<const Loose<From> *>(from);
  auto *const __restrict y = reinterpret_cast<Loose<To> *>(to);
  for (std::int64_t i = 0; i < count; ++i) y[i].value = f(x[i].value);
}
// An integer has no NaN. Of 25 bits and more the lowest 8 become one that says whether any was set, which f32 holds
// and bf16 is rounded by.
QR_INLINE std::uint16_t i32_to_bf16(std::int32_t value) noexcept {
  const std::int32_t shorter = (value & ~0xff) | ((value & 0xff) != 0 ? 0x100 : 0);
  const bool fits = static_cast<std::uint32_t>(value) + 0x1000000u <= 0x2000000u;
  const auto bits = __builtin_bit_cast(std::uint32_t, static_cast<float>(fits ? value : shorter));
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
template <class From>
bool from_short_integers(DType to_type, const std::byte *from, std::byte *to, std::int64_t count) noexcept {
  switch (to_type) {
    case DType::BF16:
      straight<From, std::uint16_t>(
          from, to, count, [](From v) __attribute__((always_inline)) { return i32_to_bf16(v); });
      return true;
    case DType::Bool:
      straight<From, std::uint8_t>(
          from, to, count, [](From v) __attribute__((always_inline)) { return static_cast<std::uint8_t>(v != 0); });
      return true;
    default: return false;
  }
}
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
// (Masks of all lanes, because gcc 12 warns of its own header's plain forms.)
struct NarrowF64 {
  const std::byte *from;
  std::byte *to;
  __attribute__((always_inline)) __m512d load(std::int64_t i) const noexcept { return _mm512_loadu_pd(from + 8 * i); }
  __attribute__((always_inline)) void store(std::int64_t i, __m512d v) const noexcept {
    _mm256_storeu_ps(reinterpret_cast<float *>(to + 4 * i), _mm512_maskz_cvtpd_ps(0xff, v));
  }
};
template <int bytes>
struct NarrowI64 {
  const std::byte *from;
  std::byte *to;
  __attribute__((always_inline)) __m512i load(std::int64_t i) const noexcept {
    return _mm512_loadu_si512(from + 8 * i);
  }
  __attribute__((always_inline)) void store(std::int64_t i, __m512i v) const noexcept {
    std::byte *const y = to + bytes * i;
    if constexpr (bytes == 4) _mm256_storeu_si256(reinterpret_cast<__m256i *>(y), _mm512_maskz_cvtepi64_epi32(0xff, v));
    else if constexpr (bytes == 2)
      _mm_storeu_si128(reinterpret_cast<__m128i *>(y), _mm512_maskz_cvtepi64_epi16(0xff, v));
    else _mm_storel_epi64(reinterpret_cast<__m128i *>(y), _mm512_maskz_cvtepi64_epi8(0xff, v));
  }
};
#endif
// To fewer bits.
void narrow_f64(const std::byte *from, std::byte *to, std::int64_t count) noexcept {
  std::int64_t done = 0;
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  done = in_vectors<8>(count, NarrowF64{from, to});
#endif
  straight<double, float>(
      from + 8 * done, to + 4 * done, count - done,
      [](double v) __attribute__((always_inline)) { return static_cast<float>(v); });
}
template <class To>
void narrow_i64(const std::byte *from, std::byte *to, std::int64_t count) noexcept {
  constexpr auto kWidth = static_cast<std::int64_t>(sizeof(To));
  std::int64_t done = 0;
#if defined(__AVX512F__) && QR_ISA_BYTES == 64
  done = in_vectors<8>(count, NarrowI64<sizeof(To)>{from, to});
#endif
  straight<std::int64_t, To>(
      from + 8 * done, to + kWidth * done, count - done,
      [](std::int64_t v) __attribute__((always_inline)) { return static_cast<To>(v); });
}
bool from_wide(DType from_type, DType to_type, const std::byte *from, std::byte *to, std::int64_t count) noexcept {
  if (from_type == DType::F64) {
    switch (to_type) {
      case DType::F32: narrow_f64(from, to, count); return true;
      case DType::Bool:
        straight<double, std::uint8_t>(
            from, to, count, [](double v) __attribute__((always_inline)) { return static_cast<std::uint8_t>(v != 0); });
        return true;
      default: return false;
    }
  }
  switch (to_type) {
    case DType::I8:
    case DType::U8: narrow_i64<std::uint8_t>(from, to, count); return true;
    case DType::I16:
    case DType::U16: narrow_i64<std::uint16_t>(from, to, count); return true;
    case DType::I32:
    case DType::U32: narrow_i64<std::int32_t>(from, to, count); return true;
    case DType::F32:
      straight<std::int64_t, float>(
          from, to, count, [](std::int64_t v) __attribute__((always_inline)) { return static_cast<float>(v); });
      return true;
    case DType::Bool:
      straight<std::int64_t, std::uint8_t>(
          from, to, count,
          [](std::int64_t v) __attribute__((always_inline)) { return static_cast<std::uint8_t>(v != 0); });
      return true;
    default: return false;
  }
}
// (By halves, whose sum is rounded once: there is no vector instruction for it.)
QR_INLINE float u32_to_f32(std::uint32_t value) noexcept {
  return static_cast<float>(static_cast<std::int32_t>(value >> 16)) * 0x1p16f +
         static_cast<float>(static_cast<std::int32_t>(value & 0xffff));
}
bool from_u32(DType to_type, const std::byte *from, std::byte *to, std::int64_t count) noexcept {
  switch (to_type) {
    case DType::F32:
      straight<std::uint32_t, float>(
          from, to, count, [](std::uint32_t v) __attribute__((always_inline)) { return u32_to_f32(v); });
      return true;
    case DType::I8:
    case DType::U8:
      straight<std::uint32_t, std::uint8_t>(
          from, to, count, [](std::uint32_t v) __attribute__((always_inline)) { return static_cast<std::uint8_t>(v); });
      return true;
    case DType::I16:
    case DType::U16:
      straight<std::uint32_t, std::uint16_t>(
          from, to, count,
          [](std::uint32_t v) __attribute__((always_inline)) { return static_cast<std::uint16_t>(v); });
      return true;
    case DType::I64:
    case DType::U64:
      straight<std::uint32_t, std::uint64_t>(
          from, to, count, [](std::uint32_t v) __attribute__((always_inline)) { return std::uint64_t{v}; });
      return true;
    case DType::Bool:
      straight<std::uint32_t, std::uint8_t>(
          from, to, count,
          [](std::uint32_t v) __attribute__((always_inline)) { return static_cast<std::uint8_t>(v != 0); });
      return true;
    default: return false;
  }
}
bool cast_straight(DType from_type, DType to_type, const std::byte *from, std::byte *to, std::int64_t count) noexcept {
  switch (from_type) {
    case DType::I8: return from_short_integers<std::int8_t>(to_type, from, to, count);
    case DType::U8: return from_short_integers<std::uint8_t>(to_type, from, to, count);
    case DType::I16: return from_short_integers<std::int16_t>(to_type, from, to, count);
    case DType::U16: return from_short_integers<std::uint16_t>(to_type, from, to, count);
    case DType::I32: return from_short_integers<std::int32_t>(to_type, from, to, count);
    case DType::U32: return from_u32(to_type, from, to, count);
    case DType::F64:
    case DType::I64: return from_wide(from_type, to_type, from, to, count);
    case DType::U64: return !is_float(to_type) && from_wide(DType::I64, to_type, from, to, count);
    default: return false;
  }
}

template <class Middle, class Load>
QR_INLINE void through(std::int64_t count, std::int64_t from_width, std::int64_t to_width, const std::byte *from,
                       DType to_type, std::byte *to, Load &&load_chunk) noexcept {
  Middle middle[kChunk];
  for (std::int64_t at = 0; at < count; at += kChunk) {
    const int n = static_cast<int>(min_of<std::int64_t>(kChunk, count - at));
    load_chunk(from + at * from_width, middle, n);
    store_chunk(middle, to_type, to + at * to_width, n);
  }
}

int width_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::F64:
    case DType::U64:
    case DType::I64: return 8;
    case DType::F32:
    case DType::U32:
    case DType::I32: return 4;
    case DType::F16:
    case DType::BF16:
    case DType::I16:
    case DType::U16: return 2;
    default: return 1;
  }
}

// What a chunk holds that is too large for i32 is seen to apart.
template <class From>
void truncate(const std::byte *from, DType to_type, std::byte *to, std::int64_t count) noexcept {
  const std::int64_t w = sizeof(From), v = width_of(to_type);
  for (std::int64_t at = 0; at < count; at += kChunk) {
    const int n = static_cast<int>(min_of<std::int64_t>(kChunk, count - at));
    if (!store_truncated<From>(from + at * w, to_type, to + at * v, n))
      through<From>(n, w, v, from + at * w, to_type, to + at * v, convert<From, From>);
  }
}

void cast(DType from_type, DType to_type, const std::byte *from, std::byte *to, std::int64_t count) noexcept {
  if (cast_straight(from_type, to_type, from, to, count)) return;
  const int w = width_of(from_type), v = width_of(to_type);
  // Without a stop in between.
  if (from_type == DType::F32 && to_type == DType::F16)
    return narrow_f16(reinterpret_cast<const float *>(from), to, count);
  if (from_type == DType::F16 && to_type == DType::F32) return widen_f16(from, reinterpret_cast<float *>(to), count);
  switch (from_type) {
    case DType::F32:
      if (is_integer(to_type)) return truncate<float>(from, to_type, to, count);
      return through<float>(count, w, v, from, to_type, to, convert<float, float>);
    case DType::F16: return through<float>(count, w, v, from, to_type, to, widen_f16);
    case DType::BF16:
      return through<float>(count, w, v, from, to_type, to, [](const std::byte *f, float *t, int n) {
        for (int i = 0; i < n; ++i)
          t[i] = __builtin_bit_cast(float, static_cast<std::uint32_t>(get<std::uint16_t>(f, i)) << 16);
      });
    case DType::F64:
      if (is_integer(to_type)) return truncate<double>(from, to_type, to, count);
      return through<double>(count, w, v, from, to_type, to, convert<double, double>);
    case DType::I64: return through<std::int64_t>(count, w, v, from, to_type, to, convert<std::int64_t, std::int64_t>);
    case DType::U64:
      return through<std::uint64_t>(count, w, v, from, to_type, to, convert<std::uint64_t, std::uint64_t>);
    case DType::U32: return through<std::int64_t>(count, w, v, from, to_type, to, convert<std::uint32_t, std::int64_t>);
    case DType::I32: return through<std::int32_t>(count, w, v, from, to_type, to, convert<std::int32_t, std::int32_t>);
    case DType::I16: return through<std::int32_t>(count, w, v, from, to_type, to, convert<std::int16_t, std::int32_t>);
    case DType::U16: return through<std::int32_t>(count, w, v, from, to_type, to, convert<std::uint16_t, std::int32_t>);
    case DType::I8: return through<std::int32_t>(count, w, v, from, to_type, to, convert<std::int8_t, std::int32_t>);
    case DType::U8: return through<std::int32_t>(count, w, v, from, to_type, to, convert<std::uint8_t, std::int32_t>);
    default:  // bool
      return through<std::int32_t>(count, w, v, from, to_type, to, [](const std::byte *f, std::int32_t *t, int n) {
        for (int i = 0; i < n; ++i) t[i] = get<std::uint8_t>(f, i) != 0;
      });
  }
}

}  // namespace

void widen_weights(WeightType type, const std::uint16_t *from, float *to, std::int64_t count) noexcept {
  if (type == WeightType::F16) return widen_f16(reinterpret_cast<const std::byte *>(from), to, count);
  for (std::int64_t i = 0; i < count; ++i) to[i] = __builtin_bit_cast(float, static_cast<std::uint32_t>(from[i]) << 16);
}

void narrow_numbers(NumberType type, const float *from, std::uint16_t *to, std::int64_t count) noexcept {
  if (type == NumberType::F16) return narrow_f16(from, reinterpret_cast<std::byte *>(to), count);
  for (std::int64_t i = 0; i < count; ++i) to[i] = f32_to_bf16(from[i]);
}

void run_Cast(const Call &call) {
  const auto &p = call.as<Cast>();
  const auto from = static_cast<DType>(p.from), to = static_cast<DType>(p.to);
  call.threads.run(static_cast<std::uint64_t>(p.count), kGrain,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     cast(from, to, call.operands[0] + begin * static_cast<std::uint64_t>(width_of(from)),
                          call.operands[1] + begin * static_cast<std::uint64_t>(width_of(to)),
                          static_cast<std::int64_t>(end - begin));
                   });
}

}  // namespace quarry::kernels::QR_ISA
