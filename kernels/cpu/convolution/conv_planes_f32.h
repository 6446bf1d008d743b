// SPDX-License-Identifier: Apache-2.0
// ConvF32 where x and y lie in planes.
#pragma once

#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

void run_conv_planes(const Call &call) noexcept;

}  // namespace quarry::kernels::QR_ISA
