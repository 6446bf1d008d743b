// SPDX-License-Identifier: Apache-2.0
// Which operators an ONNX file names, whether or not Quarry can run it: what a coverage count needs to know of a
// refused model.
#pragma once

#include <set>
#include <string>

namespace tools {

struct OnnxOperators {
  std::set<std::string>
      names;  // "Conv", "com.microsoft.Gelu"; subgraphs included; empty where the file is no ONNX model
  bool random =
      false;  // holds an operator whose results are random by definition: stored values mean nothing but their type
};
OnnxOperators onnx_operators(const std::string &path);

}  // namespace tools
