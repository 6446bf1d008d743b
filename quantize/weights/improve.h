// SPDX-License-Identifier: Apache-2.0
// Weights made better for few bits, each switchable.
#pragma once

#include <quarry/signal.h>

#include <functional>

#include "graph/store.h"
#include "quantize/plan/plan.h"
#include "quantize/report/report.h"

namespace quarry::quantize {

// Before calibration, on the prepared float graph: scales of channels are moved between Conv, Gemm and MatMul that
// follow each other (with nothing or Relu between them), so that their ranges are alike. The graph computes the same
// but for rounding.
void equalize_layers(qir::Graph &graph, qir::Store &store, Vector<Change> *changes);

// Runs the float model on samples; each gives the values of `tensors`, with their index in that list.
using Feed = std::function<Status(const Vector<std::int32_t> &tensors,
                                  const std::function<void(std::size_t place, std::span<const float> values)> &give)>;
// The same by what samples say of the channels between: those that reach less far than the widest are stretched, as far
// as the sum of what rounding of activations and of weights costs becomes less. `steps`: of the integers, from 0 to the
// highest. The graph computes the same but for rounding, and but for what Clip does to values far beyond the samples'.
Status equalize_activations(qir::Graph &graph, qir::Store &store, const Feed &feed, double activation_steps,
                            double weight_steps, Vector<Change> *changes, bool *changed);

// After calibration, on the integers of a plan.
struct Improvements {
  bool rounding = false;  // weights go up or down so that results change least (rounding.h)
  bool bias = false;      // biases take back what rounding of weights does to the mean of results
  unsigned threads = 1;
  qr_signal *signal = nullptr;  // ends it
};
// The means of the inputs of each product's terms, by node and then by group: they depend on the graph and the samples
// alone, so the plans that are tried for both share them.
struct InputMeans {
  Vector<Vector<double>> of_node;  // empty: not looked at
};
// About how many multiplications adaptive rounding of all products takes.
double rounding_cost(const qir::Graph &graph, std::size_t samples);
Status improve_weights(const qir::Graph &graph, const Feed &feed, const Improvements &wanted, InputMeans *means,
                       Plan *plan, Vector<Change> *changes);

}  // namespace quarry::quantize
