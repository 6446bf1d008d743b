// SPDX-License-Identifier: Apache-2.0
// Vectors of numbers of any type, wherever they lie.
#pragma once

#include "kernels/cpu/vector/numbers.h"

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

// Integers of the width of T: what its bits are changed by.
template <class T>
struct Bits {
  using Type = T;
};
template <>
struct Bits<float> {
  using Type = std::int32_t;
};
template <>
struct Bits<double> {
  using Type = std::int64_t;
};
template <class T>
using BitsOf = typename Bits<T>::Type;

template <class T>
QR_INLINE typename Of<T>::Vec changed(typename Of<T>::Vec v, BitsOf<T> change) noexcept {
  return reinterpret_cast<typename Of<T>::Vec>(reinterpret_cast<typename Of<BitsOf<T>>::Vec>(v) ^ change);
}
template <class T>
QR_INLINE T changed(T v, BitsOf<T> change) noexcept {
  return __builtin_bit_cast(T, static_cast<BitsOf<T>>(__builtin_bit_cast(BitsOf<T>, v) ^ change));
}
// What bits are changed by so that the greatest of integers with a sign (or floats) is the greatest, or least, of a
// type; those beyond the type say nothing.
QR_INLINE std::int64_t change_to_order(DType dtype, bool least) noexcept {
  const std::int64_t all = least ? -1 : 0;
  switch (dtype) {
    case DType::F32: return all & INT32_MIN;
    case DType::F64: return all & INT64_MIN;
    case DType::U8: return all ^ 0x80;
    case DType::U16: return all ^ 0x8000;
    case DType::U32: return all ^ INT32_MIN;
    case DType::U64: return all ^ INT64_MIN;
    default: return all;
  }
}

}  // namespace quarry::kernels::QR_ISA
