// SPDX-License-Identifier: Apache-2.0
#include "quantize/ranges/noise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/real/real.h"
#include "graph/ops/quantization.h"

namespace quarry::quantize {
namespace {

// Of `count` values spread evenly from `low` to `high`.
Moments evenly(double count, double low, double high) {
  return {count, count * (low + high) / 2, count * (low * low + low * high + high * high) / 3};
}

Moments plus(const Moments &a, const Moments &b) { return {a.count + b.count, a.sum + b.sum, a.squares + b.squares}; }
Moments minus(const Moments &a, const Moments &b) { return {a.count - b.count, a.sum - b.sum, a.squares - b.squares}; }

// The sum of (x - value)^2.
double error(const Moments &of, double value) {
  return std::max(0.0, of.squares - 2 * value * of.sum + value * value * of.count);
}

}  // namespace

NoiseModel::NoiseModel(const Tally &tally) {
  // Bins that lie beyond the extremes end there: a tensor of one value has no spread.
  if (tally.size() == 0) return;
  origin_ = tally.edge(0), width_ = tally.width();
  below_.assign(tally.size() + 1, {});
  for (std::size_t i = 0; i < tally.size(); ++i)
    below_[i + 1] = plus(below_[i], evenly(static_cast<double>(tally[i]), tally.edge(i), tally.edge(i + 1)));
}

Moments NoiseModel::below(double value) const {
  const double place = (value - origin_) / width_;
  if (!(place > 0)) return {};
  if (place >= static_cast<double>(below_.size() - 1)) return below_.back();
  const auto bin = static_cast<std::size_t>(place);
  const double edge = origin_ + static_cast<double>(bin) * width_;
  const double count = below_[bin + 1].count - below_[bin].count;
  return plus(below_[bin], evenly(count * (place - static_cast<double>(bin)), edge, value));
}

Noise NoiseModel::noise(const Encoding &encoding) const {
  Noise noise;
  if (below_.empty()) return noise;
  const qir::IntegerRange stored = integers_of(encoding);
  const double step = static_cast<double>(encoding.scale);
  const auto real = [&](std::int64_t integer) { return static_cast<double>(integer - encoding.zero_point) * step; };
  const double low = real(stored.low), high = real(stored.high);
  const Moments left = below(low - step / 2), right = below(high + step / 2), all = below_.back();
  noise.clipped = left.count + (all.count - right.count);
  noise.clipping = error(left, low) + error(minus(all, right), high);
  if (step < width_) {  // many integers in a bin: the mean of the square over a step
    noise.rounding = (right.count - left.count) * step * step / 12;
    return noise;
  }
  // From the integer of the first bin to that of the last one.
  const double first = std::nearbyint(origin_ / step),
               last = std::nearbyint((origin_ + width_ * static_cast<double>(below_.size() - 1)) / step);
  const auto from = std::max(stored.low, static_cast<std::int64_t>(std::max(first, -1e6)) + encoding.zero_point);
  const auto to = std::min(stored.high, static_cast<std::int64_t>(std::min(last, 1e6)) + encoding.zero_point);
  Moments before = left;
  for (std::int64_t integer = from; integer <= to; ++integer) {
    const Moments behind = below(real(integer) + step / 2);
    noise.rounding += error(minus(behind, before), real(integer));
    before = behind;
  }
  return noise;
}

double NoiseModel::sqnr(const Encoding &encoding) const {
  const double error = noise(encoding).total();
  if (error <= 0 || signal() <= 0) return std::numeric_limits<double>::infinity();
  return 10 * real::log10(signal() / error);
}

}  // namespace quarry::quantize
