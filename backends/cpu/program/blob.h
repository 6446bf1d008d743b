// SPDX-License-Identifier: Apache-2.0
// The context blob: the plan as flat tables, used where it lies. A blob that is read is not trusted: each table is
// bounded, each step's kernel is asked what its parameters imply, and every operand is compared with that, so that
// running it stays inside its memory whatever it says.
#pragma once

#include <algorithm>
#include <span>

#include "backends/cpu-reference/program.h"
#include "backends/cpu/program/compiled_plan.h"
#include "backends/dynamic/dynamic_region.h"

namespace quarry::cpu {

inline constexpr std::uint32_t kBlobVersion = 14;

Vector<std::uint8_t> write_blob(const CompiledPlan &compiled);

// What a header says without looking at the rest.
struct BlobFigures {
  std::uint64_t weights_bytes = 0, arena_bytes = 0, io_bytes = 0, scratch_bytes = 0;
};
Result<BlobFigures> read_figures(qir::Bytes blob);

// The dynamic region of a plan (backends/dynamic).
struct LoadedRegion : HeapObject {
  Vector<Io> inputs;              // of the region
  Vector<std::uint32_t> outputs;  // which of the plan's each is
  dynamic::Pieces pieces;
  Vector<qir::Bytes> constants;  // their segments; none where there are none
  std::size_t sources = 0;       // nodes of the graph that was compiled
  const kernels::Isa *isa = nullptr;
  bool winograd = true;
  WeightStorage weights = WeightStorage::Exact;
  F32Gemm f32_gemm = F32Gemm::Auto;
  Unique<SharedWeights> shared;  // of a range: of all executions; nullptr: it is none
  Vector<bool> given;            // per output of the plan, as far as it is long
  bool gives(std::uint64_t output) const noexcept { return output < given.size() && given[output]; }
};

// A loaded plan; tables and constants point into blob and segments.
struct LoadedPlan : HeapObject {
  const kernels::Isa *isa = nullptr;
  std::span<const Value> values;
  std::span<const Step> steps;
  std::span<const StepNote> notes;  // per step
  std::span<const Operand> operands;
  const std::uint8_t *params = nullptr;
  std::string_view names;
  Vector<const std::byte *> constants;  // per value; nullptr: not a constant
  std::span<const NodePathRow> paths;   // per node of the graph that was compiled
  Vector<Io> inputs, outputs;
  std::uint64_t arena_bytes = 0, scratch_bytes = 0, shared_bytes = 0;
  struct LoadedSubgraph : HeapObject {
    qir::Graph graph;
    Unique<reference::Program> program;
    qir::Bytes bytes;  // of the blob
  };
  Vector<Unique<LoadedSubgraph>> subgraphs;
  Unique<LoadedRegion> region;  // nullptr: all shapes are known
  const char *name(std::uint32_t offset) const noexcept { return names.data() + offset; }
};
Result<Unique<LoadedPlan>> read_blob(qir::Bytes blob, std::span<const qir::Bytes> segments);
// Whether a kernel's step stays inside its operands, as its parameters are.
Status check_kernel_step(const LoadedPlan &plan, const Step &step);

}  // namespace quarry::cpu
