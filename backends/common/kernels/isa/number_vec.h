// SPDX-License-Identifier: Apache-2.0
// Vectors of numbers of any type, wherever they lie.
#pragma once

#include <type_traits>

#include "backends/common/kernels/isa/vec.h"

namespace quarry::kernels::QR_ISA {

template <class T>
struct Of {
  static constexpr int kCount = kBytes / static_cast<int>(sizeof(T));
  typedef T Vec __attribute__((vector_size(QR_ISA_BYTES)));
  struct __attribute__((packed, may_alias)) Memory {
    Vec value;
  };
};
template <class T>
QR_INLINE typename Of<T>::Vec get(const T *p) noexcept {
  return reinterpret_cast<const typename Of<T>::Memory *>(p)->value;
}
template <class T>
QR_INLINE void put(T *p, typename Of<T>::Vec v) noexcept {
  reinterpret_cast<typename Of<T>::Memory *>(p)->value = v;
}

}  // namespace quarry::kernels::QR_ISA
