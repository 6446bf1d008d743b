// SPDX-License-Identifier: Apache-2.0
// What storing a tensor as integers will cost, estimated from its tally: within a bin values count as evenly spread.
#pragma once

#include "quantize/ranges/grid.h"
#include "quantize/ranges/tally.h"

namespace quarry::quantize {

// How many values an interval holds, their sum, and the sum of their squares.
struct Moments {
  double count = 0, sum = 0, squares = 0;
};

// The error of a quantisation: of values that the integers reach, and of those beyond them.
struct Noise {
  double rounding = 0, clipping = 0;  // sums of squares
  double clipped = 0;                 // how many values are beyond
  double total() const noexcept { return rounding + clipping; }
};

class NoiseModel {
 public:
  explicit NoiseModel(const Tally &tally);

  Noise noise(const Encoding &encoding) const;
  // Signal to noise in dB; infinite where there is no error, or no signal.
  double sqnr(const Encoding &encoding) const;
  double signal() const noexcept { return below_.empty() ? 0 : below_.back().squares; }

 private:
  Moments below(double value) const;  // of all values less than that, zeros left out

  double origin_ = 0, width_ = 1;
  Vector<Moments> below_;  // below each edge
};

}  // namespace quarry::quantize
