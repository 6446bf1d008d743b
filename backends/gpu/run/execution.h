// SPDX-License-Identifier: Apache-2.0
// One caller's runs: a queue, memory for values, a kernel object for each step with its arguments set.
#pragma once

#include <map>
#include <optional>

#include "backends/common/plugin_support.h"
#include "backends/gpu/run/context.h"
#include "backends/gpu/run/recorder.h"
#include "backends/gpu/run/shared_memory.h"

namespace quarry::gpu {

// What a caller wants of its runs.
struct RunOptions {
  String priority = "normal";
  std::uint64_t depth = 0;  // so many submitted runs may be under way
  bool record = true;       // kernels, where the driver can
  std::size_t plans = 16;   // of a range: so many are kept (the option shape.plans)
};

class Execution : public HeapObject {
 public:
  static Result<Unique<Execution>> make(const LoadedContext &context, const RunOptions &options);
  explicit Execution(const LoadedContext &context) : context_(context) {}
  Status run(const qr_run_request &request, const qr_host &host);
  // After the context was opened again on another engine. What was under way is lost.
  Status reopen();

  // Hands a run over to the device, as far as that needs no waiting; wait(), which may run beside, does the rest of it.
  // Runs end in the order in which they were submitted, and are waited for in that order.
  Result<std::uint64_t> submit(const qr_run_request &request, const qr_host &host);
  Status wait(std::uint64_t ticket);
  const qr_run_request &request_of(std::uint64_t ticket) noexcept { return *run_of(ticket).request; }
  // In place of wait(), and beside reopen(): whether nothing was begun of the run.
  bool drop(std::uint64_t ticket);

 private:
  // What an input or output is in: memory of its own, or the caller's.
  struct IoBinding {
    std::uint32_t value = UINT32_MAX;
    cl_mem own = nullptr;
    std::uint64_t id = 0, offset = 0;                         // of the caller's memory; id 0: in its own
    std::shared_ptr<const opencl::Parts> parts;               // of which it is one
    Vector<std::pair<std::uint32_t, std::uint32_t>> readers;  // step and argument
  };
  // The caller's memory that a run has, for a binding.
  struct Loan {
    SharedMemory *memory = nullptr;
    bool copied = false;  // from or to there: it lies at an odd offset, or it is one of too many parts
  };
  // A run and how far it is.
  struct Run : HeapObject {
    const qr_run_request *request = nullptr;
    const qr_host *host = nullptr;
    std::optional<plugin::StopToken> stop;
    Vector<Loan> loans;              // per binding
    Vector<opencl::Event> events;    // per step, while it is profiled; else the last of a batch
    opencl::Event end;               // of a submitted run
    const Engine *engine = nullptr;  // on which it was begun; none: on none, or that is lost
    std::size_t next = 0;            // step
    Recorder::Kept *kept = nullptr;  // null: kernels go one by one
    std::uint64_t launches = 0;      // calls that handed kernels over
    std::int64_t faults[2] = {};     // whether a kernel met an index that names no element, and which
    bool profiled = false, begun = false, handed = false;
    Status status;  // why it was not handed over
  };

  Status prepare();
  Status make_values();
  Status make_kernels();
  void list_readers(std::uint32_t v, IoBinding &binding);
  // Images that are views of values between steps, by value and element type.
  using Views = std::map<std::pair<std::uint32_t, std::uint32_t>, cl_mem, std::less<>,
                         Alloc<std::pair<const std::pair<std::uint32_t, std::uint32_t>, cl_mem>>>;
  Result<cl_mem> view_of(const Operand &operand, Views &known);
  Run &run_of(std::uint64_t ticket) noexcept { return *runs_[1 + (ticket - 1) % (runs_.size() - 1)]; }
  void set(Run &run, const qr_run_request &request, const qr_host &host);
  cl_command_queue queue_of(const Run &run) const noexcept;
  Status begin(Run &run);
  enum class Blocking { No, Yes };
  Status hand_over(Run &run, Blocking blocking, bool with_end);
  void try_hand_over(Run &run, Blocking blocking);
  Status finish(Run &run, Status status);
  Status borrow(Run &run);
  void give_back(Run &run, Status &status);
  Status bind(std::size_t binding, const SharedMemory *memory, cl_mem part, std::uint64_t offset);
  Status enqueue(Run &run, std::size_t step);
  bool enqueue_recorded(Run &run);
  Status take_results(Run &run);
  Status check_events(const Run &run) const;
  void report(const Run &run);

  const LoadedContext &context_;
  std::shared_ptr<const Engine> engine_;  // whose objects these are; none: there are none
  RunOptions options_;
  opencl::Queue queue_, profiled_queue_;
  std::atomic<cl_command_queue> last_queue_ = nullptr;  // of the run that was begun last
  Vector<opencl::Memory> pieces_;
  opencl::Parts parts_;
  opencl::Memory faults_;                   // Run::faults on the device; none: no kernel reports any
  Vector<cl_mem> memory_;                   // per value
  Vector<IoBinding> bindings_;              // inputs, then outputs
  Vector<std::uint32_t> inputs_, outputs_;  // values, per input and output; kNone
  Vector<opencl::Kernel> kernels_;          // per step
  Recorder recorder_;
  Vector<Recorder::BoundBuffer> bound_;      // per binding, of the run that is begun
  std::atomic<std::uint64_t> launches_ = 0;  // of the last run without a profile of nodes
  Vector<Unique<Run>> runs_;                 // run()'s, then the submitted ones'

  // Who hands over is the waiting one, or a submitting one where nothing is left to hand over before its run.
  std::mutex mutex_;
  std::uint64_t submitted_ = 0, handed_ = 0;  // so many
};

}  // namespace quarry::gpu
