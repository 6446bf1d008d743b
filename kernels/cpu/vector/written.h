// SPDX-License-Identifier: Apache-2.0
// Functions that are computed as graph/ops/functions.inc writes them, of vectors of f32 and f64. Included behind the
// functions of those vectors, which the expressions call: written_<operator><t>(a, p, q), t being the type of a number.
#pragma once

#include "kernels/cpu/vector/vec.h"

namespace quarry::kernels::QR_ISA {

// OpenCL C's names.
template <class V>
QR_INLINE V fabs(V x) noexcept {
  return abs(x);
}
template <class V>
QR_INLINE V rint(V x) noexcept {
  return round(x);
}

#define QR_EXPRESSION(op, p_name, p_value, q_name, q_value, range, types, expression)                   \
  template <class t, class V>                                                                           \
  QR_INLINE V written_##op([[maybe_unused]] V a, [[maybe_unused]] V p, [[maybe_unused]] V q) noexcept { \
    return expression;                                                                                  \
  }
#include "graph/ops/functions.inc"

}  // namespace quarry::kernels::QR_ISA
