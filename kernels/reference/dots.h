// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace quarry::reference {

// out[i] = sum over k of rows[i * stride + k] * vector[k], in double and in the order of k. Four rows go side by side,
// so that their sums do not wait for each other; each comes out as it would alone.
template <class T, class V>
void dots(const T *rows, std::int64_t stride, std::int64_t count, const V *vector, std::int64_t depth,
          double *out) noexcept {
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const T *row = rows + i * stride;
    double sum[4] = {};
    for (std::int64_t k = 0; k < depth; ++k) {
      for (int r = 0; r < 4; ++r) sum[r] += static_cast<double>(row[r * stride + k]) * static_cast<double>(vector[k]);
    }
    for (int r = 0; r < 4; ++r) out[i + r] = sum[r];
  }
  for (; i < count; ++i) {
    double sum = 0;
    for (std::int64_t k = 0; k < depth; ++k)
      sum += static_cast<double>(rows[i * stride + k]) * static_cast<double>(vector[k]);
    out[i] = sum;
  }
}

}  // namespace quarry::reference
