// SPDX-License-Identifier: Apache-2.0
// What is kept of a tensor's values while samples stream by, and the range that follows. The calibration
// (calibration.h) makes one observer for each tensor and feeds it each sample's values once, in order; it never sees a
// sample again.
#pragma once

#include <span>

#include "base/status.h"
#include "quantize/ranges/grid.h"
#include "quantize/ranges/tally.h"

namespace quarry::quantize {

enum class RangeMethod : std::uint8_t { MinMax, MovingAverage, Percentile, Entropy, LeastSquares, Measured };

struct RangeSettings {
  RangeMethod method = RangeMethod::MinMax;  // Measured: several are tried; an observer takes MinMax for it
  double percentile = 99.99;                 // Percentile: the part of the values that the range holds, in per cent
  double momentum = 0.01;                    // MovingAverage: the weight of a sample against those before it
};

// Equal intervals from low to high.
struct Histogram {
  double low = 0, high = 0;
  Vector<std::uint64_t> counts;
};

class Observer : public HeapObject {
 public:
  virtual ~Observer() = default;
  // A sample's values, which count from keep() on and are forgotten by the next observe() without it. Finite: the
  // calibration has refused others before. Who must stop (base/stop.h) sees some of them.
  virtual void observe(std::span<const float> values, const Extremes &extremes) = 0;
  void observe(std::span<const float> values) { observe(values, extremes_of(values)); }
  virtual void keep() = 0;
  // The range for a grid, 0 in it. Nothing observed: {0, 0}.
  virtual Range range(const Grid &grid) const = 0;
  virtual Range range(const Grid &grid, RangeMethod method) const = 0;
  // The least and the greatest value of all samples.
  virtual Range seen() const = 0;
  // For the report.
  virtual Histogram histogram() const = 0;
  // What storing what was seen in this form will cost, as the distribution of the values foretells.
  struct Loss {
    double clipped = 0;  // part of the values beyond the range, 0..1
    double sqnr = 0;     // dB; infinite where nothing is lost
  };
  virtual Loss loss(const Encoding &encoding) const = 0;
  // All that is known, as bytes, and back (a calibration that is taken up again). `restore` refuses what `save` of the
  // same settings did not write.
  virtual void save(Vector<std::uint8_t> &out) const = 0;
  virtual Status restore(std::span<const std::uint8_t> bytes) = 0;
};

Unique<Observer> make_observer(const RangeSettings &settings);

}  // namespace quarry::quantize
