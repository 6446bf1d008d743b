// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/small_weights.h"

#include <algorithm>

#include "backends/htp/lower/unsigned.h"
#include "graph/edit/graph_edit.h"
#include "graph/ops/quantization.h"

namespace quarry::htp {

namespace {

// Nobody reads it but products, as their weights: for others the stored type is that of the result too.
bool is_weights(const qir::Graph &graph, const qir::Uses &uses, std::int32_t id) {
  const std::span<const std::int32_t> users = uses.users(id);
  return !users.empty() && !uses.is_output(id) && std::all_of(users.begin(), users.end(), [&](std::int32_t user) {
    const qir::Node &node = graph.nodes[index_of(user)];
    return is_product(node.op) && node.inputs[1] == id;
  });
}

}  // namespace

void make_small_weights_signed(qir::Graph &graph, qir::Store &store) {
  const qir::Uses uses(graph);
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    qir::Tensor &tensor = graph.tensors[t];
    if (tensor.dtype != DType::U4 || !tensor.is_constant || !tensor.quant) continue;
    if (!is_weights(graph, uses, static_cast<std::int32_t>(t))) continue;
    Vector<std::int32_t> &zero_points = tensor.quant->zero_points;
    const bool is_centred = std::all_of(zero_points.begin(), zero_points.end(), [](std::int32_t z) { return z == 8; });
    if (tensor.quant->block_size != 0 && !is_centred) continue;
    std::uint64_t count = 1, inner = 1;
    const bool per_tensor = tensor.quant->per_tensor();
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      const auto extent = static_cast<std::uint64_t>(tensor.shape[axis]);
      count *= extent;
      if (!per_tensor && static_cast<std::int64_t>(axis) > tensor.quant->axis) inner *= extent;
    }
    const auto *const from = static_cast<const std::uint8_t *>(tensor.data.data);
    const std::uint64_t bytes = is_centred ? tensor.data.size : count;
    auto *const to = static_cast<std::uint8_t *>(store.allocate(bytes));
    if (is_centred) {  // 8 less in the two's complement of four bits
      std::transform(from, from + bytes, to, [](std::uint8_t pair) { return static_cast<std::uint8_t>(pair ^ 0x88); });
    } else {
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::int32_t zero_point = zero_points[per_tensor ? 0 : i / inner % zero_points.size()];
        to[i] = static_cast<std::uint8_t>(qir::stored_integer(DType::U4, from, i) - zero_point);
      }
    }
    tensor.dtype = is_centred ? DType::I4 : DType::I8;
    tensor.data = {to, bytes};
    std::fill(zero_points.begin(), zero_points.end(), 0);
  }
}

}  // namespace quarry::htp
