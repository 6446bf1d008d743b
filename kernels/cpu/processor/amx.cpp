// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/processor/amx.h"

namespace quarry::kernels {

Amx amx_state() noexcept {
  static const Amx found = !amx_processor() ? Amx::None : amx_permission() ? Amx::Usable : Amx::Refused;
  return found;
}

const char *amx_note() noexcept {
  return amx_state() == Amx::Refused ? "found a processor with AMX and a system that refuses its tiles to this process "
                                       "(arch_prctl, ARCH_REQ_XCOMP_PERM), expected its permission; avx512 is taken"
                                     : nullptr;
}

}  // namespace quarry::kernels
