// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/program/binary_hash.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "base/hash.h"

namespace quarry::htp {

#ifdef __x86_64__
namespace {
// Not __builtin_cpu_supports: zig's runtime library lacks what it reads.
bool has_avx2() noexcept {
  unsigned eax, ebx, ecx, edx, saved;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE)) return false;
  __asm__("xgetbv" : "=a"(saved), "=d"(edx) : "c"(0));
  return (saved & 6) == 6 && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && ebx & bit_AVX2;
}
}  // namespace
#endif

std::uint64_t binary_hash(std::span<const std::uint8_t> binary) noexcept {
#ifdef __x86_64__
  if (has_avx2()) return binary_hash_avx2(binary.data(), binary.size());
#endif
  return hash64(binary.data(), binary.size());
}

}  // namespace quarry::htp
