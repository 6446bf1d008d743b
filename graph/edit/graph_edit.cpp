// SPDX-License-Identifier: Apache-2.0
#include "graph/edit/graph_edit.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/stop.h"

namespace quarry::qir {

Uses::Uses(const Graph &graph) : Uses(graph, Vector<bool>(graph.nodes.size(), false)) {}

Uses::Uses(const Graph &graph, const Vector<bool> &dead)
    : makers_(graph.tensors.size(), kNobody),
      first_user_(graph.tensors.size() + 2),
      outputs_(graph.tensors.size()),
      inputs_(graph.tensors.size()) {
  // Counted two places behind, so that filling the lists moves each start to where it belongs.
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (dead[i]) continue;
    for (const std::int32_t id : graph.nodes[i].outputs)
      if (id != kAbsent) makers_[index_of(id)] = static_cast<std::int32_t>(i);
    for (const std::int32_t id : graph.nodes[i].inputs)
      if (id != kAbsent) ++first_user_[index_of(id) + 2];
  }
  if (stop_asked()) {  // nobody uses anything: its caller asks too
    std::ranges::fill(first_user_, 0u);
    return;
  }
  std::partial_sum(first_user_.begin(), first_user_.end(), first_user_.begin());
  users_.resize(first_user_.back());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (dead[i]) continue;
    for (const std::int32_t id : graph.nodes[i].inputs)
      if (id != kAbsent) users_[first_user_[index_of(id) + 1]++] = static_cast<std::int32_t>(i);
  }
  for (const std::int32_t id : graph.outputs) outputs_[index_of(id)] = true;
  for (const std::int32_t id : graph.inputs) inputs_[index_of(id)] = true;
}

void replace_uses(Graph &graph, std::int32_t from, std::int32_t to) {
  for (Node &node : graph.nodes) std::ranges::replace(node.inputs, from, to);
  std::ranges::replace(graph.outputs, from, to);
}

void Replacements::replace(std::int32_t from, std::int32_t to) {
  if (now(from) == now(to)) return;
  now_[index_of(now(from))] = now(to);
  any_ = true;
}

std::int32_t Replacements::now(std::int32_t id) {
  if (id == kAbsent || index_of(id) >= now_.size()) return id;  // added since
  std::int32_t last = id;
  const auto next = [&](std::int32_t of) -> std::int32_t & { return now_[index_of(of)]; };
  while (index_of(last) < now_.size() && next(last) != kAbsent) last = next(last);
  while (id != last) id = std::exchange(next(id), last);  // shorter for who asks next
  return last;
}

void Replacements::apply(Graph &graph) {
  if (!any_ || stop_asked()) return;
  for (Node &node : graph.nodes)
    for (auto *list : {&node.inputs, &node.outputs})
      for (std::int32_t &id : *list) id = now(id);
  for (std::int32_t &id : graph.outputs) id = now(id);
}

const float *constant_floats(const Graph &graph, std::int32_t id) {
  if (id == kAbsent || !at(graph, id).is_constant || at(graph, id).dtype != DType::F32) return nullptr;
  return static_cast<const float *>(at(graph, id).data.data);
}

// Who is asked to stop leaves a graph that is whole, with what is not wanted in it.
void compact(Graph &graph, const Vector<bool> &dead) {
  if (stop_asked()) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (dead[i]) continue;
    if (kept != i) graph.nodes[kept] = std::move(graph.nodes[i]);
    ++kept;
  }
  graph.nodes.resize(kept);

  if (stop_asked()) return;
  Vector<std::int32_t> place(graph.tensors.size(), -1);
  const auto mark = [&](const Vector<std::int32_t> &ids) {
    for (const std::int32_t id : ids)
      if (id != kAbsent) place[index_of(id)] = 0;
  };
  mark(graph.inputs);
  mark(graph.outputs);
  for (const Node &node : graph.nodes) mark(node.inputs), mark(node.outputs);
  if (stop_asked()) return;
  std::size_t count = 0;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (place[i] < 0) continue;
    place[i] = static_cast<std::int32_t>(count);
    if (count != i) graph.tensors[count] = std::move(graph.tensors[i]);
    ++count;
  }
  if (count == graph.tensors.size()) return;
  graph.tensors.resize(count);
  const auto renumber = [&](Vector<std::int32_t> &ids) {
    for (std::int32_t &id : ids)
      if (id != kAbsent) id = place[index_of(id)];
  };
  renumber(graph.inputs);
  renumber(graph.outputs);
  for (Node &node : graph.nodes) renumber(node.inputs), renumber(node.outputs);
}

void number_sources(Graph &graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) graph.nodes[i].source = static_cast<std::int32_t>(i);
}

bool is_random(Op op) noexcept { return op_row(op).family == OpFamily::Random; }

String fresh_name(const Graph &graph, std::string_view wanted) { return Names(graph).fresh(wanted); }

String Names::fresh(std::string_view wanted) {
  if (seen_ > graph_.tensors.size()) taken_.clear(), seen_ = 0;
  for (; seen_ < graph_.tensors.size(); ++seen_) taken_.insert(graph_.tensors[seen_].name);
  String name(wanted);
  if (taken_.insert(name).second) return name;
  for (std::size_t &i = tried_[name];;) {
    name = format("%.*s~%zu", wanted, ++i);
    if (taken_.insert(name).second) return name;
  }
}

}  // namespace quarry::qir
