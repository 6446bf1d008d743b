// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/attention.h"

#include <algorithm>

namespace quarry::passes {

using qir::at;
using qir::Op;

namespace {

bool plain_f32(const qir::Graph &graph, std::int32_t id) {
  return id != qir::kAbsent && at(graph, id).dtype == DType::F32 && !at(graph, id).quant;
}

std::optional<float> scalar(const qir::Graph &graph, std::int32_t id) {
  const float *value = qir::constant_floats(graph, id);
  if (!value || at(graph, id).data.size != sizeof(float)) return std::nullopt;
  return *value;
}

}  // namespace

std::optional<AttentionPieces> match_attention(const qir::Graph &graph, const qir::Uses &uses, std::size_t last) {
  const auto node = [&](std::int32_t i) -> const qir::Node & { return graph.nodes[index_of(i)]; };
  const auto rank = [&](std::int32_t id) { return static_cast<std::int64_t>(at(graph, id).shape.size()); };
  // Who made a tensor that is read once.
  const auto maker = [&](std::int32_t id) {
    return id == qir::kAbsent || !uses.used_once(id) ? qir::Uses::kNobody : uses.maker(id);
  };
  const qir::Node &second = graph.nodes[last];
  if (second.op != Op::MatMul || !plain_f32(graph, second.outputs[0]) || !plain_f32(graph, second.inputs[1]))
    return std::nullopt;
  AttentionPieces out;
  out.nodes = {static_cast<std::int32_t>(last)};
  std::int32_t here = maker(second.inputs[0]);
  if (here < 0 || node(here).op != Op::Softmax) return std::nullopt;
  const std::int64_t axis = node(here).get_int("axis", -1);
  if (axis != -1 && axis != rank(node(here).inputs[0]) - 1) return std::nullopt;
  out.nodes.push_back(here);
  here = maker(node(here).inputs[0]);
  if (here < 0) return std::nullopt;
  if (node(here).op == Op::Add) {
    const qir::Node &add = node(here);
    std::int32_t scores = -1;
    for (std::size_t side = 0; side < 2 && scores < 0; ++side) {
      const std::int32_t made = maker(add.inputs[side]);
      if (made < 0 || (node(made).op != Op::MatMul && node(made).op != Op::Mul && node(made).op != Op::Div)) continue;
      // The scores are the side that has the sum's shape.
      if (at(graph, add.inputs[side]).shape != at(graph, add.outputs[0]).shape) continue;
      scores = made;
      out.mask = add.inputs[1 - side];
    }
    if (scores < 0 || !plain_f32(graph, out.mask)) return std::nullopt;
    out.nodes.push_back(here);
    here = scores;
  }
  if (node(here).op == Op::Mul || node(here).op == Op::Div) {
    const qir::Node &scaled = node(here);
    std::size_t side = 1;
    auto factor = scalar(graph, scaled.inputs[1]);
    if (!factor && scaled.op == Op::Mul) factor = scalar(graph, scaled.inputs[0]), side = 0;
    if (!factor || (scaled.op == Op::Div && *factor == 0)) return std::nullopt;
    out.scale = scaled.op == Op::Mul ? *factor : 1 / *factor;
    out.nodes.push_back(here);
    here = maker(scaled.inputs[1 - side]);
    if (here < 0) return std::nullopt;
  }
  const qir::Node &first = node(here);
  if (first.op != Op::MatMul || !plain_f32(graph, first.outputs[0])) return std::nullopt;
  out.nodes.push_back(here);
  out.q = first.inputs[0], out.k_transposed = first.inputs[1], out.v = second.inputs[1];
  // The same batches and heads on all sides.
  for (const std::int32_t id : {out.q, out.k_transposed, out.v}) {
    const qir::Shape &shape = at(graph, id).shape;
    if (rank(id) != rank(out.q) || rank(id) < 3 || rank(id) > 4) return std::nullopt;
    for (std::size_t d = 0; d + 2 < shape.size(); ++d)
      if (shape[d] != at(graph, out.q).shape[d]) return std::nullopt;
  }
  if (out.mask != qir::kAbsent && rank(out.mask) > rank(out.q)) return std::nullopt;
  std::ranges::reverse(out.nodes);
  return out;
}

}  // namespace quarry::passes
