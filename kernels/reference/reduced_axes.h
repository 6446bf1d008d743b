// SPDX-License-Identifier: Apache-2.0
// A tensor's axes in two groups: those that stay and those that are summed over (or the like).
#pragma once

#include "kernels/reference/tensors.h"

namespace quarry::reference {

// Axes in order, with the elements of the tensor between neighbours; axes that follow each other there are merged.
struct AxisGroup {
  std::size_t rank = 0;
  std::int64_t dims[qir::kMaxRank + 1] = {}, strides[qir::kMaxRank + 1] = {};

  void push(std::int64_t extent, std::int64_t stride, bool follows) noexcept {
    if (follows) {
      dims[rank - 1] *= extent;
      strides[rank - 1] = stride;
    } else {
      dims[rank] = extent;
      strides[rank++] = stride;
    }
  }
  std::int64_t count() const noexcept { return product(dims, 0, rank); }
  std::int64_t offset(std::int64_t index) const noexcept {
    std::int64_t result = 0;
    for (std::size_t i = rank; i-- > 0; index /= dims[i]) result += index % dims[i] * strides[i];
    return result;
  }
};

struct ReducedAxes {
  AxisGroup kept, gone;  // `gone` has at least one axis

  ReducedAxes(const View &x, const bool *reduced) noexcept {
    std::int64_t strides[qir::kMaxRank];
    dense_strides(x.dims, x.rank, strides);
    for (std::uint32_t i = 0; i < x.rank; ++i) {
      (reduced[i] ? gone : kept).push(x.dims[i], strides[i], i > 0 && reduced[i - 1] == reduced[i]);
    }
    if (gone.rank == 0) gone.push(1, 1, false);
  }

  // Calls row(first, step, length) for every row of the set that is index `index` of what is kept: in row-major order,
  // elements first, first + step, ...
  template <class Row>
  void for_rows(std::int64_t index, Row &&row) const {
    if (gone.count() == 0) return;
    const std::int64_t start = kept.offset(index);
    const std::size_t last = gone.rank - 1;
    for (Odometer at(gone.dims, last); !at.done(); at.next()) {
      std::int64_t first = start;
      for (std::size_t i = 0; i < last; ++i) first += at[i] * gone.strides[i];
      row(first, gone.strides[last], gone.dims[last]);
    }
  }
};

}  // namespace quarry::reference
