// SPDX-License-Identifier: Apache-2.0
// How elements are gathered from large tables.
#pragma once

#include "kernels/cpu/params.h"

namespace quarry::kernels {

inline constexpr std::int64_t kGatherNear = 256 << 10;  // bytes of the table that are read at a time

// Columns that are copied together before elements are picked from them, or 0 where elements are picked from the table
// as it lies. The rows of a wide table are powers of two apart more often than not: then few sets of a cache hold them
// all, and each is on a page of its own.
[[maybe_unused]] static inline std::int64_t gathered_columns(const GatherElements &p) noexcept {
  constexpr std::int64_t kLine = 64;
  if (p.rows < 1 || p.rows > kGatherNear / kLine || p.rows / 4 > p.count) return 0;
  const std::int64_t columns = kGatherNear / p.width / p.rows / kLine * kLine;
  return columns > 0 && p.inner / 4 >= columns ? columns : 0;
}

}  // namespace quarry::kernels
