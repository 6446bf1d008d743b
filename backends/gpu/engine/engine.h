// SPDX-License-Identifier: Apache-2.0
// A device in use: its context of OpenCL, programs, and memory in few pieces.
#pragma once

#include <atomic>
#include <span>

#include "backends/gpu/kernels/kernel.h"
#include "backends/gpu/opencl/device.h"
#include "graph/graph.h"

namespace quarry::gpu {

class Engine {
 public:
  static Result<std::shared_ptr<Engine>> make(std::shared_ptr<const opencl::Library> library,
                                              const opencl::Device &device);

  const opencl::Library &library() const noexcept { return *library_; }
  const opencl::Device &device() const noexcept { return device_; }
  cl_context context() const noexcept { return context_.get(); }
  // After a device is lost nothing works in this context any more: who comes next makes another.
  void report_lost() const noexcept { lost_ = true; }
  bool is_lost() const noexcept { return lost_; }

  Result<opencl::Program> build(const String &source) const;
  Result<opencl::Program> build(qir::Bytes binary) const;
  Result<Vector<std::uint8_t>> binary_of(cl_program program) const;
  // In order. `priority`: of qnn_context_priority, where the driver has such.
  Result<opencl::Queue> queue(bool profiled, std::string_view priority) const;
  Result<opencl::Queue> recordable_queue() const;  // Qualcomm's
  Result<opencl::Memory> memory(std::uint64_t bytes, const char *what, cl_mem_flags flags = CL_MEM_READ_WRITE,
                                void *host = nullptr) const;
  // Of a dma-buf, from its beginning on.
  Result<opencl::Memory> imported(int descriptor, std::uint64_t bytes) const;
  // Texels of four f32 or f16. `contents`: the image is one of its own, filled; else a view of a buffer, its rows
  // kRowTexels texels.
  Result<opencl::Memory> image(const ImageSize &size, DType dtype, const void *contents, cl_mem view_of) const;
  Result<opencl::Memory> part(const opencl::Memory &of, std::uint64_t offset, std::uint64_t bytes) const;

 private:
  Result<opencl::Program> finish(cl_program program, const char *from) const;
  std::shared_ptr<const opencl::Library> library_;
  opencl::Device device_;
  opencl::Context context_;
  mutable std::atomic<bool> lost_ = false;
};

}  // namespace quarry::gpu
