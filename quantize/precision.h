// SPDX-License-Identifier: Apache-2.0
// Which activations get 16 bits so that the whole model comes near enough to the float one.
#pragma once

#include "quantize/calibration.h"

namespace quarry::quantize {

// Of the outputs of a quantised model to those of the float one; the worst output counts.
struct Nearness {
  double sqnr = 0, cosine = 0;  // dB; 0..1
  double typical = 0;           // dB: the mean over samples of each sample's
  double top1 = 0;              // per cent of the samples with the same greatest element, of rows of scores
};

// The nearness of a plan with these overrides: the least SQNR of the model's outputs, in dB.
class Judge {
 public:
  virtual Result<double> sqnr(const Overrides &overrides) = 0;

 protected:
  ~Judge() = default;
};

// Adds to `overrides` the fewest activations of 16 bits, those first whose own rounding loses most, with which the
// judge finds `target` dB; none where it finds them without. Each step of the search is measured. An error where even
// all of them are not enough.
Status raise_activations(const qir::Graph &graph, const Settings &settings, const Plan &plan,
                         const Calibration &calibration, double target, Judge &judge, Overrides *overrides);

// Nodes that compute in 16 bits, of those that are quantised.
struct Operations {
  std::size_t wide = 0, all = 0;
};
Operations count_operations(const qir::Graph &graph, const Plan &plan);

}  // namespace quarry::quantize
