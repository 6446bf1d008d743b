// SPDX-License-Identifier: Apache-2.0
// Values against those of the float model, summed up over samples.
#pragma once

#include <optional>
#include <span>

#include "graph/graph.h"

namespace quarry::quantize {

class Comparison {
 public:
  void add(std::span<const float> wanted, std::span<const float> found) noexcept;
  // Signal to noise in dB over all that was added; 200 where there is no difference.
  double sqnr() const noexcept;
  double cosine() const noexcept;

 private:
  double signal_ = 0, noise_ = 0, dot_ = 0, found_ = 0;
};

inline constexpr double kNoNoise = 200;  // dB: more than f32 resolves

// Scores of classes: one row, or a row for each of a batch of one.
bool is_scores(const qir::Tensor &tensor) noexcept;

// The index of the greatest element.
std::size_t greatest(std::span<const float> values) noexcept;

}  // namespace quarry::quantize
