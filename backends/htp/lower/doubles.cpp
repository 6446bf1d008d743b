// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/doubles.h"

#include <cstring>

namespace quarry::htp {

void take_doubles_as_floats(qir::Graph &graph, qir::Store &store) {
  Vector<bool> is_border(graph.tensors.size(), false);
  for (const auto *list : {&graph.inputs, &graph.outputs})
    for (const std::int32_t id : *list) is_border[static_cast<std::size_t>(id)] = true;
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    qir::Tensor &tensor = graph.tensors[t];
    if (tensor.dtype != DType::F64 || is_border[t]) continue;
    tensor.dtype = DType::F32;
    if (!tensor.is_constant) continue;
    const std::uint64_t count = tensor.data.size / sizeof(double);
    auto *const floats = static_cast<float *>(store.allocate(count * sizeof(float)));
    for (std::uint64_t i = 0; i < count; ++i) {
      double value;
      std::memcpy(&value, static_cast<const std::uint8_t *>(tensor.data.data) + i * sizeof value, sizeof value);
      floats[i] = static_cast<float>(value);
    }
    tensor.data = {floats, count * sizeof(float)};
  }
  constexpr auto kDouble = static_cast<std::int64_t>(DType::F64), kFloat = static_cast<std::int64_t>(DType::F32);
  for (qir::Node &node : graph.nodes) {
    if (node.outputs[0] == qir::kAbsent || qir::at(graph, node.outputs[0]).dtype != DType::F32) continue;
    for (const char *const name : {"to", "dtype"})
      if (node.get_int(name, 0) == kDouble) node.set(name, kFloat);
  }
}

}  // namespace quarry::htp
