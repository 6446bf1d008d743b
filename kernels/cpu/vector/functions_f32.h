// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/vector/vec.h"

namespace quarry::kernels::QR_ISA {

// y[i] = op(x[i]), of the operators on f32 alone.
void function_row(ElementOp op, float a, float b, const float *x, float *y, std::int64_t count) noexcept;

}  // namespace quarry::kernels::QR_ISA
