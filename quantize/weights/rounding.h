// SPDX-License-Identifier: Apache-2.0
// Adaptive rounding: each weight of a product goes up or down so that the product's results change least, and not each
// weight by itself to the nearest.
#pragma once

#include <span>

#include "quantize/ranges/grid.h"

namespace quarry::quantize {

// What the inputs of a product's terms are like: the mean of x_i * x_j over samples and positions, and of x_i.
class InputMoments {
 public:
  // `of_pairs`: also the means of products; without them there is `mean` alone.
  explicit InputMoments(std::size_t terms, bool of_pairs = true)
      : terms_(terms), second_(of_pairs ? terms * terms : 0), first_(terms) {}

  // A row: the inputs of one sum.
  void add(std::span<const float> row);
  std::size_t terms() const noexcept { return terms_; }
  std::uint64_t rows() const noexcept { return rows_; }
  double mean(std::size_t i) const noexcept { return rows_ ? first_[i] / static_cast<double>(rows_) : 0; }
  // The mean of x_i * x_j for i <= j.
  double second(std::size_t i, std::size_t j) const noexcept {
    return rows_ ? second_[i * terms_ + j] / static_cast<double>(rows_) : 0;
  }

 private:
  std::size_t terms_;
  Vector<double> second_, first_;  // sums; of the second the upper triangle
  std::uint64_t rows_ = 0;
};

class AdaptiveRounding {
 public:
  // `centred`: what rounding does to the mean of the result costs nothing (a bias takes it back).
  explicit AdaptiveRounding(const InputMoments &moments, bool centred = false);

  // `real`: the weights of one output. `encoding(i)`: of each. `stored`: the integers, to begin with those nearest to
  // the weights; changed by at most 1 to what is on the other side of the weight. The mean of the square of what
  // rounding changes about the result does not become greater.
  void round(std::span<const float> real, std::span<const Encoding> encodings, std::span<std::int32_t> stored) const;

  // The mean of the square of what these integers change about the result.
  double error(std::span<const float> real, std::span<const Encoding> encodings,
               std::span<const std::int32_t> stored) const;

 private:
  std::size_t terms_;
  Vector<double> moments_;  // the whole matrix
};

}  // namespace quarry::quantize
