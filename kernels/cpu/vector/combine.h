// SPDX-License-Identifier: Apache-2.0
// One element from two, of any type that operators on elements have.
#pragma once

#include <type_traits>

#include "kernels/cpu/vector/numbers.h"

namespace quarry::kernels::QR_ISA {

// What is compiled for T: sums and products of signed integers are those of unsigned ones.
template <class T, bool wraps>
struct Wrapping {
  using Type = T;
};
template <class T>
struct Wrapping<T, true> {
  using Type = std::make_unsigned_t<T>;
};
template <ElementOp op, class T>
using CombinedAs = typename Wrapping<T, (op == ElementOp::Add || op == ElementOp::Mul) && !kReal<T>>::Type;

QR_INLINE float fmod_of(float a, float b) noexcept { return __builtin_fmodf(a, b); }
QR_INLINE double fmod_of(double a, double b) noexcept { return __builtin_fmod(a, b); }
QR_INLINE float copysign_of(float a, float b) noexcept { return __builtin_copysignf(a, b); }
QR_INLINE double copysign_of(double a, double b) noexcept { return __builtin_copysign(a, b); }

// Integers of up to 32 bits are divided as floats of more than twice as many, which vectors have a quotient of: it is
// rounded by less than what lies between a quotient and the next integer. (By zero 0 comes, and -1 is seen to apart:
// its quotient may be beyond the type.)
template <class T>
QR_INLINE T quotient(T a, T b) noexcept {
  if constexpr (sizeof(T) <= 4) {
    bool negates = false;
    if constexpr (kSigned<T>) negates = b == static_cast<T>(-1);
    const bool none = b == 0;
    const T divisor = none | negates ? T{1} : b;
    T whole;
    if constexpr (sizeof(T) < 4) whole = static_cast<T>(static_cast<float>(a) / static_cast<float>(divisor));
    else whole = static_cast<T>(static_cast<double>(a) / static_cast<double>(divisor));
    whole = negates ? static_cast<T>(T{0} - a) : whole;
    return none ? T{0} : whole;
  } else {
    if (b == 0) return 0;
    if constexpr (kSigned<T>)
      if (b == static_cast<T>(-1)) return static_cast<T>(T{0} - a);
    return static_cast<T>(a / b);
  }
}
template <class T>
QR_INLINE T remainder(T a, T b) noexcept {
  if constexpr (kReal<T>) {
    return fmod_of(a, b);
  } else if constexpr (sizeof(T) <= 4) {
    const auto product = static_cast<std::uint32_t>(quotient(a, b)) * static_cast<std::uint32_t>(b);
    return b == 0 ? T{0} : static_cast<T>(static_cast<std::uint32_t>(a) - product);
  } else {
    if (b == 0) return 0;
    if constexpr (kSigned<T>)
      if (b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
}

// a op b, of one type.
template <ElementOp op, class T>
QR_INLINE T combine(T a, T b) noexcept {
  if constexpr (op == ElementOp::Add) return static_cast<T>(a + b);
  else if constexpr (op == ElementOp::Sub) return static_cast<T>(a - b);
  else if constexpr (op == ElementOp::Mul) {
    // (Short factors become int, whose product could overflow.)
    if constexpr (kReal<T> || sizeof(T) >= 4) return a * b;
    else return static_cast<T>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b));
  } else if constexpr (op == ElementOp::Div) {
    if constexpr (kReal<T>) return a / b;
    else return quotient(a, b);
  } else if constexpr (op == ElementOp::Fmod) {
    return remainder(a, b);
  } else if constexpr (op == ElementOp::Mod) {
    const T rest = remainder(a, b);
    if (rest == 0) {
      if constexpr (kReal<T>) return copysign_of(rest, b);
      else return 0;
    }
    return (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  } else if constexpr (op == ElementOp::Min) {
    return a < b || a != a ? a : b;
  } else if constexpr (op == ElementOp::Max) {
    return a > b || a != a ? a : b;
  } else if constexpr (kReal<T>) {
    return a;
  } else if constexpr (op == ElementOp::BitAnd) {
    return static_cast<T>(a & b);
  } else if constexpr (op == ElementOp::BitOr) {
    return static_cast<T>(a | b);
  } else if constexpr (op == ElementOp::BitXor) {
    return static_cast<T>(a ^ b);
  } else if constexpr (op == ElementOp::ShiftLeft) {
    return static_cast<std::uint64_t>(b) >= sizeof(T) * 8
               ? T{0}
               : static_cast<T>(static_cast<std::uint64_t>(a) << static_cast<std::uint64_t>(b));
  } else {  // ShiftRight
    constexpr std::uint64_t kLast = sizeof(T) * 8 - 1;
    if (static_cast<std::uint64_t>(b) > kLast) return static_cast<T>(kSigned<T> && a < 0 ? -1 : 0);
    return static_cast<T>(a >> b);
  }
}

// The same of one element by itself: which of two floats is the greater nobody can foretell, so there is no branch.
template <ElementOp op, class T>
QR_INLINE T combine_one(T a, T b) noexcept {
  if constexpr (kReal<T> && (op == ElementOp::Min || op == ElementOp::Max)) {
    typedef T Lanes __attribute__((vector_size(16)));
    const Lanes x = {a}, y = {b};
    return (((op == ElementOp::Min ? x < y : x > y) | (x != x)) ? x : y)[0];
  } else {
    return combine<op, T>(a, b);
  }
}

}  // namespace quarry::kernels::QR_ISA
