// SPDX-License-Identifier: Apache-2.0
// What the planner's tables of a Resize hold for each output row or column.
#pragma once

#include "kernels/cpu/vector/vec.h"

namespace quarry::kernels::QR_ISA {

struct Tap {
  std::int32_t low, high;
  float weight;  // of high
};
// Tables come from files: indices are brought inside.
QR_INLINE Tap tap_at(const std::byte *table, std::int64_t index, std::int32_t size) noexcept {
  Tap tap;
  std::memcpy(&tap, table + index * 12, 12);
  tap.low = max_of(0, min_of(tap.low, size - 1));
  tap.high = max_of(0, min_of(tap.high, size - 1));
  return tap;
}

}  // namespace quarry::kernels::QR_ISA
