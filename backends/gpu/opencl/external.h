// SPDX-License-Identifier: Apache-2.0
// Memory of other devices that a driver takes by its descriptor: dma-bufs (cl_khr_external_memory_dma_buf).
#pragma once

#include "backends/gpu/opencl/library.h"

namespace quarry::opencl {

// Declared here, for older headers have none of it.
struct External {
  using Edge = cl_int(CL_API_CALL *)(cl_command_queue, cl_uint, const cl_mem *, cl_uint, const cl_event *, cl_event *);
  // All three, or none.
  cl_mem(CL_API_CALL *create)(cl_context, const std::uint64_t *, cl_mem_flags, std::size_t, void *, cl_int *) = nullptr;
  Edge acquire = nullptr, release = nullptr;
  String text;  // what doctor says: by which extension, or why not
};
inline constexpr std::uint64_t kDmaBuf = 0x2067;  // a property of a buffer, with the descriptor behind it

External find_external(const Library &library, cl_platform_id platform, cl_device_id device,
                       std::string_view extensions);

}  // namespace quarry::opencl
