// SPDX-License-Identifier: Apache-2.0
// Tensors as rows along an axis, and the types whose rows have loops of their own.
#pragma once

#include "kernels/reference/kernels.h"
#include "kernels/reference/tensors.h"

namespace quarry::reference {

// dispatch() over the types that have loops of their own here.
template <class F>
bool dispatch_ordered(DType dtype, F &&body) {
  return dispatch<float, double, std::uint8_t, std::int32_t, std::int64_t>(dtype, body);
}

// Rows of a tensor along an axis: element i of row (o, j) is at (o * dimension + i) * inner + j.
struct AxisRows {
  std::int64_t outer, extent, inner;
  AxisRows(const View &view, std::size_t axis)
      : outer(product(view.dims, 0, axis)), extent(view.dims[axis]), inner(product(view.dims, axis + 1, view.rank)) {}
};

}  // namespace quarry::reference
