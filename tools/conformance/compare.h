// SPDX-License-Identifier: Apache-2.0
// Does a result agree with a stored one? The rule of ONNX's own runner, with a floor for values near zero, and a rule
// for quantised models.
#pragma once

#include <string>

#include "tools/input/tensor_file.h"

namespace tools {

struct Tolerance {
  double rtol = 1e-3;  // at least 2^-6 for bf16, two of its steps, as in ONNX's own runner
  double atol = 1e-7;
  double range_floor = 1e-5;      // of the range of the expected outputs: differences under it always agree
  double quantized_range = 0.04;  // the same for models whose stored results come from fused integer kernels
};

struct Difference {
  bool same_type = true;
  double worst = 0;           // |found - expected|
  double worst_of_range = 0;  // the same as a part of the expected output's range
  int64_t worst_at = -1;
  bool within_float = true;      // rtol, atol, range_floor (integers and bool: equal)
  bool within_quantized = true;  // quantized_range, and the same top-1 where the output is a row of scores
  std::string text;              // what differs; empty when within_float
};

// The range of the finite values, zero included: what `range_floor` and `quantized_range` are parts of.
double value_range(const TensorData &tensor);

// `floor_range`: of all outputs of the case, so that an output of scores near zero is not held to a millionth of its
// neighbours' precision.
Difference compare(const TensorData &expected, qr_dtype dtype, const std::vector<int64_t> &dims, const void *data,
                   const Tolerance &tolerance, double floor_range = 0);

}  // namespace tools
