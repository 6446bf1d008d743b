// SPDX-License-Identifier: Apache-2.0
// Bytes looked up in a table of 256: a vector at a time where the instruction set can look bytes up in registers.
#include "kernels/cpu/vector/isa_kernels.h"
#if defined(__x86_64__)
#include "kernels/cpu/processor/x86_features.h"
#endif

namespace quarry::kernels::QR_ISA {

namespace {

// Each way returns how many bytes from the first on it has done. y may be x.
#if defined(__AVX512BW__) && QR_ISA_BYTES == 64

// Not all processors of this instruction set have these lookups.
__attribute__((target("avx512vbmi"))) std::int64_t look_up_in_registers(const std::uint8_t *table,
                                                                        const std::uint8_t *x, std::uint8_t *y,
                                                                        std::int64_t count) noexcept {
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64),
                t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
  for (std::int64_t i = 0; i < count; i += 64) {
    const std::int64_t left = count - i;
    const __mmask64 lanes = left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
    const __m512i at = _mm512_maskz_loadu_epi8(lanes, x + i);
    const __m512i low = _mm512_permutex2var_epi8(t0, at, t1), high = _mm512_permutex2var_epi8(t2, at, t3);
    _mm512_mask_storeu_epi8(y + i, lanes, _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), low, high));
  }
  return count;
}

#elif defined(__aarch64__)

std::int64_t look_up_in_registers(const std::uint8_t *table, const std::uint8_t *x, std::uint8_t *y,
                                  std::int64_t count) noexcept {
  uint8x16x4_t t[4];
  QR_UNROLL for (int q = 0; q < 4; ++q) t[q] = vld1q_u8_x4(table + q * 64);
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const uint8x16_t at = vld1q_u8(x + i);
    // An index beyond a quarter of the table leaves what was found before.
    uint8x16_t found = vqtbl4q_u8(t[0], at);
    QR_UNROLL for (int q = 1; q < 4; ++q) found =
        vqtbx4q_u8(found, t[q], vsubq_u8(at, vdupq_n_u8(static_cast<std::uint8_t>(q * 64))));
    vst1q_u8(y + i, found);
  }
  return i;
}

#endif

#if defined(__AVX2__) && QR_ISA_BYTES >= 32

#if QR_ISA_BYTES == 64
using Bytes = __m512i;
QR_INLINE Bytes read(const void *p) noexcept { return _mm512_loadu_si512(p); }
QR_INLINE void write(void *p, Bytes v) noexcept { _mm512_storeu_si512(p, v); }
QR_INLINE Bytes all(int v) noexcept { return _mm512_set1_epi8(static_cast<char>(v)); }
QR_INLINE Bytes pick(Bytes from, Bytes at) noexcept { return _mm512_shuffle_epi8(from, at); }
QR_INLINE Bytes less(Bytes a, Bytes b) noexcept { return _mm512_subs_epi8(a, b); }
QR_INLINE Bytes differ(Bytes a, Bytes b) noexcept { return _mm512_xor_si512(a, b); }
#else
using Bytes = __m256i;
QR_INLINE Bytes read(const void *p) noexcept { return _mm256_loadu_si256(static_cast<const __m256i *>(p)); }
QR_INLINE void write(void *p, Bytes v) noexcept { _mm256_storeu_si256(static_cast<__m256i *>(p), v); }
QR_INLINE Bytes all(int v) noexcept { return _mm256_set1_epi8(static_cast<char>(v)); }
QR_INLINE Bytes pick(Bytes from, Bytes at) noexcept { return _mm256_shuffle_epi8(from, at); }
QR_INLINE Bytes less(Bytes a, Bytes b) noexcept { return _mm256_subs_epi8(a, b); }
QR_INLINE Bytes differ(Bytes a, Bytes b) noexcept { return _mm256_xor_si256(a, b); }
#endif

// A shuffle finds none where an index is negative, and looks at its low four bits else. So of each half of the table,
// part k is held as what it differs by from part k - 1, and the index goes down by 16 from part to part: what is found
// until it is negative comes together to the part that is meant.
std::int64_t look_up_by_shuffles(const std::uint8_t *table, const std::uint8_t *x, std::uint8_t *y,
                                 std::int64_t count) noexcept {
  constexpr std::int64_t kBytes = sizeof(Bytes);
  if (count < 2 * kBytes) return 0;
  alignas(64) std::uint8_t parts[16][kBytes];
  for (int k = 0; k < 16; ++k)
    for (int b = 0; b < kBytes; ++b) {
      const int at = k * 16 + b % 16;
      parts[k][b] = static_cast<std::uint8_t>(k % 8 == 0 ? table[at] : table[at] ^ table[at - 16]);
    }
  const Bytes part = all(16), half = all(128);
  std::int64_t i = 0;
  for (; i + kBytes <= count; i += kBytes) {
    Bytes low = read(x + i), high = differ(low, half), found = pick(read(parts[0]), low),
          above = pick(read(parts[8]), high);
    QR_UNROLL for (int k = 1; k < 8; ++k) {
      low = less(low, part), high = less(high, part);
      found = differ(found, pick(read(parts[k]), low));
      above = differ(above, pick(read(parts[8 + k]), high));
    }
    write(y + i, differ(found, above));
  }
  return i;
}

#endif

void look_up(const std::uint8_t *table, const std::uint8_t *x, std::uint8_t *y, std::int64_t count) noexcept {
  std::int64_t i = 0;
#if defined(__AVX512BW__) && QR_ISA_BYTES == 64
  i = x86_features().vbmi ? look_up_in_registers(table, x, y, count) : look_up_by_shuffles(table, x, y, count);
#elif defined(__AVX2__) && QR_ISA_BYTES == 32
  i = look_up_by_shuffles(table, x, y, count);
#elif defined(__aarch64__)
  i = look_up_in_registers(table, x, y, count);
#endif
  for (; i + 8 <= count; i += 8) {
    std::uint64_t from, to = 0;
    std::memcpy(&from, x + i, 8);
    QR_UNROLL
    for (int b = 0; b < 64; b += 8) to |= static_cast<std::uint64_t>(table[from >> b & 255]) << b;
    std::memcpy(y + i, &to, 8);
  }
  for (; i < count; ++i) y[i] = table[x[i]];
}

// Bytes that are worth another thread's while.
#if defined(__AVX2__) || defined(__aarch64__)
constexpr std::uint64_t kGrain = 131072;
#else
constexpr std::uint64_t kGrain = 32768;
#endif

}  // namespace

void run_Lookup8(const Call &call) {
  const std::uint8_t *const x = call.operand<const std::uint8_t>(0), *const table = call.operand<const std::uint8_t>(1);
  std::uint8_t *const y = call.operand<std::uint8_t>(2);
  call.threads.run(static_cast<std::uint64_t>(call.as<Lookup8>().count), kGrain,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     look_up(table, x + begin, y + begin, static_cast<std::int64_t>(end - begin));
                   });
}

}  // namespace quarry::kernels::QR_ISA
