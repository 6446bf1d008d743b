// SPDX-License-Identifier: Apache-2.0
// Runs programs (program.h) node by node. A Program is immutable and may be shared; an Execution is the state of one
// caller.
#pragma once

#include "backends/cpu-reference/program.h"
#include "kernels/reference/kernel.h"

namespace quarry::reference {

// A tensor of a node that ran, as it is stored.
struct RanTensor {
  DType dtype;
  std::uint32_t rank;
  const std::int64_t *dims;
  std::uint64_t bytes;
};
struct NodeRan {
  const qir::Node &node;
  std::span<const RanTensor> inputs, outputs;  // those that are there
  std::uint64_t begin_ns, end_ns;
};

// What a run needs of the world around it. The base class does without: one thread, never stopped, nobody profiles.
class Environment {
 public:
  virtual void parallel_for(std::uint64_t count, void (*body)(void *context, std::uint64_t begin, std::uint64_t end),
                            void *context) {
    if (count != 0) body(context, 0, count);
  }
  virtual bool stopped() const noexcept { return false; }  // from any thread
  virtual Status stop_reason() { return {}; }              // after stopped(): cancelled or deadline_exceeded
  virtual bool profiled() const noexcept { return false; }
  virtual std::uint64_t clock_ns() noexcept { return 0; }
  virtual void node_ran(const NodeRan &) {}

 protected:
  ~Environment() = default;
};

// A tensor in its stored form: packed, row-major.
struct ConstView {
  bool present = false;
  DType dtype = DType::Unknown;
  qir::Shape shape;
  const std::optional<qir::Quantization> *quant = nullptr;  // nullptr or empty: not quantised
  const void *data = nullptr;
};
struct OwnedTensor {
  DType dtype = DType::Unknown;
  qir::Shape shape;
  Vector<std::uint8_t> data;
};

// Runs one node by itself; this is what constant folding means. Outputs are unquantised unless `output_types` says
// otherwise (one entry per output then).
struct OutputType {
  DType dtype = DType::Unknown;
  std::optional<qir::Quantization> quant;
};
Status run_node(const qir::Node &node, const Vector<ConstView> &inputs, Vector<OwnedTensor> &outputs,
                const Vector<OutputType> *output_types = nullptr);

// Data of one input or output of a run.
struct IoBuffer {
  void *data = nullptr;          // output: nullptr leaves the result in the execution's memory and is pointed there
  std::uint64_t size_bytes = 0;  // length of an input, room of an output
  std::uint64_t used_bytes = 0;  // of an output, written
  bool wanted = true;
  std::uint32_t rank = 0;
  std::int64_t dims[qir::kMaxRank] = {};
};

class Execution : public HeapObject {
 public:
  // The program outlives the execution. Takes all memory whose size is known.
  explicit Execution(const Program &program);
  ~Execution();
  Execution(const Execution &) = delete;
  Execution &operator=(const Execution &) = delete;

  // Allocates nothing after the first run where all shapes are known. Results left in the execution's memory are valid
  // until the next run.
  Status run(IoBuffer *inputs, std::size_t input_count, IoBuffer *outputs, std::size_t output_count,
             Environment &environment);

 private:
  friend class NodeContext;
  struct State;
  Unique<State> state_;
};

}  // namespace quarry::reference
