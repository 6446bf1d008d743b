// SPDX-License-Identifier: Apache-2.0
#include "tools/input/constant_inputs.h"

#include <onnx/onnx_pb.h>

#include "tools/console/failure.h"
#include "tools/console/read_file.h"
#include "tools/input/tensor_file.h"

namespace tools {

std::vector<uint8_t> with_constant_inputs(const std::string &model, const std::map<std::string, std::string> &files) {
  onnx::ModelProto more;
  for (const auto &[name, path] : files) {
    const std::vector<uint8_t> file = read_file(path);
    onnx::TensorProto &tensor = *more.mutable_graph()->add_initializer();
    if (!tensor.ParseFromArray(file.data(), int_size(file, path)))
      throw UsageError("'" + path + "' is no ONNX TensorProto");
    tensor.set_name(name);
  }
  // Messages that follow each other are one message, whose lists are those of both.
  const std::string added = more.SerializePartialAsString();
  std::vector<uint8_t> out = read_file(model);
  out.insert(out.end(), added.begin(), added.end());
  return out;
}

}  // namespace tools
