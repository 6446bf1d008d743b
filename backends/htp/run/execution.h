// SPDX-License-Identifier: Apache-2.0
// Runs a graph of a loaded context.
#pragma once

#include "backends/htp/run/context.h"
#include "backends/htp/run/dynamic_region.h"
#include "backends/htp/run/run_queue.h"
#include "quarry/backend.h"

namespace quarry::htp {

// One run's state: the library's tensors with the caller's pointers in them, and room for what has another type there.
class Binding {
 public:
  explicit Binding(const BlobGraph &graph);

  // Checks what the caller gave, and converts it.
  Status take(LoadedContext &context, bool registers_memory, const qr_run_request &request);
  // An error where a 64-bit result lies at the end of the 32 bits that the device has: it may be another number.
  Status give_outputs(const qr_run_request &request) const;

  Vector<qnn::Tensor> inputs, outputs;
  std::uint32_t input_count() const noexcept { return static_cast<std::uint32_t>(inputs.size()); }
  std::uint32_t output_count() const noexcept { return static_cast<std::uint32_t>(outputs.size()); }

 private:
  // How a value goes between the session's type and the library's: i64 and u64 have 32 bits there, f32 is integers, f64
  // and bf16 are f32.
  enum class Path : std::uint8_t { AsIs, Narrow, NarrowUnsigned, Quantize, Reals };
  struct BoundTensor {
    std::size_t io = 0;  // which of the session's inputs or outputs
    Path path = Path::AsIs;
    std::uint64_t session_bytes = 0, device_bytes = 0;  // of one batch
    Vector<std::uint32_t> dims;                         // the library's, of all batches of the run
    Vector<std::uint8_t> room;   // where the path is not AsIs, or the caller does not want the output
    Vector<std::uint8_t> given;  // an output for whose batches the caller has no room
  };
  static void bind(const Vector<BlobTensor> &from, Vector<qnn::Tensor> &tensors, Vector<BoundTensor> &places);
  Status bind_memory(LoadedContext *registers, const qr_io_buffer &io, const BoundTensor &place,
                     qnn::Tensor &tensor) const;
  Status take_input(LoadedContext *registers, BoundTensor &place, const qr_io_buffer &io, qnn::Tensor &tensor);
  Status count_batches(const qr_run_request &request);
  Status place_outputs(LoadedContext *registers, const qr_run_request &request);
  Status give_wide(const BoundTensor &place, const qr_run_request &request) const;

  const BlobGraph &graph_;
  std::uint64_t batches_ = 1;  // of the run
  Vector<BoundTensor> input_places_, output_places_;
};

class Execution : public HeapObject {
 public:
  Execution(LoadedContext &context, std::size_t graph, const Settings &settings);
  ~Execution();
  // Of those that change at run time.
  Status set_option(std::string_view key, std::string_view value);
  Status run(const qr_run_request &request, const plugin::StopToken &stop);

  // What submitted runs share with those above.
  LoadedContext &context() noexcept { return context_; }
  const BlobGraph &graph() const noexcept { return graph_; }
  qnn::Handle handle() const noexcept { return context_.graph(index_); }
  Status check_enabled() const;  // by htp.config_file; with the turn
  const RunPower &power() const noexcept { return power_; }
  bool traces() const noexcept { return traces_; }
  std::string_view trace_folder() const { return context_.settings().text("htp.optrace_dir"); }
  bool registers_memory() const noexcept { return registers_memory_; }
  std::uint32_t queue_priority() const noexcept;  // in the queue of the process

 private:
  Status execute(const qr_run_request &request, const plugin::StopToken &stop, std::uint32_t generation);
  Status call_library(const qr_run_request &request, const plugin::StopToken &stop);
  void bind_stages(const Settings &settings);
  Status run_stages(const qr_run_request &request, const plugin::StopToken &stop);

  LoadedContext &context_;
  const BlobGraph &graph_;
  std::size_t index_;
  Binding binding_;
  RunPower power_;
  qnn::Priority priority_;
  bool is_efficient_ = false;  // ep.dynamic.workload_type: behind all others
  bool traces_ = false;
  bool registers_memory_ = false;

  // Of a graph of stages (stages.cpp): what runs each, and the values between them.
  struct Value {
    std::uint64_t bytes = 0;
    const BlobTensor *type = nullptr;
    Vector<std::uint8_t> room;  // of those that the session does not have
  };
  Vector<Unique<Execution>> stages_;
  Vector<Value> values_;
  Vector<qr_io_buffer> stage_inputs_, stage_outputs_;
  Unique<RegionRun> region_;  // of a graph that has a dynamic region
};

// What a run has come to by what the library returned.
Status outcome_of(std::string_view call, qnn::Error error, const plugin::StopToken &stop, const qnn::LogLines *lines);
Status lost_while_waiting();

}  // namespace quarry::htp
