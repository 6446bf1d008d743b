// SPDX-License-Identifier: Apache-2.0
// Element types by what kernels compute with them.
#pragma once

#include "base/dtype.h"

namespace quarry::kernels {

// A number that a variable of C++ holds: f32, f64 or an integer of 8 to 64 bits.
inline bool is_number(DType dtype) noexcept {
  const DTypeKind kind = dtype_kind(dtype);
  return dtype == DType::F32 || dtype == DType::F64 ||
         ((kind == DTypeKind::Signed || kind == DTypeKind::Unsigned) && dtype_bits(dtype) >= 8);
}

}  // namespace quarry::kernels
