// SPDX-License-Identifier: Apache-2.0
// Loops over channels are compiled for whole vectors and for the first lanes of one: what reads and writes them is
// handed over as one of these.
#pragma once

#include "backends/common/kernels/isa/vec.h"

namespace quarry::kernels::QR_ISA {

struct Whole {
  __attribute__((always_inline)) VecF get(const float *p) const noexcept { return load(p); }
  __attribute__((always_inline)) void put(float *p, VecF v) const noexcept { store(p, v); }
};
struct Part {
  int count;
  __attribute__((always_inline)) VecF get(const float *p) const noexcept { return load_part(p, count); }
  __attribute__((always_inline)) void put(float *p, VecF v) const noexcept { store_part(p, v, count); }
};

}  // namespace quarry::kernels::QR_ISA
