// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu_features.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
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
  __builtin_cpu_init();
#define QR_FEATURE(name) add(__builtin_cpu_supports(name), name)
  QR_FEATURE("sse4.1");
  QR_FEATURE("sse4.2");
  QR_FEATURE("avx");
  QR_FEATURE("f16c");
  QR_FEATURE("fma");
  QR_FEATURE("avx2");
  QR_FEATURE("avx512f");
  QR_FEATURE("avx512bw");
  QR_FEATURE("avx512vl");
  QR_FEATURE("avx512vnni");
  QR_FEATURE("avx512bf16");
#undef QR_FEATURE
#elif defined(__aarch64__)
  const unsigned long one = getauxval(AT_HWCAP), two = getauxval(AT_HWCAP2);
  add(one & HWCAP_ASIMD, "neon");
  add(one & HWCAP_ASIMDHP, "fp16");
  add(one & HWCAP_ASIMDDP, "dotprod");
  add(one & HWCAP_SVE, "sve");
  add(two & HWCAP2_I8MM, "i8mm");
  add(two & HWCAP2_BF16, "bf16");
#else
  add(false, "");
#endif
  return words;
}

}  // namespace quarry
