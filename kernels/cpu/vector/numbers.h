// SPDX-License-Identifier: Apache-2.0
// Code for the type, or the operation, that parameters say.
#pragma once

#include "base/dtype.h"
#include "kernels/cpu/vector/vec.h"

namespace quarry::kernels::QR_ISA {

template <class T>
inline constexpr bool kReal = false;
template <>
inline constexpr bool kReal<float> = true;
template <>
inline constexpr bool kReal<double> = true;
template <class T>
inline constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);

// body(T{}) for f32, f64 and integers of 8 to 64 bits.
template <class Body>
QR_INLINE void with_number(DType dtype, Body &&body) noexcept {
  switch (dtype) {
    case DType::F32: return body(float{});
    case DType::F64: return body(double{});
    case DType::I8: return body(std::int8_t{});
    case DType::U8: return body(std::uint8_t{});
    case DType::I16: return body(std::int16_t{});
    case DType::U16: return body(std::uint16_t{});
    case DType::I32: return body(std::int32_t{});
    case DType::U32: return body(std::uint32_t{});
    case DType::I64: return body(std::int64_t{});
    default: return body(std::uint64_t{});
  }
}
// body.operator()<op>() for what scattered elements are combined by.
template <class Body>
QR_INLINE void with_combination(ElementOp op, Body &&body) noexcept {
  switch (op) {
    case ElementOp::Add: return body.template operator()<ElementOp::Add>();
    case ElementOp::Mul: return body.template operator()<ElementOp::Mul>();
    case ElementOp::Min: return body.template operator()<ElementOp::Min>();
    default: return body.template operator()<ElementOp::Max>();
  }
}

}  // namespace quarry::kernels::QR_ISA
