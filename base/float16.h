// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and the smaller floats: f16, bf16, the four f8 types, f4e2m1 and f8e8m0. Widening is exact;
// narrowing rounds to nearest, ties to even. One generic routine on bit patterns serves all IEEE-like types; f16 and
// bf16 have quick paths of their own.
#pragma once

#include <bit>
#include <cstdint>

namespace quarry {

inline constexpr float kLargestF16 = 65504;

inline float bf16_to_f32(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t f32_to_bf16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40u;  // keeps a NaN one, and quiet
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

inline float f16_to_f32(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7fffu) << 13;
  // Moving the exponent by multiplication also normalises subnormals, exactly.
  const std::uint32_t scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const std::uint32_t bits = (half & 0x7c00u) == 0x7c00u ? magnitude | 0x7f800000u : scaled;
  return std::bit_cast<float>(bits | sign);
}

inline std::uint16_t f32_to_f16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((bits >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {  // subnormal: an addition aligns the mantissa and rounds it
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u));
  }
  const std::uint32_t rebased = magnitude - 0x38000000u;
  return static_cast<std::uint16_t>(sign | ((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13));
}

// What an 8- or 4-bit float looks like.
struct SmallFloat {
  int exponent_bits, mantissa_bits, bias;
  std::uint32_t max_magnitude;  // bits of the largest finite value
  std::uint32_t infinity;       // bits; 0: has none
  std::uint32_t nan;            // bits; 0: has none
  bool nan_is_minus_zero;       // the "uz" types: 0x80 is NaN and there is no -0
  std::uint32_t sign_bit;
};
inline constexpr SmallFloat kF8E4M3FN{4, 3, 7, 0x7e, 0, 0x7f, false, 0x80};
inline constexpr SmallFloat kF8E4M3FNUZ{4, 3, 8, 0x7f, 0, 0x80, true, 0x80};
inline constexpr SmallFloat kF8E5M2{5, 2, 15, 0x7b, 0x7c, 0x7f, false, 0x80};
inline constexpr SmallFloat kF8E5M2FNUZ{5, 2, 16, 0x7f, 0, 0x80, true, 0x80};
inline constexpr SmallFloat kF4E2M1{2, 1, 1, 0x7, 0, 0, false, 0x8};

inline float small_to_f32(const SmallFloat &type, std::uint8_t bits) noexcept {
  const std::uint32_t magnitude = bits & (type.sign_bit - 1u);
  const std::uint32_t sign = bits & type.sign_bit ? 0x80000000u : 0u;
  if (type.nan_is_minus_zero ? bits == 0x80u
                             : type.nan != 0 && magnitude > (type.infinity ? type.infinity : type.max_magnitude))
    return std::bit_cast<float>(0x7fc00000u);
  if (type.infinity != 0 && magnitude == type.infinity) return std::bit_cast<float>(sign | 0x7f800000u);
  const std::uint32_t mantissa = magnitude & ((1u << type.mantissa_bits) - 1u);
  const int exponent = static_cast<int>(magnitude >> type.mantissa_bits);
  // Either 1.mantissa * 2^(exponent - bias) or 0.mantissa * 2^(1 - bias); both are exact in f32.
  const float significand = static_cast<float>(exponent ? mantissa | (1u << type.mantissa_bits) : mantissa);
  const int power = (exponent ? exponent : 1) - type.bias - type.mantissa_bits;
  const float result = significand * std::bit_cast<float>(static_cast<std::uint32_t>(power + 127) << 23);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(result) | sign);
}

// saturate: what is too large becomes the largest finite value; otherwise infinity, or NaN where the type has no
// infinity. f4e2m1 always saturates, and takes NaN as -0, as ONNX's tests do.
inline std::uint8_t f32_to_small(const SmallFloat &type, float value, bool saturate) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 31 ? type.sign_bit : 0u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    if (type.nan == 0) return static_cast<std::uint8_t>(type.sign_bit);
    return static_cast<std::uint8_t>(type.nan_is_minus_zero ? type.nan : type.nan | sign);
  }
  std::uint32_t result = type.max_magnitude + 1;
  if (magnitude < 0x7f800000u) {
    // The value as an integer multiple of the smallest step at its exponent, rounded; a carry runs into the exponent by
    // itself.
    int exponent = static_cast<int>(magnitude >> 23) - 127 + type.bias;
    const std::uint32_t mantissa = (magnitude >> 23 ? 0x800000u : 0u) | (magnitude & 0x7fffffu);
    int shift = 23 - type.mantissa_bits;
    if (exponent < 1) {
      shift += 1 - exponent;
      exponent = 1;
    }
    std::uint32_t steps = 0;
    if (shift < 32) {
      steps = mantissa >> shift;
      const std::uint32_t rest = mantissa & ((1u << shift) - 1u), half = 1u << (shift - 1);
      if (rest > half || (rest == half && (steps & 1u))) ++steps;
    }
    const std::uint32_t wide = steps + (static_cast<std::uint32_t>(exponent - 1) << type.mantissa_bits);
    if (wide <= type.max_magnitude) result = wide;
  }
  if (result > type.max_magnitude) {
    if (saturate || type.nan == 0) result = type.max_magnitude;
    else if (type.infinity != 0) result = type.infinity;
    else return static_cast<std::uint8_t>(type.nan_is_minus_zero ? type.nan : type.nan | sign);
  }
  if (result == 0 && type.nan_is_minus_zero) return 0;
  return static_cast<std::uint8_t>(result | sign);
}

// f8e8m0 holds powers of two from 2^-127 to 2^127; 255 is NaN.
inline float e8m0_to_f32(std::uint8_t bits) noexcept {
  if (bits == 255) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(bits == 0 ? 0x00400000u : static_cast<std::uint32_t>(bits) << 23);
}

enum class E8M0Round : std::uint8_t { Up, Down, Nearest };

inline std::uint8_t f32_to_e8m0(float value, E8M0Round round, bool saturate) noexcept {
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
  if (magnitude > 0x7f800000u || (magnitude == 0x7f800000u && !saturate)) return 255;
  if (magnitude == 0x7f800000u) return 254;
  std::uint32_t exponent = magnitude >> 23;
  const std::uint32_t mantissa = magnitude & 0x7fffffu;
  if (exponent == 0) {  // below 2^-126: in units of 2^-127, which is mantissa 0x400000
    if (round == E8M0Round::Down) return 0;
    return mantissa > (round == E8M0Round::Up ? 0x400000u : 0x5fffffu) ? 1 : 0;
  }
  if (round == E8M0Round::Up ? mantissa != 0 : round == E8M0Round::Nearest && mantissa >= 0x400000u) ++exponent;
  if (exponent == 255) return saturate ? 254 : 255;
  return static_cast<std::uint8_t>(exponent);
}

}  // namespace quarry
