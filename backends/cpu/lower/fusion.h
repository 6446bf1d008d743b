// SPDX-License-Identifier: Apache-2.0
// Which nodes run as one step: a matrix multiplication or convolution with the bias, the addition and the activation
// behind it; attention.
#pragma once

#include <optional>

#include "graph/edit/graph_edit.h"
#include "kernels/cpu/params.h"

namespace quarry::cpu {

// The activation that a node is, of its first input; nothing where it is none that kernels know.
std::optional<kernels::Activation> activation_of(const qir::Graph &graph, const qir::Node &node,
                                                 DType dtype = DType::F32);

struct Group {
  Vector<std::int32_t> members;  // nodes, in order
  std::int32_t root = -1;        // the matrix multiplication, or whatever node stands first
  std::int32_t last = -1;  // the group is lowered when its last node's turn comes, for then all operands are there
  std::int32_t output = qir::kAbsent;    // the tensor that the last node makes
  std::int32_t bias = qir::kAbsent;      // a constant per column, from an Add
  std::int32_t residual = qir::kAbsent;  // the other operand of an Add
  kernels::Residual residual_mode = kernels::Residual::None;
  std::int32_t mid = qir::kAbsent;  // quantised: the tensor between the root and the Add
  kernels::Activation act;
  float scale = 1;  // of a MatMul's sums, before all that; of attention: of the scores
  // Attention: root is the second MatMul.
  bool attention = false;
  std::int32_t q = qir::kAbsent, k_transposed = qir::kAbsent, v = qir::kAbsent, mask = qir::kAbsent;
  // An inverted residual block: the groups of the convolutions before this one, which run with it; numbers of groups,
  // -1 where there is none.
  std::int32_t expand = -1, depthwise = -1;
  bool part_of_block = false;  // is one of those
};

class Fusion {
 public:
  Fusion(const qir::Graph &graph, const qir::Uses &uses);
  // The group of a node; every node has one, if only its own.
  const Group &group_of(std::size_t node) const { return groups_[index_of(of_node_[node])]; }
  const Group &group(std::int32_t number) const { return groups_[index_of(number)]; }

 private:
  // Takes what follows into the group: scale, bias, residual, activation. Of a quantised result no activation (the
  // types of results have its limits already), and nothing that another node reads as well.
  void grow(Group &group);
  bool take_sum(Group &group, const qir::Node &node, bool quantized) const;
  bool grow_attention(std::size_t node, Group &group);
  void find_blocks();
  bool taken(std::size_t node) const { return of_node_[node] >= 0; }
  std::int32_t only_user(std::int32_t tensor) const;  // a node that is free, or -1

  const qir::Graph &graph_;
  const qir::Uses &uses_;
  Vector<Group> groups_;
  Vector<std::int32_t> of_node_;
};

}  // namespace quarry::cpu
