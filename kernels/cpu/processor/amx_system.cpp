// SPDX-License-Identifier: Apache-2.0
#include "base/os/processor.h"
#include "kernels/cpu/processor/amx.h"
#include "kernels/cpu/processor/x86_features.h"

namespace quarry::kernels {

bool amx_processor() noexcept { return x86_features().amx; }

bool amx_permission() noexcept { return os::allow_tiles(); }

}  // namespace quarry::kernels
