// SPDX-License-Identifier: Apache-2.0
#include "backends/common/kernels/isa/kernels.h"

namespace quarry::kernels::QR_ISA {

void run_ResizeF32(const Call &) {}

}  // namespace quarry::kernels::QR_ISA
