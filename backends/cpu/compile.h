// SPDX-License-Identifier: Apache-2.0
// A graph made into a plan with all its memory placed, and the parts of a blob.
#pragma once

#include "backends/cpu/plan.h"

namespace quarry::cpu {

class Ways;

struct CompiledPlan {
  Plan plan;
  std::size_t kept_segments =
      0;  // of those that the graph's constants point into: all where the plan reads one, or none
  // What becomes segments behind the kept ones: packed weights, and constants of subgraphs that cpu-reference runs
  // (empty where there are none).
  Vector<std::uint8_t> packed, subgraph_constants;
  std::uint64_t weights_bytes = 0, io_bytes = 0;
  // With which the tail's plans will be made.
  bool winograd = true;
  WeightStorage weights = WeightStorage::Exact;
  F32Products f32_products = F32Products::Auto;
};

struct CompileOptions {
  const kernels::Isa *isa = nullptr;
  bool winograd = true;
  WeightStorage weights = WeightStorage::Exact;
  F32Products f32_products = F32Products::Auto;
  // Steps alone, to see by what each node would run: weights are not packed, nothing is placed. The result is no plan.
  bool look_only = false;
  // The nodes have numbers already, less than this: those of a graph that this one was made from. 0: they have none.
  std::size_t sources = 0;
};

// `segments` are those that the graph's constants point into; where they are kept they keep their numbers. Then come
// `packed` and `subgraph_constants`.
Result<CompiledPlan> compile(qir::Graph graph, std::span<const qir::Bytes> segments, const CompileOptions &options);

// Makes one step of elementwise steps that come one behind the other (chain.cpp).
void chain_steps(Plan &plan, Ways &ways);

// Lets steps read and write f16 and bf16 themselves where Casts stand beside them (halves.cpp).
void read_halves(Plan &plan, Ways &ways);

// Gives every arena and output value its offset, and lets elementwise steps write where they read (arena.cpp).
void place_values(Plan &plan);

}  // namespace quarry::cpu
