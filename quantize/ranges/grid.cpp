// SPDX-License-Identifier: Apache-2.0
#include "quantize/ranges/grid.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "graph/ops/quantization.h"

namespace quarry::quantize {
namespace {

// Sums of two products of 8 bits by 7 fit into 16 bits, also those of 64 as a signed number.
qir::IntegerRange in_use(DType dtype, bool reduced) noexcept {
  const qir::IntegerRange range = qir::integer_range(dtype);
  if (!reduced || dtype_bits(dtype) != 8) return range;
  return range.low < 0 ? qir::IntegerRange{-64, 64} : qir::IntegerRange{0, 127};
}

// A symmetric signed grid leaves out the lowest, and has one above the middle more where it is reduced.
qir::IntegerRange used_integers(const Grid &grid) noexcept {
  qir::IntegerRange range = in_use(grid.dtype, grid.reduced);
  if (grid.symmetric && range.low < -range.high) ++range.low;
  if (!grid.symmetric && range.low == -range.high) --range.high;
  return range;
}

}  // namespace

Range widened(Range range, bool symmetric) noexcept {
  range.low = std::min(range.low, 0.0);
  range.high = std::max(range.high, 0.0);
  if (symmetric) {
    range.high = std::max(-range.low, range.high);
    range.low = -range.high;
  }
  return range;
}

Encoding encode(Range range, const Grid &grid) noexcept {
  range = widened(range, grid.symmetric);
  const qir::IntegerRange integers = used_integers(grid);
  Encoding out;
  out.dtype = grid.dtype;
  out.reduced = grid.reduced && dtype_bits(grid.dtype) == 8;
  const double steps = static_cast<double>(integers.high - integers.low);
  double scale = (range.high - range.low) / steps;
  if (grid.symmetric) {
    // The middle of an unsigned type has one integer more below than above.
    out.zero_point = integers.low < 0 ? 0 : static_cast<std::int32_t>((integers.high + 1) / 2);
    scale = range.high / static_cast<double>(integers.high - out.zero_point);
  }
  // Reciprocals and products of scales must stay normal numbers of f32.
  if (!(scale > 0)) scale = 1;
  out.scale = static_cast<float>(std::clamp(scale, 1e-30, static_cast<double>(FLT_MAX) / 65536));
  if (!grid.symmetric) {
    const double zero = static_cast<double>(integers.low) - range.low / static_cast<double>(out.scale);
    out.zero_point = static_cast<std::int32_t>(
        std::clamp(std::nearbyint(zero), static_cast<double>(integers.low), static_cast<double>(integers.high)));
  }
  return out;
}

qir::IntegerRange integers_of(const Encoding &encoding) noexcept { return in_use(encoding.dtype, encoding.reduced); }

Range covered(const Encoding &encoding) noexcept {
  const qir::IntegerRange integers = integers_of(encoding);
  const double scale = static_cast<double>(encoding.scale);
  return {static_cast<double>(integers.low - encoding.zero_point) * scale,
          static_cast<double>(integers.high - encoding.zero_point) * scale};
}

void quantize_values(std::span<const float> values, const Encoding &encoding, std::int32_t *out) noexcept {
  const qir::IntegerRange integers = integers_of(encoding);
  if (dtype_bits(encoding.dtype) > 16) {
    for (std::size_t i = 0; i < values.size(); ++i)
      out[i] = static_cast<std::int32_t>(
          qir::quantized_value(values[i], encoding.scale, encoding.zero_point, encoding.dtype));
    return;
  }
  // In a way that compilers make vectors of: numbers from 3 * 2^22 on have no fraction, so adding that rounds.
  constexpr float kWhole = 12582912;
  const float low = static_cast<float>(integers.low - encoding.zero_point),
              high = static_cast<float>(integers.high - encoding.zero_point), scale = encoding.scale;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float quotient = values[i] / scale;
    float bounded = quotient < low ? low : quotient;
    bounded = bounded > high ? high : bounded;
    bounded = bounded == bounded ? bounded : 0.0f;  // NaN
    out[i] = static_cast<std::int32_t>((bounded + kWhole) - kWhole) + encoding.zero_point;
  }
}

double rounded(double value, const Encoding &encoding) noexcept {
  const auto stored =
      qir::quantized_value(static_cast<float>(value), encoding.scale, encoding.zero_point, encoding.dtype);
  return static_cast<double>(stored - encoding.zero_point) * static_cast<double>(encoding.scale);
}

}  // namespace quarry::quantize
