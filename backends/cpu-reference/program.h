// SPDX-License-Identifier: Apache-2.0
// A graph made ready to run: a kernel per node, a place for every tensor, and which nodes learn their shapes only at
// run time.
#pragma once

#include <cstdint>
#include <span>

#include "graph/graph.h"
#include "kernels/reference/kernel.h"

namespace quarry::reference {

enum class StorageKind : std::uint8_t {
  None,  // nobody makes it
  Constant,
  Input,
  Output,   // made by a node, and a graph output: lies in the caller's memory where that fits
  Arena,    // at a fixed offset
  Dynamic,  // shape unknown until the run: memory of its own
};

struct TensorPlan {
  StorageKind storage = StorageKind::None;
  std::uint64_t bytes = 0;   // stored; 0 where unknown
  std::uint64_t offset = 0;  // in the arena
};

struct NodePlan {
  const KernelRow *row = nullptr;
  Handling handling = Handling::Compute;  // of this node: Move may have become Compute
  bool infers = false;                    // shapes are inferred again before each run
};

// QuantizeLinear's output and DequantizeLinear's first input are stored integers, whether their type is quantised or
// not (see graph.h).
inline bool reads_stored(const qir::Node &node, std::size_t input) noexcept {
  return node.op == qir::Op::DequantizeLinear && input == 0;
}
inline bool writes_stored(const qir::Node &node, std::size_t output) noexcept {
  return node.op == qir::Op::QuantizeLinear && output == 0;
}

// Why this backend cannot run a node: backend_op, backend_type or backend_limit. ok() where it can. Checks subgraphs
// too.
Status check_node(const qir::Graph &graph, const qir::Node &node);

class Program : public HeapObject {
 public:
  // The graph is borrowed, and its shapes are not believed: every node is inferred and compared. `offsets` is what
  // append_plan gave when the graph was compiled, checked for overlaps; nullptr: a plan is made.
  static Result<Unique<Program>> build(const qir::Graph &graph, std::span<const std::uint64_t> *offsets = nullptr);

  const qir::Graph &graph() const noexcept { return *graph_; }
  const TensorPlan &tensor(std::size_t index) const noexcept { return tensors_[index]; }
  const NodePlan &node(std::size_t index) const noexcept { return nodes_[index]; }
  const Program &subprogram(std::size_t node, std::size_t index) const noexcept { return *subprograms_[node][index]; }
  std::size_t subprogram_count(std::size_t node) const noexcept { return subprograms_[node].size(); }
  std::uint64_t arena_bytes() const noexcept { return arena_bytes_; }
  std::uint64_t total_arena_bytes() const noexcept;  // with subgraphs
  std::uint64_t conversion_bytes()
      const noexcept;  // the most that a node's operands need in the forms of kernels; known shapes only
  std::uint64_t constant_bytes() const noexcept;

  // The plan as numbers: per graph the arena's size and the offset of every tensor, subgraphs after their graph.
  void append_plan(Vector<std::uint64_t> &out) const;

  Program() = default;

 private:
  struct Lifetime {
    std::int32_t first, last;
    std::int32_t tensor;
  };
  Status place_tensors(Vector<Lifetime> &lifetimes);
  Status plan_node(std::size_t index);
  Status make_plan(const Vector<Lifetime> &lifetimes);
  Status adopt_plan(const Vector<Lifetime> &lifetimes, std::span<const std::uint64_t> *offsets);

  const qir::Graph *graph_ = nullptr;
  Vector<TensorPlan> tensors_;
  Vector<NodePlan> nodes_;
  Vector<Vector<Unique<Program>>> subprograms_;
  std::uint64_t arena_bytes_ = 0;
};

}  // namespace quarry::reference
