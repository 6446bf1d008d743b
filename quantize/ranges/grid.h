// SPDX-License-Identifier: Apache-2.0
// What a range of real numbers becomes in integers: the one place that says how scale and zero point are made.
#pragma once

#include <span>

#include "base/dtype.h"
#include "graph/graph.h"
#include "graph/ops/quantization.h"

namespace quarry::quantize {

// Real numbers from low to high, both finite, low <= high.
struct Range {
  double low = 0, high = 0;
  friend bool operator==(const Range &, const Range &) = default;
};

// The integers that a range is laid on.
struct Grid {
  DType dtype = DType::U8;
  bool symmetric = false;  // 0 lies in the middle: zero point 0 of signed types, half the range of unsigned ones
  bool reduced = false;    // 7 of 8 bits are used
  friend bool operator==(const Grid &, const Grid &) = default;
};

// One scale and zero point: real = (stored - zero_point) * scale.
struct Encoding {
  DType dtype = DType::U8;
  float scale = 1;
  std::int32_t zero_point = 0;
  bool reduced = false;  // 7 of 8 bits are used
  friend bool operator==(const Encoding &, const Encoding &) = default;
};

// The range with 0 in it and, symmetric, with 0 in the middle.
Range widened(Range range, bool symmetric) noexcept;

// The encoding of a range (widened first). A range of no width gets a scale of 1 where it is 0, so that 0 is exact.
// Symmetric signed types leave their lowest integer out, so that -high and high are stored alike.
Encoding encode(Range range, const Grid &grid) noexcept;

// The integers that an encoding uses.
qir::IntegerRange integers_of(const Encoding &encoding) noexcept;

// The real numbers that an encoding can say: from its lowest integer to its highest.
Range covered(const Encoding &encoding) noexcept;

// Values as integers of an encoding, as qir::quantized_value has it.
void quantize_values(std::span<const float> values, const Encoding &encoding, std::int32_t *out) noexcept;

// What a value becomes: rounded to the nearest step, saturated.
double rounded(double value, const Encoding &encoding) noexcept;

}  // namespace quarry::quantize
