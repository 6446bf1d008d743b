// SPDX-License-Identifier: Apache-2.0
#include "quantize/ranges/clipped_range.h"

#include <algorithm>
#include <cmath>

namespace quarry::quantize {

namespace {

// Of numbers of at most 22 bits, in a way that vectors have.
float nearest(float value) noexcept {
  constexpr float kWhole = 12582912;  // 3 * 2^22: numbers from there on have no fraction
  return (value + kWhole) - kWhole;
}

}  // namespace

Range clipped_range(std::span<const float> values, const Grid &grid) {
  Range all{0, 0};
  for (const float value : values)
    if (std::isfinite(value))
      all = {std::min(all.low, static_cast<double>(value)), std::max(all.high, static_cast<double>(value))};
  all = widened(all, grid.symmetric);
  const auto error = [&](const Range &range) {
    const Encoding encoding = encode(range, grid);
    const Range reached = covered(encoding);
    const float scale = encoding.scale, low = static_cast<float>(reached.low), high = static_cast<float>(reached.high);
    float sum = 0;
    double total = 0;
    std::size_t in_sum = 0;
    for (const float value : values) {
      const float clipped = value < low ? low : value > high ? high : value;
      const float miss = nearest(clipped / scale) * scale - value;
      sum += miss * miss;
      if (++in_sum == 1024) total += static_cast<double>(sum), sum = 0, in_sum = 0;
    }
    return total + static_cast<double>(sum);
  };
  Range best = all;
  double least = error(all);
  const auto consider = [&](const Range &range) {
    if (const double found = error(range); found < least) least = found, best = range;
  };
  // Few bits gain by clipping a good deal, many hardly any.
  constexpr int kSteps = 60;
  for (int i = 1; i < kSteps; ++i) {
    const double part = 1 - 0.012 * i;
    consider({all.low * part, all.high * part});
  }
  if (!grid.symmetric)
    for (const bool upper : {true, false}) {
      const Range from = best;
      for (int i = 1; i < 20; ++i) {
        const double part = 1 - 0.02 * i;
        consider(upper ? Range{from.low, from.high * part} : Range{from.low * part, from.high});
      }
    }
  return best;
}

}  // namespace quarry::quantize
