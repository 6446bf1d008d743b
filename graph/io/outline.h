// SPDX-License-Identifier: Apache-2.0
// What a graph's bytes say of it without what its operators mean: for who lists a graph or hands it on. The core reads
// no more; whoever runs a graph reads it whole and by every rule (read_graph).
#pragma once

#include <span>

#include "graph/graph.h"

namespace quarry::qir {

namespace fb {
struct Graph;
struct Model;
struct Node;
}  // namespace fb

class Outline {
 public:
  // The bytes are well formed, every index lies within its list, data within the segments, names are short enough, and
  // inputs and outputs obey validate_tensor. `qir` is borrowed: names point into it.
  static Result<Outline> read(Bytes qir, std::span<const Bytes> segments);

  std::size_t node_count() const noexcept;
  std::string_view node_name(std::size_t node) const noexcept;
  String op_text(std::size_t node) const;                                      // as that of graph.h
  std::span<const std::int32_t> node_inputs(std::size_t node) const noexcept;  // numbers of tensors, or kAbsent
  std::span<const std::int32_t> node_outputs(std::size_t node) const noexcept;
  // How many nodes have each operator, those of subgraphs too; by name.
  Vector<std::pair<String, std::uint64_t>> operators() const;

  // Without data.
  const Vector<Tensor> &inputs() const noexcept { return inputs_; }
  const Vector<Tensor> &outputs() const noexcept { return outputs_; }
  std::size_t tensor_count() const noexcept;
  std::string_view tensor_name(std::int32_t tensor) const noexcept;
  bool is_constant(std::int32_t tensor) const noexcept;

 private:
  Outline() = default;
  Status check(const fb::Graph &graph, std::span<const Bytes> segments, std::uint32_t depth) const;
  String op_text_of(std::uint32_t op) const;

  Vector<std::uint8_t> aligned_;  // a copy, where the bytes given are not as the format wants them
  const fb::Model *model_ = nullptr;
  Vector<Tensor> inputs_, outputs_;
};

}  // namespace quarry::qir
