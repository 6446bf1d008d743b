// SPDX-License-Identifier: Apache-2.0
#include "formats/qir/graph_edit.h"

#include <algorithm>

namespace quarry::qir {

Uses::Uses(const Graph &graph) : Uses(graph, Vector<bool>(graph.nodes.size(), false)) {}

Uses::Uses(const Graph &graph, const Vector<bool> &dead)
    : makers_(graph.tensors.size(), kNobody),
      users_(graph.tensors.size()),
      outputs_(graph.tensors.size()),
      inputs_(graph.tensors.size()) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (dead[i]) continue;
    for (const std::int32_t id : graph.nodes[i].outputs)
      if (id != kAbsent) makers_[static_cast<std::size_t>(id)] = static_cast<std::int32_t>(i);
    for (const std::int32_t id : graph.nodes[i].inputs)
      if (id != kAbsent) users_[static_cast<std::size_t>(id)].push_back(static_cast<std::int32_t>(i));
  }
  for (const std::int32_t id : graph.outputs) outputs_[static_cast<std::size_t>(id)] = true;
  for (const std::int32_t id : graph.inputs) inputs_[static_cast<std::size_t>(id)] = true;
}

void replace_uses(Graph &graph, std::int32_t from, std::int32_t to) {
  for (Node &node : graph.nodes) std::ranges::replace(node.inputs, from, to);
  std::ranges::replace(graph.outputs, from, to);
}

const float *constant_floats(const Graph &graph, std::int32_t id) {
  if (id == kAbsent || !at(graph, id).is_constant || at(graph, id).dtype != DType::F32) return nullptr;
  return static_cast<const float *>(at(graph, id).data.data);
}

void compact(Graph &graph, const Vector<bool> &dead) {
  Vector<Node> kept;
  kept.reserve(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (!dead[i]) kept.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(kept);

  Vector<std::int32_t> place(graph.tensors.size(), -1);
  const auto mark = [&](const Vector<std::int32_t> &ids) {
    for (const std::int32_t id : ids)
      if (id != kAbsent) place[static_cast<std::size_t>(id)] = 0;
  };
  mark(graph.inputs);
  mark(graph.outputs);
  for (const Node &node : graph.nodes) mark(node.inputs), mark(node.outputs);
  std::size_t count = 0;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (place[i] < 0) continue;
    place[i] = static_cast<std::int32_t>(count);
    if (count != i) graph.tensors[count] = std::move(graph.tensors[i]);
    ++count;
  }
  graph.tensors.resize(count);
  const auto renumber = [&](Vector<std::int32_t> &ids) {
    for (std::int32_t &id : ids)
      if (id != kAbsent) id = place[static_cast<std::size_t>(id)];
  };
  renumber(graph.inputs);
  renumber(graph.outputs);
  for (Node &node : graph.nodes) renumber(node.inputs), renumber(node.outputs);
}

void number_sources(Graph &graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) graph.nodes[i].source = static_cast<std::int32_t>(i);
}

bool is_random(Op op) noexcept {
  switch (op) {
    case Op::RandomNormal:
    case Op::RandomNormalLike:
    case Op::RandomUniform:
    case Op::RandomUniformLike:
    case Op::Bernoulli:
    case Op::Multinomial:
    case Op::Dropout: return true;
    default: return false;
  }
}

String fresh_name(const Graph &graph, std::string_view wanted) {
  const auto taken = [&](std::string_view name) {
    return std::ranges::any_of(graph.tensors, [&](const Tensor &t) { return t.name == name; });
  };
  String name(wanted);
  for (std::size_t i = 1; taken(name); ++i)
    name = format("%.*s~%zu", static_cast<int>(wanted.size()), wanted.data(), i);
  return name;
}

}  // namespace quarry::qir
