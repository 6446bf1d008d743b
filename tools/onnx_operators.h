// SPDX-License-Identifier: Apache-2.0
// Which operators an ONNX file names, whether or not Quarry can run it: what a coverage count needs to know of a refused model.
#pragma once

#include <set>
#include <string>

namespace tools {

// "Conv", "com.microsoft.Gelu"; subgraphs included. Empty where the file is no ONNX model.
std::set<std::string> onnx_operators(const std::string &path);

}  // namespace tools
