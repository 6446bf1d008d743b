// SPDX-License-Identifier: Apache-2.0
// The values of a model's inputs: from files, or made up.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/input/image.h"
#include "tools/input/tensor_file.h"

namespace tools {

// By the ending of the file's name: .npy, .pb, a picture, raw bytes; a picture or an .npy by its bytes too. Throws
// UsageError.
TensorData load_input(const std::string &path, const qr::TensorInfo &info, const ImageFlags &image);
// The input and the file of "NAME=FILE", where both may have a '=' in them. Throws UsageError.
std::pair<std::string, std::string> split_input(const std::string &text, const std::vector<qr::TensorInfo> &inputs);
// Raw bytes do not say their shape.
bool says_its_shape(const std::string &path);
// The same values in every run: floats in [-1, 1), integers small and not negative (they may be indices).
TensorData made_input(const qr::TensorInfo &info);

}  // namespace tools
