// SPDX-License-Identifier: Apache-2.0
// What became of each node of the graph that was given: which kernels run it, whose step it went into, or that it needs
// none. Nodes are named by Node::source, which passes keep.
#pragma once

#include "backends/cpu/program/plan.h"
#include "passes/fuse/compose.h"

namespace quarry::cpu {

// The steps of a plan by the nodes that they came from.
class StepsOfNodes {
 public:
  explicit StepsOfNodes(const Plan &plan) {
    for (const Step &step : plan.steps) steps_[step.source].push_back(step);
  }
  std::span<const Step> of(std::int32_t source) const {
    const auto found = steps_.find(source);
    return found == steps_.end() ? std::span<const Step>() : std::span<const Step>(found->second);
  }

 private:
  HashMap<std::int32_t, Vector<Step>> steps_;
};

class NodePathTable {
 public:
  // The graph as it was given; its nodes have been numbered, by less than `sources` (0: by their index).
  NodePathTable(const qir::Graph &given, std::size_t sources);

  void composed(const Vector<passes::Composed> &found);
  // The node has steps of its own, or none: it is another view of what is there.
  void steps(std::int32_t source, std::span<const Step> made);
  void reference(std::int32_t source, qir::Op op);
  void fused(std::int32_t source, std::int32_t into);
  // Steps were joined: the node has those that are `left`, or its work is done with that of the node `into`.
  void chained(std::int32_t source, std::span<const Step> left, std::int32_t into);
  // What runs when its shapes are known: data-dependent shapes.
  void region(const qir::Graph &part);

  void write(Plan &plan) const;
  // For profiles alone: what was fused into each step. Of the nodes nothing is said.
  void write_steps(Plan &plan) const;

 private:
  struct Entry {
    String name;  // of the node
    qir::Op op{};
    Vector<String> kernels;
    bool reference = false, native = false, view = false, late = false;
    std::int32_t into = qir::kNoSource;
  };
  Entry *of(std::int32_t source);
  Vector<std::size_t> ends() const;
  void write_fused(Plan &plan, const Vector<std::size_t> &in) const;
  void add(Entry &entry, String kernel);

  Vector<Entry> paths_;
};

}  // namespace quarry::cpu
