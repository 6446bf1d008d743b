// SPDX-License-Identifier: Apache-2.0
// f64 and whole numbers of 32 and 64 bits. Integers are exact; of f64 each test says its bounds (rtol, atol).
#pragma once

#include <cmath>
#include <limits>

#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

inline constexpr double kDoubleNan = std::numeric_limits<double>::quiet_NaN(),
                        kDoubleInf = std::numeric_limits<double>::infinity();

inline void expect_near(const std::string &what, const Bytes &found, const Bytes &expected, double rtol, double atol) {
  const auto a = values_of<double>(found), b = values_of<double>(expected);
  if (a.size() != b.size()) throw std::runtime_error(what + ": another number of results");
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (std::fabs(a[i] - b[i]) <= atol + rtol * std::fabs(b[i])) continue;
    throw std::runtime_error(what + ": place " + std::to_string(i) + ": found " + std::to_string(a[i]) + ", expected " +
                             std::to_string(b[i]) + " (they differ by " + std::to_string((a[i] - b[i]) / b[i] * 1e15) +
                             "e-15)");
  }
}
inline std::vector<double> doubles(Random &random, std::size_t count, float range) {
  std::vector<double> x(count);
  for (double &v : x) {
    constexpr double kEdges[] = {0,           -0.0, 1,      -1,     kDoubleNan, kDoubleInf,
                                 -kDoubleInf, 2.5,  5e-324, 1e-310, -0.5,       4503599627370497.5};
    // All bits of a double, not only those that an f32 has.
    v = static_cast<double>(random.real(-range, range)) * (1 + static_cast<double>(random.real(0, 1)) * 1e-8);
    if (random.integer(0, 19) == 0) v = kEdges[random.integer(0, 11)];
  }
  return x;
}
inline Tensor tensor_as(DType dtype, Dims shape, Bytes data) { return {dtype, std::move(shape), std::move(data), {}}; }

template <class T>
Bytes integers(std::size_t count, Random &random) {
  std::vector<T> values(count);
  for (T &v : values) {
    constexpr T kEdges[] = {0, 1, static_cast<T>(-1), std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), 7};
    v = random.integer(0, 9) == 0 ? kEdges[random.integer(0, 5)] : static_cast<T>(random.bits());
  }
  return bytes_of(values);
}
inline Bytes numbers(DType dtype, std::size_t count, Random &random) {
  switch (dtype) {
    case DType::I8: return integers<std::int8_t>(count, random);
    case DType::U8: return integers<std::uint8_t>(count, random);
    case DType::I32: return integers<std::int32_t>(count, random);
    case DType::U32: return integers<std::uint32_t>(count, random);
    case DType::I64: return integers<std::int64_t>(count, random);
    case DType::U64: return integers<std::uint64_t>(count, random);
    default: break;
  }
  std::vector<double> x(count);
  for (double &v : x) v = static_cast<double>(random.real(-1, 1)) * 1.000000001;
  return bytes_of(x);
}

}  // namespace quarry::kernel_test
