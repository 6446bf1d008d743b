// SPDX-License-Identifier: Apache-2.0
// Runs a graph of a loaded context. One execution is one caller's state: the library's tensors with the caller's
// pointers in them, and room for what has another type there.
#pragma once

#include "backends/htp/context.h"
#include "backends/htp/run_queue.h"
#include "quarry/backend.h"

namespace quarry::htp {

class Execution {
 public:
  Execution(LoadedContext &context, std::size_t graph, const Settings &settings);
  // Of those that change at run time.
  Status set_option(std::string_view key, std::string_view value);
  Status run(const qr_run_request &request, const plugin::StopToken &stop);

 private:
  // How a value goes between the session's type and the library's: i64 and u64 have 32 bits there, f32 is integers.
  enum class Way : std::uint8_t { AsIs, Narrow, NarrowUnsigned, Quantize };
  struct Place {
    std::size_t io = 0;  // which of the session's inputs or outputs
    Way way = Way::AsIs;
    std::uint64_t session_bytes = 0, device_bytes = 0;
    Vector<std::uint8_t> room;  // where the way is not AsIs, or the caller does not want the output
  };
  Status take_inputs(const qr_run_request &request);
  Status take_input(Place &place, const qr_io_buffer &io, qnn::Tensor &tensor);
  Status place_outputs(const qr_run_request &request);
  Status bind_memory(const qr_io_buffer &io, const Place &place, qnn::Tensor &tensor);
  void give_outputs(const qr_run_request &request) const;
  Status execute(const qr_run_request &request, const plugin::StopToken &stop, std::uint32_t generation);
  Status call_library(const qr_run_request &request, const plugin::StopToken &stop);
  void bind(const Vector<BlobTensor> &from, Vector<qnn::Tensor> &tensors, Vector<Place> &places);

  LoadedContext &context_;
  const BlobGraph &graph_;
  std::size_t index_;
  Vector<qnn::Tensor> inputs_, outputs_;
  Vector<Place> input_places_, output_places_;
  RunPower power_;
  qnn::Priority priority_;
  bool is_efficient_ = false;  // ep.dynamic.workload_type: behind all others
  bool traces_ = false;
  bool registers_memory_ = false;
};

}  // namespace quarry::htp
