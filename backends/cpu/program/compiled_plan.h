// SPDX-License-Identifier: Apache-2.0
// A plan with all its memory placed, the parts of a blob beside it, and the choices that it was made with.
#pragma once

#include <span>

#include "backends/cpu/program/plan.h"

namespace quarry::cpu {

struct CompiledPlan {
  Plan plan;
  std::size_t kept_segments =
      0;  // of those that the graph's constants point into: all where the plan reads one, or none
  // What becomes segments behind the kept ones: packed weights, and constants of subgraphs that cpu-reference runs
  // (empty where there are none).
  Vector<std::uint8_t> packed, subgraph_constants;
  // Segments behind those, of a plan that shares weights: a plan of a range.
  Vector<SharedBytes> shared;
  // Of a program for a range: the weights that its plans share, which lie in `packed`, and what a plan of it takes.
  struct RangeWeight {
    String key;
    std::uint64_t offset = 0, bytes = 0;
  };
  Vector<RangeWeight> range_weights;
  bool is_range = false;
  std::uint64_t range_arena_bytes = 0, range_scratch_bytes = 0;
  std::uint64_t weights_bytes = 0, io_bytes = 0;
  // How many rules of the lowering refused and had written something (Lowering::traces): tests expect none.
  std::uint32_t refusals_with_trace = 0;
  // With which the plans of the dynamic region will be made.
  bool winograd = true;
  WeightStorage weights = WeightStorage::Exact;
  F32Gemm f32_gemm = F32Gemm::Auto;
};

// An input and an output of a graph that are one block, with room for `capacity` entries along the axis: the output
// begins with the input's entries where they lie (qr_plugin_appended). In the plan the block is the output.
struct Appended {
  std::uint32_t input = 0, output = 0, axis = 0;
  std::int64_t capacity = 0;
};

struct CompileOptions {
  const kernels::Isa *isa = nullptr;
  bool winograd = true;
  WeightStorage weights = WeightStorage::Exact;
  F32Gemm f32_gemm = F32Gemm::Auto;
  // Steps alone, to see by what each node would run: weights are not packed, nothing is placed. The result is no plan.
  bool dry_run = false;
  // The nodes have numbers already, less than this: those of a graph that this one was made from. 0: they have none.
  std::size_t sources = 0;
  SharedWeights *shared = nullptr;  // of a plan of a range: what it packs is kept there
  // Of a range whose program is made: its plan was compiled in other shapes before, nobody asks it by what nodes run.
  bool again = false;
  std::string_view prepare;            // of a range: the option shape.prepare
  std::span<const Appended> appended;  // of a graph whose shapes are all known
};

}  // namespace quarry::cpu
