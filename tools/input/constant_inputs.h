// SPDX-License-Identifier: Apache-2.0
// ONNX's node tests give as an input what models have as a constant: a shape, axes, bounds, weights. Here such an input
// becomes the constant that the case says it is.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tools {

// The ONNX file with these inputs as initialisers; each value is the TensorProto file with its contents.
std::vector<uint8_t> with_constant_inputs(const std::string &model, const std::map<std::string, std::string> &files);

}  // namespace tools
