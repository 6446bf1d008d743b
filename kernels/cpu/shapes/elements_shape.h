// SPDX-License-Identifier: Apache-2.0
// What an operator on elements takes and gives: for check, lowering and kernel.
#pragma once

#include "base/dtype.h"
#include "kernels/cpu/params.h"

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
  const bool half = dtype == DType::F16 || dtype == DType::BF16;  // widened first
  const bool real = dtype == DType::F32 || dtype == DType::F64 || half;
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
    case ElementOp::Equal: return real || whole || dtype == DType::Bool;
    default:
      if (op >= ElementOp::Asin && op <= ElementOp::MulAdd) return dtype == DType::F32 || half;
      return real || (op < ElementOp::Softsign && whole);
  }
}

// Of Act, what UnaryF64 has.
[[maybe_unused]] static constexpr bool takes_f64(Act act) noexcept {
  switch (act) {
    case Act::None:
    case Act::Gelu:
    case Act::GeluTanh:
    case Act::Erf:
    case Act::Rsqrt:
    case Act::Linear:
    case Act::Square: return false;
    default: return act < Act::Count;
  }
}
// Of reductions, what Reduce has.
[[maybe_unused]] static constexpr bool takes(ReduceOp op, DType dtype) noexcept {
  const bool extreme = op == ReduceOp::Max || op == ReduceOp::Min;
  switch (dtype) {
    case DType::F64: return op < ReduceOp::LogSumExp;
    case DType::I32:
    case DType::U32:
    case DType::I64:
    case DType::U64: return op < ReduceOp::LogSumExp && op != ReduceOp::Mean && op != ReduceOp::L2;
    case DType::I8:
    case DType::U8: return extreme;
    default: return false;
  }
}

// Floats that RotaryF32 takes at a time where x or y are of 16 bits: a row or some.
[[maybe_unused]] static inline std::int64_t rotary_floats(const RotaryF32 &p) noexcept {
  constexpr std::int64_t kTogether = 1024;
  return p.size > kTogether ? p.size : kTogether / p.size * p.size;
}

}  // namespace quarry::kernels
