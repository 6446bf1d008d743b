// SPDX-License-Identifier: Apache-2.0
// What a graph becomes: steps over values in device memory. A plan holds no source and no device: both follow when it
// is loaded.
#pragma once

#include "backends/gpu/kernels/kernel.h"
#include "graph/graph.h"

namespace quarry::gpu {

enum class StorageKind : std::uint32_t {
  Arena,     // memory of an execution; index: which piece of it
  Constant,  // index: a segment
  Input,     // index: of the graph's inputs
  Output,
};

struct Value {
  StorageKind storage = StorageKind::Arena;
  std::uint32_t index = 0;
  std::uint64_t offset = 0, bytes = 0;
};

struct Operand {
  std::uint32_t value = 0, dtype = 0;  // DType
  std::int32_t offset = 0;             // elements
  std::int32_t zero = 0;               // StepOperand's
  float scale = 0;
  std::uint32_t reserved = 0;
};

struct Step {
  std::uint32_t kernel = 0;  // Kernel
  std::uint32_t first_operand = 0, operand_count = 0;
  // In Plan::numbers: the fields, the rank, the dimensions, and the strides of each operand.
  std::uint32_t numbers = 0;
  std::uint32_t first_code = 0, code_count = 0;
  std::uint32_t name = 0, op = 0, shapes = 0, fused = 0;  // texts in Plan::names
  std::int32_t source = -1;                               // node of the graph that was given
  std::uint32_t reserved = 0;
};

// By what a node of the graph that was given runs.
struct NodePathRow {
  std::uint32_t path = 0, text = 0;  // QR_PLUGIN_PATH_*; in Plan::names
};

struct Io {
  DType dtype = DType::Unknown;
  qir::Shape shape;
  String name;
};

struct Plan {
  Vector<Value> values;
  Vector<Operand> operands;
  Vector<Step> steps;
  Vector<std::int32_t> numbers;
  Vector<Instruction> code;
  Vector<char> names;  // texts, each with a zero behind it
  Vector<NodePathRow> paths;
  Vector<std::uint64_t> pieces;  // bytes of the arena's
  Vector<Io> inputs, outputs;
};

// The part of the graph behind the first data-dependent shape, or whose shapes each run gives (backends/dynamic).
// Inputs and outputs of the plan are then those of the part before it.
struct DynamicRegion {
  Vector<std::uint8_t> qir;            // empty: there is none
  Vector<std::int32_t> sources;        // per node, in the graph that was given
  Vector<Io> inputs, outputs;          // the model's
  Vector<std::uint32_t> plan_inputs;   // per input of the plan: which of the model's
  Vector<std::uint32_t> plan_outputs;  // per output of the plan likewise, or kRegionOnly
  Vector<std::uint32_t>
      reads;  // per input of the region: which of the model's, or behind those: which output of the plan
  Vector<std::uint32_t> writes;  // per output of the region: which of the model's
  std::uint32_t segment = 0;     // of its constants
  bool is_range = false;         // of shapes: all of the model, with constants in the segments before that one too
};
inline constexpr std::uint32_t kRegionOnly = UINT32_MAX;

// Sub-buffers, and images that are views of them (64 texels), begin at multiples of this on every device that is known.
inline constexpr std::uint64_t kAlign = 1024;
// A piece of the arena; devices of OpenCL 1.2 give a quarter of their memory, or 128 MB, in one.
inline constexpr std::uint64_t kLargestPiece = std::uint64_t{1} << 30;

// What a value that is read as a row of texels takes: whole rows.
constexpr std::uint64_t row_image_bytes(std::uint64_t bytes, std::uint64_t element) noexcept {
  const std::uint64_t row = static_cast<std::uint64_t>(kRowTexels) * 4 * element;
  return (bytes + row - 1) / row * row;
}

// Gives values of the arena their offsets: those that live at the same time lie apart. May be done again.
Status assign_offsets(Plan &plan);

}  // namespace quarry::gpu
