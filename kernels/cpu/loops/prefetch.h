// SPDX-License-Identifier: Apache-2.0
// What will be read or written soon comes near meanwhile; an address may lie anywhere.
#pragma once

#include "kernels/cpu/vector/vec.h"

namespace quarry::kernels::QR_ISA {

QR_INLINE void prefetch_near(const void *p) noexcept { __builtin_prefetch(p, 0, 3); }
QR_INLINE void prefetch_far(const void *p) noexcept { __builtin_prefetch(p, 0, 2); }
QR_INLINE void prefetch_write(const void *p) noexcept {
#if defined(__x86_64__) && !defined(QR_EMULATED_AVX512)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char *>(p)));  // (old processors take it for nothing)
#else
  __builtin_prefetch(p, 1, 3);
#endif
}

}  // namespace quarry::kernels::QR_ISA
