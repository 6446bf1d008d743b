// SPDX-License-Identifier: Apache-2.0
// An activation of floats side by side (elementwise_f32.cpp), for kernels whose numbers become floats on the way.
#pragma once

#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

// y may be x.
void activate_array(const Activation &act, const float *x, float *y, std::int64_t count) noexcept;

}  // namespace quarry::kernels::QR_ISA
