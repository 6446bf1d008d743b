// SPDX-License-Identifier: Apache-2.0
// Numbers of any type, of the kinds that ranking and choosing have to do with.
#pragma once

#include <cmath>

#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

enum class Kind { Random, Few, Equal, Rising, Falling, Count };

template <class T>
std::vector<T> elements(Kind kind, std::size_t count, Random &random) {
  std::vector<T> x(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = static_cast<double>(i);
    switch (kind) {
      case Kind::Random:
        if constexpr (std::is_floating_point_v<T>) x[i] = static_cast<T>(random.real(-9, 9));
        else x[i] = static_cast<T>(random.bits() >> 7);
        break;
      case Kind::Few: x[i] = static_cast<T>(random.integer(0, 3)); break;
      case Kind::Rising: x[i] = static_cast<T>(std::fmod(place, 3000)); break;
      case Kind::Falling: x[i] = static_cast<T>(std::fmod(3000 - std::fmod(place, 3000), 250)); break;
      default: x[i] = T{5}; break;
    }
  }
  if constexpr (std::is_floating_point_v<T>) {
    constexpr double kEdges[] = {std::numeric_limits<double>::quiet_NaN(),
                                 std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 -0.0,
                                 0.0,
                                 1e-40};
    if (kind == Kind::Few || kind == Kind::Random)
      for (T &v : x)
        if (random.integer(0, 60) == 0) v = static_cast<T>(kEdges[random.integer(0, 5)]);
    if (kind == Kind::Equal)
      for (std::size_t i = 0; i < count; i += 3) x[i] = static_cast<T>(-0.0), x[(i + 1) % count] = 0;
  } else {
    if (count > 20) x[3] = x[19] = std::numeric_limits<T>::min(), x[11] = std::numeric_limits<T>::max();
  }
  return x;
}

// body(T{}, dtype) for f32, f64 and integers of 8 to 64 bits.
template <class Body>
void each_number(Body &&body) {
  body(float{}, DType::F32);
  body(double{}, DType::F64);
  body(std::int8_t{}, DType::I8);
  body(std::uint8_t{}, DType::U8);
  body(std::int16_t{}, DType::I16);
  body(std::uint16_t{}, DType::U16);
  body(std::int32_t{}, DType::I32);
  body(std::uint32_t{}, DType::U32);
  body(std::int64_t{}, DType::I64);
  body(std::uint64_t{}, DType::U64);
}

}  // namespace quarry::kernel_test
