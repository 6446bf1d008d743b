// SPDX-License-Identifier: Apache-2.0
#include "tools/conformance/onnx_operators.h"

#include <onnx/onnx_pb.h>

#include "tools/console/read_file.h"
#include "tools/input/tensor_file.h"

namespace tools {
namespace {

bool is_random(const onnx::NodeProto &node) {
  const std::string &op = node.op_type();
  const bool trains = op == "Dropout" && node.input_size() > 2 && !node.input(2).empty();
  return trains || op == "Bernoulli" || op == "Multinomial" || op.rfind("Random", 0) == 0;
}

template <class Nodes>
void collect(const Nodes &nodes, OnnxOperators &out) {
  for (const onnx::NodeProto &node : nodes) {
    const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
    out.names.insert(standard ? node.op_type() : node.domain() + "." + node.op_type());
    out.random |= is_random(node);
    for (const onnx::AttributeProto &attribute : node.attribute()) {
      if (attribute.has_g()) collect(attribute.g().node(), out);
      for (const onnx::GraphProto &graph : attribute.graphs()) collect(graph.node(), out);
    }
  }
}

}  // namespace

OnnxOperators onnx_operators(const std::string &path) {
  const std::vector<uint8_t> file = read_file(path);
  onnx::ModelProto model;
  OnnxOperators out;
  if (!model.ParseFromArray(file.data(), int_size(file, path))) return out;
  collect(model.graph().node(), out);
  for (const onnx::FunctionProto &function : model.functions()) collect(function.node(), out);
  return out;
}

}  // namespace tools
