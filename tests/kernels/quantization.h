// SPDX-License-Identifier: Apache-2.0
// What the tests of integer kernels share: stored integers, layouts, quantisation, and how far a result may be off.
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

using namespace kernels;

inline constexpr std::uint32_t kU8 = 2, kI8 = 3, kU16 = 4, kI16 = 5;
inline std::int32_t low_of(std::uint32_t dtype) { return dtype == kI8 ? -128 : dtype == kI16 ? -32768 : 0; }
inline std::int32_t high_of(std::uint32_t dtype) {
  return dtype == kU8 ? 255 : dtype == kI8 ? 127 : dtype == kU16 ? 65535 : 32767;
}
inline std::size_t width_of(std::uint32_t dtype) { return dtype >= kU16 ? 2 : 1; }

inline std::int32_t get(const Bytes &bytes, std::uint32_t dtype, std::size_t index) {
  const auto *at = bytes.data() + index * width_of(dtype);
  std::uint16_t half = 0;
  std::memcpy(&half, at, width_of(dtype));
  return dtype == kI8 ? static_cast<std::int8_t>(half) : dtype == kI16 ? static_cast<std::int16_t>(half) : half;
}
inline void set(Bytes &bytes, std::uint32_t dtype, std::size_t index, std::int32_t value) {
  const auto half = static_cast<std::uint16_t>(value);
  std::memcpy(bytes.data() + index * width_of(dtype), &half, width_of(dtype));
}
inline Bytes random_ints(Random &random, std::uint32_t dtype, std::size_t count) {
  Bytes bytes(count * width_of(dtype));
  for (std::size_t i = 0; i < count; ++i)
    set(bytes, dtype, i, static_cast<std::int32_t>(random.integer(low_of(dtype), high_of(dtype))));
  return bytes;
}

// n x h x w pixels of c channels, `stride` apart -> dense NCHW, and back into `to`.
inline Bytes to_nchw(const Bytes &from, std::int64_t n, std::int64_t pixels, std::int64_t c, std::int64_t stride,
                     std::size_t width) {
  Bytes to(static_cast<std::size_t>(n * pixels * c) * width);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t p = 0; p < pixels; ++p)
      for (std::int64_t k = 0; k < c; ++k)
        std::memcpy(to.data() + static_cast<std::size_t>((i * c + k) * pixels + p) * width,
                    from.data() + static_cast<std::size_t>((i * pixels + p) * stride + k) * width, width);
  return to;
}
inline Bytes to_nhwc(const Bytes &from, std::int64_t n, std::int64_t pixels, std::int64_t c, std::int64_t stride,
                     std::size_t width, Bytes to) {
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t p = 0; p < pixels; ++p)
      for (std::int64_t k = 0; k < c; ++k)
        std::memcpy(to.data() + static_cast<std::size_t>((i * pixels + p) * stride + k) * width,
                    from.data() + static_cast<std::size_t>((i * c + k) * pixels + p) * width, width);
  return to;
}

inline qir::Quantization quant_of(const Quant &q) {
  qir::Quantization quant;
  quant.scales.push_back(q.scale);
  quant.zero_points.push_back(q.zero);
  return quant;
}
inline Quant quant(std::uint32_t dtype, std::int32_t zero, float scale) { return {dtype, zero, scale, 0}; }
// A zero point inside the type's range, away from the middle.
inline Quant some_quant(std::uint32_t dtype, float scale) {
  const std::int32_t zero = dtype == kU8 ? 117 : dtype == kI8 ? -9 : dtype == kU16 ? 30011 : 1203;
  return quant(dtype, zero, scale);
}

// Every element of y: within one of expected, and but few of them off at all.
inline constexpr double kOffLimit = 0.002;
inline void expect_quanta(const std::string &what, const Bytes &found, const Bytes &expected, std::uint32_t dtype,
                          double off_limit = kOffLimit) {
  if (found.size() != expected.size()) throw std::runtime_error(what + ": sizes differ");
  std::size_t off = 0;
  const std::size_t count = found.size() / width_of(dtype);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t f = get(found, dtype, i), e = get(expected, dtype, i);
    if (std::abs(f - e) > 1)
      throw std::runtime_error(what + ": element " + std::to_string(i) + ": found " + std::to_string(f) +
                               ", expected " + std::to_string(e));
    off += f != e;
  }
  if (static_cast<double>(off) > 2 + off_limit * static_cast<double>(count))
    throw std::runtime_error(what + ": " + std::to_string(off) + " of " + std::to_string(count) + " are off by one");
}

inline constexpr std::uint32_t kAll[] = {kU8, kI8, kU16, kI16};

inline Tensor tensor_of(const Quant &q, std::vector<std::int64_t> shape, Bytes data) {
  return {static_cast<DType>(q.dtype), std::move(shape), std::move(data), quant_of(q)};
}
inline Bytes reference_quantised(const qir::Node &node, const std::vector<Tensor> &inputs, const Quant &y) {
  const std::vector<reference::OutputType> types{{static_cast<DType>(y.dtype), quant_of(y)}};
  return reference(node, inputs, &types)[0].data;
}

}  // namespace quarry::kernel_test
