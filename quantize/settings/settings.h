// SPDX-License-Identifier: Apache-2.0
// What the options of a quantisation (options.inc) say.
#pragma once

#include <span>

#include "quantize/ranges/observer.h"

namespace quarry::quantize {

struct Settings {
  Settings();  // every option at its default

  DType activations = DType::U8;
  DType weights = DType::Unknown;  // Unknown: i8 or u8, whichever is nearer
  bool equalize = false, equalize_activations = false, clip_weights = false, bias_correction = false;
  bool per_channel = true, activation_symmetric = false, reduce_range = false, hold_back = true;
  String weight_symmetry, fixed_ranges, adaptive_rounding, wide_weights;
  bool widens_weights = false;  // what wide_weights has come to
  double budget = 100;
  std::int64_t block_size = 0;
  RangeSettings range;
  Vector<String> float_nodes, float_operators, tensor_types, channels_last;
  String shape, compare_on, overrides, target;
  unsigned threads = 0;
  std::size_t evaluate = 0;

  // An unknown key names the nearest; a bad value, those that are allowed.
  Status set(std::string_view key, std::string_view value);
  Grid activation_grid() const { return {activations, activation_symmetric}; }
  Grid weight_grid(DType dtype) const;
};

struct OptionText {
  std::string_view key, values, fallback, help;
};
std::span<const OptionText> option_texts();

}  // namespace quarry::quantize
