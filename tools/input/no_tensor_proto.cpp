// SPDX-License-Identifier: Apache-2.0
// In place of tensor_proto.cpp in a program that is built without ONNX.
#include "tools/console/command.h"
#include "tools/input/tensor_file.h"

namespace tools {

TensorData read_tensor_proto(const std::string &path) {
  throw UsageError("'" + path + "': found a tensor of ONNX's, which this program is built without", "give it as .npy");
}

}  // namespace tools
