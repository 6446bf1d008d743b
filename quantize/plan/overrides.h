// SPDX-License-Identifier: Apache-2.0
// What is said of single tensors, in the form of ONNX Runtime's TensorQuantOverrides.
#pragma once

#include <optional>

#include "quantize/settings/settings.h"

namespace quarry::quantize {

struct Override {
  std::optional<DType> dtype;
  std::optional<bool> symmetric;
  std::optional<double> low, high;  // "rmin", "rmax"
  std::optional<float> scale;
  std::optional<std::int32_t> zero_point;
  std::optional<std::int64_t> axis;  // of weights: per channel
};

struct TensorOverride {
  Override own;
  bool per_tensor = false;  // of weights: one scale even where channels have one each
  bool has_convert = false;
  Override convert;
  bool all_receive = true;  // no "recv_nodes": every reader gets the converted form
  Vector<String> receivers;
  Vector<Override> channels;  // of weights along own.axis, where each channel has settings of its own
};

using Overrides = OrderedMap<String, TensorOverride>;

// A file of them: ONNX Runtime's TensorQuantOverrides as JSON, or the same as YAML where its name ends in .yaml or
// .yml.
Result<Overrides> read_overrides(std::string_view path);
// `name`: what messages call the text.
Result<Overrides> parse_overrides(std::string_view text, bool is_yaml, std::string_view name);

// A type's name as we have it ("u16") or as ONNX Runtime has it ("QUInt16").
std::optional<DType> integer_type_named(std::string_view name);

}  // namespace quarry::quantize
