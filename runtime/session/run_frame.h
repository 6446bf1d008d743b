// SPDX-License-Identifier: Apache-2.0
// What one run is made of: the caller's tensors as the backend takes them, and the request. The session has one for
// qr_session_run, and its queue one for each slot. Used again and again, so that runs allocate nothing.
#pragma once

#include <optional>

#include "runtime/compile/loaded_model.h"
#include "runtime/core/call_threads.h"
#include "runtime/profile/profile.h"
#include "runtime/session/padding.h"
#include "runtime/session/spans.h"

namespace quarry {

// A tensor's flag: it is of the state that the session keeps. No caller may set it.
inline constexpr std::uint32_t kOfState = 1u << 31;

struct RunFrame {
  RunFrame(std::size_t input_count, std::size_t output_count, const qr_thread_pool &callers, ThreadPool &own)
      : inputs(input_count), outputs(output_count), read(input_count), written(output_count), threads(callers, own) {}
  RunFrame(const RunFrame &) = delete;
  RunFrame &operator=(const RunFrame &) = delete;
  // Of a tensor (inputs, then outputs), for what cannot stay where the caller has it. It never shrinks.
  void *aligned_room(std::size_t which, std::uint64_t bytes);

  const loader::GraphTensors *tensors = nullptr;  // what the chosen bucket takes and gives, or of it the run (`fit`)
  Fit fit;
  loader::Execution *execution = nullptr;  // of that bucket
  Vector<qr_io_buffer> inputs, outputs;
  SpanSet read, written;  // where the inputs lie, and the outputs
  // Copies of what lies at an address that its type cannot have, or is padded: aligned_room. Empty until there is one.
  Vector<Vector<std::max_align_t>> copies;
  CallThreads threads;
  std::optional<EventSink> sink;
  qr_run_request request = {};
  std::uint64_t begin_ns = 0;  // where events are wanted, or a profile is logged
};

}  // namespace quarry
