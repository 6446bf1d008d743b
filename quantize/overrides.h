// SPDX-License-Identifier: Apache-2.0
// What is said of single tensors, in the form of ONNX Runtime's TensorQuantOverrides.
#pragma once

#include <optional>

#include "quantize/settings.h"

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
};

using Overrides = OrderedMap<String, TensorOverride>;

}  // namespace quarry::quantize
