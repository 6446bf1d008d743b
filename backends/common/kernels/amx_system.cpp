// SPDX-License-Identifier: Apache-2.0
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/common/kernels/amx.h"

namespace quarry::kernels {

bool amx_processor() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25, kAll = kBf16 | kTile | kInt8;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kAll) != kAll) return false;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0) return false;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTiles = 3u << 17;  // their configuration, their data
  return (low & kTiles) == kTiles;
}

// Refused by kernels before 5.16, by filters of system calls, and where a thread has a stack for signals that is too
// small for the state.
bool amx_permission() noexcept {
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

}  // namespace quarry::kernels
