// SPDX-License-Identifier: Apache-2.0
// Kernels that a driver keeps and runs again by one command: command buffers (cl_khr_command_buffer), or Qualcomm's
// recordings (cl_qcom_recordable_queues).
#pragma once

#include "backends/gpu/opencl/library.h"

namespace quarry::opencl {

// What both of them are declared as here, for headers differ in what they have of provisional extensions. The calls
// below have been the same in all versions of cl_khr_command_buffer from 0.9.0 to 1.0.
using RecordingObject = struct RecordingTag *;
using SyncPoint = cl_uint;

struct Replay {
  enum class Api { None, CommandBuffer, Qualcomm };
  Api api = Api::None;
  // What doctor says: "cl_khr_command_buffer 0.9.0"; where there is none, why.
  String text;
  // A recording may be handed over again before it has ended.
  bool simultaneous = false;
  // The most kernels of one.
  std::size_t most = SIZE_MAX;

  RecordingObject(CL_API_CALL *create)(cl_uint, const cl_command_queue *, const std::uint64_t *, cl_int *) = nullptr;
  cl_int(CL_API_CALL *kernel)(RecordingObject, cl_command_queue, const std::uint64_t *, cl_kernel, cl_uint,
                              const std::size_t *, const std::size_t *, const std::size_t *, cl_uint, const SyncPoint *,
                              SyncPoint *, void **) = nullptr;
  cl_int(CL_API_CALL *finalize)(RecordingObject) = nullptr;
  cl_int(CL_API_CALL *enqueue)(cl_uint, cl_command_queue *, RecordingObject, cl_uint, const cl_event *,
                               cl_event *) = nullptr;
  cl_int(CL_API_CALL *release)(RecordingObject) = nullptr;

  // Qualcomm's: what is enqueued between the two to a queue with kRecordableQueue is recorded.
  RecordingObject(CL_API_CALL *begin)(cl_command_queue, cl_int *) = nullptr;
  cl_int(CL_API_CALL *end)(RecordingObject) = nullptr;
  // The four lists are of arguments, offsets, sizes and group sizes that are to change.
  cl_int(CL_API_CALL *enqueue_recording)(cl_command_queue, RecordingObject, std::size_t, const void *, std::size_t,
                                         const void *, std::size_t, const void *, std::size_t, const void *, cl_uint,
                                         const cl_event *, cl_event *) = nullptr;
};
inline constexpr cl_command_queue_properties kRecordableQueue = cl_command_queue_properties{1} << 30;
inline constexpr std::uint64_t kRecordingFlags = 0x1293, kRecordingSimultaneous = 1;

Replay find_replay(const Library &library, cl_platform_id platform, cl_device_id device, std::string_view extensions);

}  // namespace quarry::opencl
