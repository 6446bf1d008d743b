// SPDX-License-Identifier: Apache-2.0
// What a calibration remembers of a tensor: extremes, and how often values occurred. Bins are a power of two wide and
// begin at multiples of that; where a value lies outside, bins are joined two by two. So nothing is forgotten or spread
// out, memory is the same for any number of values, and the result does not depend on the order of the values or on who
// counted which of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/alloc.h"

namespace quarry::quantize {

// From here on masks of attention mean "infinite".
inline constexpr float kInfinite = 1e30f;
// Those are no part of a range, but what lies this far below the rest is: its exponential is nothing in 16 bits.
inline constexpr float kFarBelow = 16;

// What one pass over values says of them.
struct Extremes {
  float low, high;       // the least and the greatest; NaN is passed over; of nothing: inf, -inf
  std::uint64_t beyond;  // how many are NaN or kInfinite and more, of either sign
};
Extremes extremes_of(std::span<const float> values) noexcept;

class Tally {
 public:
  // Half of them or more lie between the extremes of what was seen and 0.
  static constexpr std::size_t kBins = 4096;

  // Who must stop (base/stop.h) leaves some out.
  void add(std::span<const float> values);
  // The same where the extremes are known.
  void add(std::span<const float> values, const Extremes &extremes);
  void merge(const Tally &other);

  std::uint64_t count() const noexcept { return finite_ + nans_ + infinities_; }
  std::uint64_t finite() const noexcept { return finite_; }
  std::uint64_t nans() const noexcept { return nans_; }
  std::uint64_t infinities() const noexcept { return infinities_; }
  std::uint64_t zeros() const noexcept { return zeros_; }  // they are in no bin
  // Of the finite values; 0 where there are none.
  float min() const noexcept { return finite_ ? min_ : 0.0f; }
  float max() const noexcept { return finite_ ? max_ : 0.0f; }

  // Bin i holds the values from edge(i) to below edge(i + 1), but for zeros. None where all is 0.
  std::size_t size() const noexcept { return counts_.empty() ? 0 : kBins; }
  std::uint64_t operator[](std::size_t bin) const noexcept { return counts_[bin]; }
  double width() const noexcept;
  double edge(std::size_t bin) const noexcept {
    return (static_cast<double>(first_) + static_cast<double>(bin)) * width();
  }

  // As bytes, and back. False: they are none that `save` wrote; the tally is as it was.
  void save(Vector<std::uint8_t> &out) const;
  bool restore(std::span<const std::uint8_t> bytes);

 private:
  void add_finite(std::span<const float> values, float low, float high);
  void count_bins(std::span<const float> values);
  void make_room(float low, float high);
  void place(std::int32_t exponent, std::int32_t first);

  Vector<std::uint64_t> counts_;  // empty until something other than 0 was seen
  std::int32_t exponent_ = 0;     // bins are 2^exponent_ wide
  std::int32_t first_ = 0;        // edge(0) in bins
  float min_ = 0, max_ = 0;
  std::uint64_t finite_ = 0, nans_ = 0, infinities_ = 0, zeros_ = 0;
};

}  // namespace quarry::quantize
