// SPDX-License-Identifier: Apache-2.0
// Loops over channels are compiled for whole vectors and for the first lanes of one: what reads and writes them is
// handed over as one of these; or once for both, where they take little of the time.
#pragma once

#include "kernels/cpu/vector/vec.h"

namespace quarry::kernels::QR_ISA {

struct Whole {
  static constexpr int count = kLanes;
  __attribute__((always_inline)) VecF get(const float *p) const noexcept { return load(p); }
  __attribute__((always_inline)) void put(float *p, VecF v) const noexcept { store(p, v); }
};
struct Part {
  int count;
  __attribute__((always_inline)) VecF get(const float *p) const noexcept { return load_part(p, count); }
  __attribute__((always_inline)) void put(float *p, VecF v) const noexcept { store_part(p, v, count); }
};
struct WholeOrPart {
  int count;
  __attribute__((always_inline)) VecF get(const float *p) const noexcept {
    return count == kLanes ? load(p) : load_part(p, count);
  }
  __attribute__((always_inline)) void put(float *p, VecF v) const noexcept {
    if (count == kLanes) store(p, v);
    else store_part(p, v, count);
  }
};

}  // namespace quarry::kernels::QR_ISA
