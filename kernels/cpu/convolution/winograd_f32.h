// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

// ConvF32 whose algorithm is Winograd4x4.
void run_winograd(const Call &call) noexcept;

}  // namespace quarry::kernels::QR_ISA
