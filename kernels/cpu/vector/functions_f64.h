// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/vector/vec.h"

namespace quarry::kernels::QR_ISA {

// y = op(x) of the functions from Softsign on that f64 has (elements_shape.h), side by side.
void function_row(ElementOp op, double a, double b, const double *x, double *y, std::int64_t count) noexcept;

}  // namespace quarry::kernels::QR_ISA
