// SPDX-License-Identifier: Apache-2.0
// What an operator on elements takes and gives: for check, lowering and kernel.
#pragma once

#include "backends/common/kernels/params.h"
#include "base/dtype.h"

namespace quarry::kernels {

[[maybe_unused]] static constexpr int operands_of(ElementOp op) noexcept {
  return op == ElementOp::Select || op == ElementOp::MulAdd ? 3 : op < ElementOp::Select ? 2 : 1;
}
[[maybe_unused]] static constexpr bool gives_truth(ElementOp op) noexcept {
  return (op >= ElementOp::Equal && op < ElementOp::Select) || op == ElementOp::Not || op == ElementOp::IsNan ||
         op == ElementOp::IsInf;
}
// Operators of whole bytes do not ask what they mean: dtypes of one width are one.
[[maybe_unused]] static constexpr bool takes(ElementOp op, DType dtype) noexcept {
  const bool real = dtype == DType::F32 || dtype == DType::F64;
  const bool whole = dtype == DType::I8 || dtype == DType::U8 || dtype == DType::I16 || dtype == DType::U16 ||
                     dtype == DType::I32 || dtype == DType::U32 || dtype == DType::I64 || dtype == DType::U64;
  switch (op) {
    case ElementOp::Select: return whole;  // by width
    case ElementOp::And:
    case ElementOp::Or:
    case ElementOp::Xor:
    case ElementOp::Not: return dtype == DType::Bool;
    case ElementOp::BitAnd:
    case ElementOp::BitOr:
    case ElementOp::BitXor:
    case ElementOp::BitNot:
    case ElementOp::ShiftLeft:
    case ElementOp::ShiftRight: return whole;
    case ElementOp::IsNan:
    case ElementOp::IsInf: return real;
    case ElementOp::Count: return false;
    default: return op >= ElementOp::Softsign ? dtype == DType::F32 : real || whole;
  }
}

}  // namespace quarry::kernels
