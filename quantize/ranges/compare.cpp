// SPDX-License-Identifier: Apache-2.0
#include "quantize/ranges/compare.h"

#include <algorithm>
#include <cmath>

#include "base/real/real.h"

namespace quarry::quantize {

void Comparison::add(std::span<const float> wanted, std::span<const float> found) noexcept {
  for (std::size_t i = 0; i < std::min(wanted.size(), found.size()); ++i) {
    const double w = static_cast<double>(wanted[i]), f = static_cast<double>(found[i]);
    if (!(std::fabs(w) < 1e30)) continue;  // infinite, or what masks have for it
    signal_ += w * w;
    noise_ += (w - f) * (w - f);
    dot_ += w * f;
    found_ += f * f;
  }
}

double Comparison::sqnr() const noexcept {
  if (noise_ == 0) return kNoNoise;
  if (signal_ == 0 || noise_ != noise_) return -kNoNoise;  // NaN where there was a number
  return std::clamp(10 * real::log10(signal_ / noise_), -kNoNoise, kNoNoise);
}

double Comparison::cosine() const noexcept {
  if (signal_ == 0 || found_ == 0 || dot_ != dot_ || found_ != found_) return noise_ == 0 ? 1 : 0;
  return dot_ / std::sqrt(signal_ * found_);
}

bool is_scores(const qir::Tensor &tensor) noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.shape) count *= extent;
  return count > 1 && std::ranges::find(tensor.shape, count) != tensor.shape.end();
}

std::size_t greatest(std::span<const float> values) noexcept {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace quarry::quantize
