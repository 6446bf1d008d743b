// SPDX-License-Identifier: Apache-2.0
#include "quantize/weights/rounding.h"

#include <algorithm>
#include <cmath>

#include "graph/ops/quantization.h"

namespace quarry::quantize {
namespace {

double miss(float real, const Encoding &encoding, std::int32_t stored) {
  return static_cast<double>(stored - encoding.zero_point) * static_cast<double>(encoding.scale) -
         static_cast<double>(real);
}

}  // namespace

void InputMoments::add(std::span<const float> row) {
  for (std::size_t i = 0; i < terms_; ++i) first_[i] += static_cast<double>(row[i]);
  for (std::size_t i = 0; i < terms_ && !second_.empty(); ++i) {
    const auto x = static_cast<double>(row[i]);
    if (x == 0) continue;
    double *sums = second_.data() + i * terms_;
    for (std::size_t j = i; j < terms_; ++j) sums[j] += x * static_cast<double>(row[j]);
  }
  ++rows_;
}

AdaptiveRounding::AdaptiveRounding(const InputMoments &moments, bool centred)
    : terms_(moments.terms()), moments_(terms_ * terms_) {
  double mean = 0;
  for (std::size_t i = 0; i < terms_; ++i) mean += moments.second(i, i) / static_cast<double>(terms_);
  for (std::size_t i = 0; i < terms_; ++i)
    for (std::size_t j = i; j < terms_; ++j)
      moments_[i * terms_ + j] = moments_[j * terms_ + i] =
          moments.second(i, j) - (centred ? moments.mean(i) * moments.mean(j) : 0);
  // A little of the rounding of each weight by itself: the samples are not all that the model will see, and where they
  // say nothing the nearest integer is the best.
  for (std::size_t i = 0; i < terms_; ++i) moments_[i * terms_ + i] += 0.01 * mean + 1e-30;
}

double AdaptiveRounding::error(std::span<const float> real, std::span<const Encoding> encodings,
                               std::span<const std::int32_t> stored) const {
  double sum = 0;
  for (std::size_t i = 0; i < terms_; ++i) {
    const double *row = moments_.data() + i * terms_;
    double product = 0;
    for (std::size_t j = 0; j < terms_; ++j) product += row[j] * miss(real[j], encodings[j], stored[j]);
    sum += product * miss(real[i], encodings[i], stored[i]);
  }
  return sum;
}

// One weight after the other goes to the other side where that makes the error less, until none does. The error is
// e'He of the misses e, its slope 2He; a step of `by` at i changes it by 2 * by * (He)_i + by^2 * H_ii.
void AdaptiveRounding::round(std::span<const float> real, std::span<const Encoding> encodings,
                             std::span<std::int32_t> stored) const {
  constexpr int kMostSweeps = 20;
  Vector<double> slope(terms_, 0);
  Vector<std::int32_t> other(terms_);
  for (std::size_t j = 0; j < terms_; ++j) {
    const double e = miss(real[j], encodings[j], stored[j]);
    const qir::IntegerRange range = integers_of(encodings[j]);
    const std::int32_t there = e == 0 ? stored[j] : e > 0 ? stored[j] - 1 : stored[j] + 1;
    // Beyond the type there is no other side, nor for a weight that is clipped.
    const bool is_near = std::fabs(e) <= static_cast<double>(encodings[j].scale) * 0.5001;
    other[j] = is_near && there >= range.low && there <= range.high ? there : stored[j];
    if (e == 0) continue;
    const double *row = moments_.data() + j * terms_;
    for (std::size_t i = 0; i < terms_; ++i) slope[i] += row[i] * e;
  }
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool changed = false;
    for (std::size_t i = 0; i < terms_; ++i) {
      if (other[i] == stored[i]) continue;
      const double by = static_cast<double>(other[i] - stored[i]) * static_cast<double>(encodings[i].scale);
      const double *row = moments_.data() + i * terms_;
      const double change = by * (2 * slope[i] + by * row[i]);
      if (change >= -1e-12 * by * by * row[i]) continue;
      std::swap(other[i], stored[i]);
      for (std::size_t j = 0; j < terms_; ++j) slope[j] += row[j] * by;
      changed = true;
    }
    if (!changed) return;
  }
}

}  // namespace quarry::quantize
