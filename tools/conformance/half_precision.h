// SPDX-License-Identifier: Apache-2.0
// A backend that computes in f16 cannot give what f32 gives where inputs differ by less than a step of f16, nor numbers
// past 65504, nor NaN. This says which of the two a case is.
#pragma once

#include "tools/input/tensor_file.h"

namespace tools {

// The first number that such a backend has not, written as "479001600 at 0": past 65504, or no number (the f16 of NPUs
// has neither NaN nor infinities); empty: there is none.
std::string beyond_half(const TensorData &tensor);
// Rounds reals to f16, ties to even. False: nothing changed.
bool round_to_half(TensorData &tensor);
// Integers of 8 or 16 bits in the same shape, none of which is more than a step off.
bool within_a_step(const TensorData &expected, qr_dtype dtype, const std::vector<int64_t> &dims, const void *data);

}  // namespace tools
