// SPDX-License-Identifier: Apache-2.0
// Reals of 16 bits as f32, where a form of an operator is of f32 alone.
#include <algorithm>

#include "passes/edit.h"

namespace quarry::passes {

using qir::at;

namespace {

bool is_plain_half(const qir::Graph &graph, std::int32_t id) {
  if (id == qir::kAbsent) return false;
  const qir::Tensor &tensor = at(graph, id);
  return !tensor.quant && (tensor.dtype == DType::F16 || tensor.dtype == DType::BF16);
}

std::int32_t wide_like(Rewriting &rewriting, std::int32_t id) {
  const String name = at(rewriting.graph, id).name + "/f32";
  const qir::Shape shape = at(rewriting.graph, id).shape;
  return rewriting.tensor(name, DType::F32, shape);
}

void cast(Rewriting &rewriting, const qir::Node &like, std::int32_t from, std::int32_t to) {
  const DType dtype = at(rewriting.graph, to).dtype;
  rewriting.emit(qir::Op::Cast, like, {from}, to).set("to", static_cast<std::int64_t>(dtype));
}

void widen(Rewriting &rewriting, qir::Node &&node) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::int32_t id = node.inputs[i];
    if (!is_plain_half(rewriting.graph, id)) continue;
    const std::int32_t wide = wide_like(rewriting, id);
    cast(rewriting, node, id, wide);
    node.inputs.set(i, wide);
  }
  Vector<std::pair<std::int32_t, std::int32_t>> back;
  for (std::int32_t &id : node.outputs) {
    if (!is_plain_half(rewriting.graph, id)) continue;
    back.emplace_back(wide_like(rewriting, id), id);
    id = back.back().first;
  }
  const qir::Node like = node;
  rewriting.keep(std::move(node));
  for (const auto &[wide, half] : back) cast(rewriting, like, wide, half);
}

}  // namespace

bool compute_in_f32(qir::Graph &graph, Store &store, NodeTest wanted) {
  const auto is_meant = [&](const qir::Node &node) {
    return wanted(graph, node) && node.subgraphs.empty() &&
           std::ranges::any_of(node.outputs, [&](std::int32_t id) { return is_plain_half(graph, id); });
  };
  if (std::ranges::none_of(graph.nodes, is_meant)) return false;
  Rewriting rewriting(graph, store);
  for (qir::Node &node : rewriting.old) {
    if (stop_asked()) return false;
    if (is_meant(node)) widen(rewriting, std::move(node));
    else rewriting.keep(std::move(node));
  }
  return true;
}

}  // namespace quarry::passes
