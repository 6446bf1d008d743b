// SPDX-License-Identifier: Apache-2.0
#include "onnx_operators.h"

#include <onnx/onnx_pb.h>

#include "tensor_file.h"

namespace tools {
namespace {

template <class Nodes>
void collect(const Nodes &nodes, std::set<std::string> &names) {
  for (const onnx::NodeProto &node : nodes) {
    const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
    names.insert(standard ? node.op_type() : node.domain() + "." + node.op_type());
    for (const onnx::AttributeProto &attribute : node.attribute()) {
      if (attribute.has_g()) collect(attribute.g().node(), names);
      for (const onnx::GraphProto &graph : attribute.graphs()) collect(graph.node(), names);
    }
  }
}

}  // namespace

std::set<std::string> onnx_operators(const std::string &path) {
  const std::vector<uint8_t> file = read_file(path);
  onnx::ModelProto model;
  std::set<std::string> names;
  if (!model.ParseFromArray(file.data(), static_cast<int>(file.size()))) return names;
  collect(model.graph().node(), names);
  for (const onnx::FunctionProto &function : model.functions()) collect(function.node(), names);
  return names;
}

}  // namespace tools
