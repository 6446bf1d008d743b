// SPDX-License-Identifier: Apache-2.0
// The compiled plan: values (storage in memory) and steps (kernels with parameters and operands) in the order in which
// they run. The compiler makes it from a graph, blob.h stores it, executor.h runs it.
#pragma once

#include <cstdint>
#include <cstring>

#include "backends/cpu/program/shared_weights.h"
#include "graph/graph.h"
#include "kernels/cpu/isa.h"

namespace quarry::cpu {

// How the weights of matrix multiplications are stored: as f16 or bf16 where that holds all of a tensor's exactly, or
// rounded to it.
enum class WeightStorage : std::uint8_t { Exact, F16, BF16 };
// Whether matrix multiplications of f32 are made of such of bf16 (split_shape.h): where that is quicker, never, or
// wherever it is possible.
enum class F32Gemm : std::uint8_t { Auto, Fma, Split };

// Bytes: where values, constants and scratch memory begin.
inline constexpr std::uint64_t kAlign = 64;

enum class StorageKind : std::uint32_t {
  Arena,     // at `offset` of the execution's memory
  Constant,  // in a segment of the container
  Input,     // the caller's, number `index` of the graph's inputs
  Output,    // the caller's, number `index` of the graph's outputs; where the caller gave no room, at `offset` of the
             // execution's memory
  Count
};

// Of an output that the caller gives room for in every run: its `offset`.
inline constexpr std::uint64_t kNoPlace = UINT64_MAX;

struct Value {
  StorageKind storage = StorageKind::Arena;
  std::uint32_t index = 0;  // of input, output or segment
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct Operand {
  std::uint32_t value = 0;
  std::uint32_t reserved = 0;
  std::uint64_t offset = 0;  // bytes
};

// Instead of a kernel's number: a node that cpu-reference's kernels run; and the dynamic region, which is the last
// step.
inline constexpr std::uint32_t kReferenceStep = 0xffffffffu, kRegionStep = 0xfffffffeu;

struct Step {
  std::uint32_t kernel = 0;  // a number of kernels.inc, or kReferenceStep
  std::uint32_t params = 0;  // offset into Plan::params; of a reference step its number
  std::uint32_t first_operand = 0, operand_count = 0;
  std::uint32_t name = 0, op = 0;  // of the node that it came from: offset into Plan::names, and the op's name likewise
  std::int32_t source = -1;        // the node of the graph that was given; -1: none
};

// What profiles say of a step beyond its time.
struct StepNote {
  std::uint64_t bytes_read = 0, bytes_written = 0;  // of its operands
  std::uint32_t shapes = 0;  // "1x3x8x8 f32 -> 1x4x8x8 f32", of the node and what was fused into it: offset into names
  std::uint32_t fused = 0;   // names of the nodes that were fused into it: likewise
};

// By what a node of the graph that was given runs. The numbers are those of QR_PLUGIN_PATH_*.
enum class NodePath : std::uint32_t { Native = 1, Reference = 2, None = 3 };
struct NodePathRow {
  NodePath path = NodePath::None;
  std::uint32_t text = 0;  // "ConvF32", "fused into conv_3", "no work: a view", "reference: LSTM": offset into names
};

// A part of the graph for cpu-reference: QIR bytes; constants in the segment added for subgraphs.
struct ReferenceSubgraph {
  Vector<std::uint8_t> qir;
  std::uint32_t inputs = 0, outputs = 0;  // operands of its step: inputs first
};

// The part of the graph behind the first data-dependent shapes (backends/dynamic).
struct DynamicRegion {
  Vector<std::uint8_t> qir;      // constants as those of subgraphs
  Vector<std::int32_t> sources;  // per node of it: the node of the graph that was given
  std::uint32_t inputs = 0, outputs = 0;
  bool there() const noexcept { return !qir.empty(); }
};

struct Io {
  DType dtype = DType::Unknown;
  qir::Shape shape;  // -1: known after the run; of the dynamic region alone
  String name;
};

struct Plan {
  const kernels::Isa *isa = nullptr;
  Vector<Value> values;
  Vector<Step> steps;
  Vector<StepNote> notes;  // one per step
  Vector<Operand> operands;
  Vector<std::uint8_t> params;
  Vector<char> names;         // NUL-terminated, one after the other
  Vector<NodePathRow> paths;  // one per node of the graph that was given
  Vector<ReferenceSubgraph> subgraphs;
  DynamicRegion region;
  Vector<Io> inputs, outputs;
  std::uint64_t arena_bytes = 0;
  std::uint64_t scratch_bytes = 0;  // the most of any step, per worker
  std::uint64_t shared_bytes = 0;   // likewise, once
};

// Of a step that a kernel runs.
template <class Params>
Params params_of(const Plan &plan, const Step &step) {
  Params p;
  std::memcpy(&p, plan.params.data() + step.params, sizeof p);
  return p;
}

// Constants of kept segments that are no larger are packed too: reading a few of their bytes there may bring 2 MB
// around them into memory.
inline constexpr std::uint64_t kSmallConstant = 64 << 10;

// Contents of constant values, while a plan is made: borrowed from the graph or made by the compiler.
struct Constants {
  struct Entry {
    std::uint32_t value;
    qir::Bytes contents;
    std::uint64_t align;
    SharedBytes shared = nullptr;  // not null: contents are its
  };
  Vector<Entry> entries;
  Vector<Vector<std::uint8_t>> owned;
};

}  // namespace quarry::cpu
