// SPDX-License-Identifier: Apache-2.0
// What a quantisation found and did: filled by the pipeline (quantizer.cpp), written by report.cpp as JSON and HTML.
#pragma once

#include <optional>

#include "prepare/float_model.h"
#include "quantize/ranges/observer.h"

namespace quarry::quantize {

using prepare::Change;

struct TensorEntry {
  String name;
  String node, op;  // who makes it; empty for an input of the model
  qir::Shape shape;
  bool is_weight = false;
  DType dtype = DType::U8;
  Range seen, range;           // of the values; that the encoding covers (of a weight per channel: the widest channel)
  std::uint32_t channels = 1;  // scales
  float scale = 0;             // of the first
  std::int32_t zero_point = 0;
  double clipped = 0;                 // part of the values outside the range, 0..1
  std::optional<double> sqnr_alone;   // dB: the tensor's own rounding, values against their stored form
  std::optional<double> sqnr;         // dB: as the quantised model computes it, against float
  std::optional<double> sqnr_device;  // the same, computed by the backend of option compare_on
  Histogram histogram;
};

struct LayerEntry {
  String node, op;
  Vector<String> outputs;
  bool quantized = false;
  std::uint32_t bits = 0;  // of the activations that it gives
  std::optional<double> sqnr, sqnr_device;
};

struct OutputEntry {
  String name;
  double sqnr = 0, cosine = 0;
  std::optional<double> sqnr_device;
  std::optional<double> top1;  // part of the samples with the same greatest element, 0..1; of rows of scores
};

// What to try next: an option with a value, or neither; and why.
struct Advice {
  String option, value, why;
};

// `word`: good, fair, poor, not evaluated.
struct Verdict {
  String word, why;
  Vector<Advice> next;
};

// Nodes by what they compute in.
struct OperationCounts {
  std::uint64_t of_8_bits = 0, of_16_bits = 0, of_float = 0;
};

struct Report {
  String model, backend, device;                            // device: the backend of option compare_on; empty: none
  std::uint64_t samples = 0, evaluated = 0, held_back = 0;  // held back: evaluated, and not calibrated with
  std::uint64_t float_bytes = 0, quantized_bytes = 0;
  Vector<std::pair<String, String>> settings;
  Vector<Change> changes;
  Vector<TensorEntry> tensors;
  Vector<LayerEntry> layers;
  Vector<OutputEntry> outputs;
  OperationCounts operations;
  Verdict verdict;
};

String report_json(const Report &report);
String report_html(const Report &report);

}  // namespace quarry::quantize
