// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/processor/x86_features.h"

#include <cpuid.h>

namespace quarry::kernels {

namespace {

X86Features look_up() noexcept {
  X86Features found;
  const auto all = [](unsigned word, unsigned bits) { return (word & bits) == bits; };
  unsigned a = 0, b = 0, c = 0, d = 0;
  __cpuid(1, a, b, c, d);
  if (!all(c, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C | bit_MOVBE | bit_SSE4_2 | bit_POPCNT)) return found;
  unsigned saved = 0, high = 0;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  constexpr unsigned kYmm = 6, kZmm = 0xe6, kTiles = 3u << 17;  // (their configuration, their data)
  if (!all(saved, kYmm)) return found;
  // Whatever has OSXSAVE has leaves up to 13.
  __cpuid_count(7, 0, a, b, c, d);
  constexpr unsigned kV4 = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
  constexpr unsigned kVbmi = 1u << 1, kVnni = 1u << 11;                                         // of c
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24, kAmxInt8 = 1u << 25;             // of d
  const bool v3 = all(b, bit_AVX2 | bit_BMI | bit_BMI2), v4 = all(b, kV4) && all(saved, kZmm);  // but for LZCNT
  const bool vnni = all(c, kVnni), vbmi = all(c, kVbmi);
  const bool tiles = all(d, kAmxBf16 | kAmxTile | kAmxInt8) && all(saved, kTiles);
  bool bf16 = false;
  if (tiles && a >= 1) {
    constexpr unsigned kBf16 = 1u << 5;
    __cpuid_count(7, 1, a, b, c, d);
    bf16 = all(a, kBf16);
  }
  __cpuid(0x80000001u, a, b, c, d);
  found.v3 = v3 && all(c, bit_LZCNT);
  found.avx512 = found.v3 && v4 && vnni;
  found.vbmi = found.avx512 && vbmi;
  found.amx = found.avx512 && bf16 && tiles;
  return found;
}

}  // namespace

const X86Features &x86_features() noexcept {
  static const X86Features found = look_up();
  return found;
}

}  // namespace quarry::kernels
