// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/passes/pieces.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quarry::test {

std::vector<double> run(const qir::Graph &graph) {
  REQUIRE_OK(qir::validate_graph(graph));
  auto program = reference::Program::build(graph);
  REQUIRE_OK(program);
  reference::Execution execution(**program);
  struct Alone final : reference::Environment {
  } alone;
  std::vector<std::vector<std::uint8_t>> data;
  std::vector<reference::IoBuffer> inputs(graph.inputs.size()), outputs(graph.outputs.size());
  std::uint32_t state = 12345;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const qir::Tensor &tensor = qir::at(graph, graph.inputs[i]);
    std::size_t elements = 1;
    for (const std::int64_t extent : tensor.shape) elements *= static_cast<std::size_t>(extent);
    const bool real = tensor.dtype == DType::F32;
    auto &bytes = data.emplace_back(elements * dtype_bits(tensor.dtype) / 8);
    for (std::size_t e = 0; e < (real ? elements : bytes.size()); ++e) {
      state = state * 1664525u + 1013904223u;
      const float value = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) * 8 - 4;
      if (real) std::memcpy(bytes.data() + e * sizeof value, &value, sizeof value);
      else bytes[e] = static_cast<std::uint8_t>(state >> 24);
    }
    inputs[i].data = bytes.data(), inputs[i].size_bytes = bytes.size();
    inputs[i].rank = static_cast<std::uint32_t>(tensor.shape.size());
    std::copy(tensor.shape.begin(), tensor.shape.end(), inputs[i].dims);
  }
  REQUIRE_OK(execution.run(inputs.data(), inputs.size(), outputs.data(), outputs.size(), alone));
  const qir::Tensor &result = qir::at(graph, graph.outputs[0]);
  std::vector<double> values;
  for (std::size_t i = 0; i < outputs[0].used_bytes * 8 / dtype_bits(result.dtype); ++i)
    values.push_back(result.dtype == DType::F32
                         ? static_cast<double>(static_cast<const float *>(outputs[0].data)[i])
                         : static_cast<double>(qir::stored_integer(result.dtype, outputs[0].data, i)));
  return values;
}

double difference(const std::vector<double> &a, const std::vector<double> &b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max({largest, std::fabs(a[i]), std::fabs(b[i])});
    if (!(std::fabs(a[i] - b[i]) <= most)) most = std::fabs(a[i] - b[i]);
  }
  return most / largest;
}

}  // namespace quarry::test
