// SPDX-License-Identifier: Apache-2.0
// Which activations get 16 bits so that the whole model comes near enough to the float one.
#pragma once

#include "quantize/plan/plan.h"

namespace quarry::quantize {

// Of the outputs of a quantised model to those of the float one; the worst output counts.
struct AccuracyMetrics {
  double sqnr = 0, cosine = 0;  // dB; 0..1
  double typical = 0;           // dB: the mean of that and of the mean over samples; what choices go by
  double top1 = 0;              // per cent of the samples with the same greatest element, of rows of scores
};

// How near the outputs are to be.
struct Target {
  enum class Measure : std::uint8_t { Sqnr, Top1, Cosine } measure = Measure::Sqnr;
  double value = 0;
  double of(const AccuracyMetrics &found) const noexcept {
    return measure == Measure::Sqnr ? found.sqnr : measure == Measure::Top1 ? found.top1 : found.cosine;
  }
};
// Option target: "sqnr=30", "top1=99", "cosine=0.999".
Result<Target> read_target(std::string_view text);

class ModelEvaluator {
 public:
  // Of a plan with these overrides; `quick`: on a few of the samples alone.
  virtual Result<AccuracyMetrics> evaluate(const Overrides &overrides, bool quick) = 0;

 protected:
  ~ModelEvaluator() = default;
};

// Adds to `overrides` activations of 16 bits with which the evaluator finds the target, as few as it takes; none where
// it finds it without. Each activation is tried by itself first: those go first that take most of the noise away for
// each operation that they make wide. An error where even all of them are not enough. `settings`: its widens_weights
// becomes true where the target takes weights of 16 bits too (wide_weights=auto).
Status raise_activations(const qir::Graph &graph, Settings *settings, const Plan &plan, const Target &target,
                         ModelEvaluator &evaluator, Overrides *overrides);

// Nodes that compute in 16 bits, of those that are quantised.
struct Operations {
  std::size_t wide = 0, all = 0;
};
Operations count_operations(const qir::Graph &graph, const Plan &plan);

}  // namespace quarry::quantize
