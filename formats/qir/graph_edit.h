// SPDX-License-Identifier: Apache-2.0
// What passes need to look around in a graph.
#pragma once

#include "formats/qir/graph.h"

namespace quarry::qir {

// Who makes and who uses each tensor. Made once per sweep of a pass; a pass that rewires keeps to what it has updated
// here.
class Uses {
 public:
  explicit Uses(const Graph &graph);
  Uses(const Graph &graph, const Vector<bool> &dead);  // nodes marked dead use nothing

  static constexpr std::int32_t kNobody = -1;
  // False: the tensor was added since.
  bool knows(std::int32_t tensor) const { return static_cast<std::size_t>(tensor) < makers_.size(); }
  std::int32_t maker(std::int32_t tensor) const {
    return makers_[static_cast<std::size_t>(tensor)];
  }  // a node, or kNobody
  // Nodes, one entry per input that reads the tensor.
  const Vector<std::int32_t> &users(std::int32_t tensor) const { return users_[static_cast<std::size_t>(tensor)]; }
  bool is_output(std::int32_t tensor) const { return outputs_[static_cast<std::size_t>(tensor)]; }
  bool is_input(std::int32_t tensor) const { return inputs_[static_cast<std::size_t>(tensor)]; }
  // One node reads it, once, and it is no output of the graph.
  bool used_once(std::int32_t tensor) const { return users(tensor).size() == 1 && !is_output(tensor); }

 private:
  Vector<std::int32_t> makers_;
  Vector<Vector<std::int32_t>> users_;
  Vector<bool> outputs_, inputs_;
};

// Every reader of `from` (nodes and graph outputs) reads `to`.
void replace_uses(Graph &graph, std::int32_t from, std::int32_t to);

inline Tensor &at(Graph &graph, std::int32_t id) { return graph.tensors[static_cast<std::size_t>(id)]; }
inline const Tensor &at(const Graph &graph, std::int32_t id) { return graph.tensors[static_cast<std::size_t>(id)]; }
inline std::int32_t input_of(const Node &node, std::size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : kAbsent;
}

// The values of an f32 constant; nullptr: it is none.
const float *constant_floats(const Graph &graph, std::int32_t id);
// Takes out the nodes that are marked, and tensors that no node, input or output mentions any more.
void compact(Graph &graph, const Vector<bool> &dead);
// Numbers the nodes: Node::source becomes the index.
void number_sources(Graph &graph);
// True where two runs of the operator on the same inputs may differ.
bool is_random(Op op) noexcept;
// A name that no tensor of the graph has.
String fresh_name(const Graph &graph, std::string_view wanted);

}  // namespace quarry::qir
