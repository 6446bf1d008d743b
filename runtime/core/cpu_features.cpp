// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include "base/os/processor.h"
#endif

namespace quarry {

String cpu_features() {
  String words;
  const auto add = [&](bool there, const char *word) {
    if (!there) return;
    if (!words.empty()) words += ' ';
    words += word;
  };
#if defined(__x86_64__)
  // Not __builtin_cpu_supports: that brings 4 kB of other processors' tables into the library.
  unsigned eax, ebx, leaf1 = 0, leaf7b = 0, leaf7c = 0, leaf7_1a = 0, edx;
  if (!__get_cpuid(1, &eax, &ebx, &leaf1, &edx)) return words;
  if (__get_cpuid_count(7, 0, &eax, &leaf7b, &leaf7c, &edx) && eax >= 1) {
    unsigned ecx;
    __get_cpuid_count(7, 1, &leaf7_1a, &ebx, &ecx, &edx);
  }
  std::uint32_t saved =
      0;  // registers that the system keeps over a change of task: bits 1 and 2 ymm, 5 to 7 zmm and masks
  if (leaf1 & bit_OSXSAVE) __asm__("xgetbv" : "=a"(saved), "=d"(edx) : "c"(0));
  const bool ymm = (saved & 6) == 6, zmm = ymm && (saved & 0xe0) == 0xe0;
  add(leaf1 & bit_SSE4_1, "sse4.1");
  add(leaf1 & bit_SSE4_2, "sse4.2");
  add(ymm && leaf1 & bit_AVX, "avx");
  add(ymm && leaf1 & bit_F16C, "f16c");
  add(ymm && leaf1 & bit_FMA, "fma");
  add(ymm && leaf7b & bit_AVX2, "avx2");
  add(ymm && leaf7_1a & bit_AVXVNNI, "avxvnni");
  add(zmm && leaf7b & bit_AVX512F, "avx512f");
  add(zmm && leaf7b & bit_AVX512BW, "avx512bw");
  add(zmm && leaf7b & bit_AVX512VL, "avx512vl");
  add(zmm && leaf7c & bit_AVX512VNNI, "avx512vnni");
  add(zmm && leaf7_1a & bit_AVX512BF16, "avx512bf16");
#elif defined(__aarch64__)
  const auto [one, two] = os::processor_features();
  add(one & os::kArmNeon, "neon");
  add(one & os::kArmNeonHalf, "fp16");
  add(one & os::kArmDotProducts, "dotprod");
  add(one & os::kArmSve, "sve");
  add(two & os::kArmSecondI8mm, "i8mm");
  add(two & os::kArmSecondBf16, "bf16");
#else
  add(false, "");
#endif
  return words;
}

}  // namespace quarry
