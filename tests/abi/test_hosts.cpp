// SPDX-License-Identifier: Apache-2.0
// Plugins of today on hosts one minor ahead and one behind.
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tests/abi/growth_host.h"
#include "tests/support/check.h"

using namespace quarry;

namespace {

// y = relu(x) over 2x4.
std::vector<std::uint8_t> relu() {
  qir::Graph graph;
  graph.name = "g";
  for (const char *name : {"x", "y"}) {
    qir::Tensor tensor;
    tensor.name = name;
    tensor.dtype = DType::F32;
    tensor.shape = {2, 4};
    graph.tensors.push_back(std::move(tensor));
  }
  qir::Node node;
  node.op = qir::Op::Relu;
  node.name = "relu";
  node.inputs = {0};
  node.outputs = {1};
  graph.nodes.push_back(std::move(node));
  graph.inputs = {0};
  graph.outputs = {1};
  qir::ConstantPool constants;
  auto bytes = qir::write_graph(graph, constants);
  REQUIRE_OK(bytes);
  return {bytes->begin(), bytes->end()};
}

constexpr const char *kPlugins[] = {QR_GROWTH_PLUGINS};

}  // namespace

TEST_CASE("plugins of today on a host one minor ahead") {
  const auto graph = relu();
  for (const char *plugin : kPlugins) CHECK_EQ(growth_host_ahead(plugin, graph.data(), graph.size()), 0);
}

TEST_CASE("plugins of today on a host one minor behind") {
  const auto graph = relu();
  for (const char *plugin : kPlugins) CHECK_EQ(growth_host_behind(plugin, graph.data(), graph.size()), 0);
}
