// SPDX-License-Identifier: Apache-2.0
// What passes need to look around in a graph.
#pragma once

#include <span>

#include "graph/graph.h"

namespace quarry::qir {

// Who makes and who uses each tensor. Made once per sweep of a pass; a pass that rewires keeps to what it has updated
// here.
class Uses {
 public:
  explicit Uses(const Graph &graph);
  Uses(const Graph &graph, const Vector<bool> &dead);  // nodes marked dead use nothing

  static constexpr std::int32_t kNobody = -1;
  // False: the tensor was added since.
  bool knows(std::int32_t tensor) const { return index_of(tensor) < makers_.size(); }
  // What is absent, or was added since, nobody makes and nobody uses.
  std::int32_t maker(std::int32_t tensor) const {
    return knows(tensor) ? makers_[index_of(tensor)] : kNobody;
  }  // a node, or kNobody
  // Nodes, one entry per input that reads the tensor.
  std::span<const std::int32_t> users(std::int32_t tensor) const {
    if (!knows(tensor)) return {};
    const auto at = index_of(tensor);
    return {users_.data() + first_user_[at], users_.data() + first_user_[at + 1]};
  }
  bool is_output(std::int32_t tensor) const { return knows(tensor) && outputs_[index_of(tensor)]; }
  bool is_input(std::int32_t tensor) const { return knows(tensor) && inputs_[index_of(tensor)]; }
  // One node reads it, once, and it is no output of the graph.
  bool used_once(std::int32_t tensor) const { return users(tensor).size() == 1 && !is_output(tensor); }

 private:
  Vector<std::int32_t> makers_;
  Vector<std::uint32_t> first_user_;  // of each tensor in users_; and the end
  Vector<std::int32_t> users_;
  Vector<bool> outputs_, inputs_;
};

// Every reader of `from` (nodes and graph outputs) reads `to`. It looks at the whole graph: who replaces many has
// Replacements.
void replace_uses(Graph &graph, std::int32_t from, std::int32_t to);

// Tensors that stand for others, for a pass that meets nodes in order and has them replaced at its end.
class Replacements {
 public:
  explicit Replacements(const Graph &graph) : now_(graph.tensors.size(), kAbsent) {}
  void replace(std::int32_t from, std::int32_t to);
  std::int32_t now(std::int32_t id);  // what stands for the tensor; kAbsent for kAbsent
  // Writes them into nodes, what these make included, and graph outputs.
  void apply(Graph &graph);

 private:
  Vector<std::int32_t> now_;  // kAbsent: itself
  bool any_ = false;
};

// The values of an f32 constant; nullptr: it is none.
const float *constant_floats(const Graph &graph, std::int32_t id);
// Takes out the nodes that are marked, and tensors that no node, input or output mentions any more.
void compact(Graph &graph, const Vector<bool> &dead);
// Numbers the nodes: Node::source becomes the index.
void number_sources(Graph &graph);
// True where two runs of the operator on the same inputs may differ.
bool is_random(Op op) noexcept;
// A name that no tensor of the graph has. It looks at all of them: who adds many asks Names.
String fresh_name(const Graph &graph, std::string_view wanted);

// New names for many tensors. Knows the graph's from the first question on, and those that were added since.
class Names {
 public:
  explicit Names(const Graph &graph) : graph_(graph) {}
  String fresh(std::string_view wanted);

 private:
  const Graph &graph_;
  std::size_t seen_ = 0;
  StringSet taken_;
  StringMap<std::size_t> tried_;  // numbers behind a name
};

}  // namespace quarry::qir
