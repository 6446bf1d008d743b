// SPDX-License-Identifier: Apache-2.0
// One caller's runs: a queue, memory for values, a kernel object for each step with its arguments set.
#pragma once

#include "backends/common/plugin_support.h"
#include "backends/gpu/context.h"
#include "backends/gpu/shared_memory.h"

namespace quarry::gpu {

class Execution : public HeapObject {
 public:
  static Result<Unique<Execution>> make(const LoadedContext &context, std::string_view priority);
  explicit Execution(const LoadedContext &context) : context_(context) {}
  Status run(const qr_run_request &request, const qr_host &host);
  // After the context was opened again on another engine.
  Status reopen();

 private:
  Status prepare(std::string_view priority);
  Status enqueue(cl_command_queue queue, const qr_run_request &request, const plugin::StopToken &stop, bool profiled);
  Status borrow(const qr_run_request &request);
  void give_back(Status &status);
  Status bind(std::size_t border, const SharedMemory *memory, std::uint64_t offset);
  Status take_results(cl_command_queue queue, const qr_run_request &request);
  void tell(const qr_profile_sink &profile);

  const LoadedContext &context_;
  std::shared_ptr<const Engine> engine_;  // whose objects these are; none: there are none
  String priority_;
  opencl::Queue queue_, profiled_queue_;
  Vector<opencl::Memory> pieces_, parts_;
  Vector<cl_mem> memory_;  // per value
  // What an input or output is in: memory of its own, or the caller's.
  struct Border {
    std::uint32_t value = UINT32_MAX;
    cl_mem own = nullptr;
    std::uint64_t id = 0, offset = 0;  // of the caller's memory; id 0: in its own
    opencl::Memory part;
    SharedMemory *lent = nullptr;                             // to the run
    bool copied = false;                                      // from or to there, for it lies at an odd offset
    Vector<std::pair<std::uint32_t, std::uint32_t>> readers;  // step and argument
  };
  Vector<Border> borders_;                  // inputs, then outputs
  Vector<std::uint32_t> inputs_, outputs_;  // values, per input and output; kNone
  Vector<opencl::Kernel> kernels_;          // per step
  Vector<opencl::Event> events_;            // per step, while a run is profiled; else the last of a batch
};

}  // namespace quarry::gpu
