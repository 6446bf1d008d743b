// SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cpu/processor/amx.h"
#include "kernels/cpu/processor/x86_features.h"

namespace quarry::kernels {

bool amx_processor() noexcept { return x86_features().amx; }

// Refused by kernels before 5.16, by filters of system calls, and where a thread has a stack for signals that is too
// small for the state.
bool amx_permission() noexcept {
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

}  // namespace quarry::kernels
