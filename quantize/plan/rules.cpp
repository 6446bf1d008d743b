// SPDX-License-Identifier: Apache-2.0
#include "quantize/plan/rules.h"

#include "graph/ops/quantization.h"

namespace quarry::quantize {

using qir::Op;

Role Rule::role(std::size_t input) const noexcept {
  switch (roles[input < roles.size() ? input : roles.size() - 1]) {
    case 'a': return Role::Activation;
    case 'w': return Role::Weights;
    case 'b': return Role::Bias;
    default: return Role::None;
  }
}

std::optional<Rule> rule_of(const qir::Graph &graph, const qir::Node &node) {
  if (!node.subgraphs.empty()) return std::nullopt;
  if (qir::moves_real_values(graph, node))
    return Rule{true, qir::moved_inputs(node), {}, node.op == Op::Concat ? "a" : "a-"};
  switch (node.op) {
#define QR_QUANTIZED(op, inputs, moves, low, high) \
  case Op::op:                                     \
    return Rule{(moves) != 0, 1, (high) > (low) ? std::optional(Range{low, high}) : std::nullopt, inputs};
#include "quantize/plan/rules.inc"
#undef QR_QUANTIZED
    default: break;
  }
  if (qir::is_elementwise_function(node.op)) return Rule{false, 1, {}, "a-"};
  return std::nullopt;
}

std::optional<std::size_t> weight_axis(const qir::Node &node, std::size_t rank) {
  if (!qir::takes_bias(node.op)) return std::nullopt;
  // A transposed convolution in groups has channels of several groups at one index.
  return qir::channel_axis(node, rank);
}

std::optional<std::size_t> block_axis(const qir::Node &node, std::size_t rank) {
  if (rank != 2) return std::nullopt;
  if (node.op == Op::MatMul) return 0;
  if (node.op == Op::Gemm) return node.get_int("transB", 0) != 0 ? 1 : 0;
  return std::nullopt;
}

std::size_t softmax_row(const qir::Graph &graph, const qir::Uses &uses, std::int32_t id) {
  const qir::Shape &shape = qir::at(graph, id).shape;
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  if (shape.empty() || uses.users(id).empty() || uses.is_output(id)) return 0;
  for (const std::int32_t n : uses.users(id)) {
    const qir::Node &node = graph.nodes[index_of(n)];
    const std::int64_t axis = node.get_int("axis", -1);
    if (node.op != Op::Softmax || (axis != -1 && axis != last)) return 0;
  }
  return static_cast<std::size_t>(shape.back());
}

bool is_product(Op op) noexcept {
  return op == Op::Conv || op == Op::ConvTranspose || op == Op::Gemm || op == Op::MatMul || op == Op::Einsum;
}

}  // namespace quarry::quantize
