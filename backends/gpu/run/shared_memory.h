// SPDX-License-Identifier: Apache-2.0
// Memory of the caller's that the device works on where it lies: what a pointer names, or a descriptor (dma-buf,
// memfd). Between runs the host has it; each run borrows it, and the last one that ends gives it back. A dma-buf is
// imported where the driver can, and else, like every other descriptor, mapped and then used by its address.
#pragma once

#include <map>
#include <mutex>

#include "backends/common/processor_memory.h"
#include "backends/gpu/engine/engine.h"

namespace quarry::gpu {

class SharedMemory : public HeapObject {
 public:
  // By its address, or its descriptor; `note` gets why a descriptor was not imported, where the driver could.
  static Result<Unique<SharedMemory>> make(std::shared_ptr<const Engine> engine,
                                           const qr_plugin_memory_request &request, qr_plugin_memory_info *out_info,
                                           std::uint64_t id, String *note);
  SharedMemory(std::shared_ptr<const Engine> engine, const qr_plugin_memory_request &request, std::uint64_t id)
      : engine_(std::move(engine)), request_(request), id_(id) {}
  ~SharedMemory();

  const Engine *engine() const noexcept { return engine_.get(); }
  std::shared_ptr<const Engine> shared_engine() const noexcept { return engine_; }
  const opencl::Memory &memory() const noexcept { return memory_; }
  // `bytes` from `offset` on, for kernels; it stays as long as the memory, or who holds `parts`. Null: there are too
  // many already.
  Result<cl_mem> part(std::uint64_t offset, std::uint64_t bytes);
  std::shared_ptr<const opencl::Parts> parts() const noexcept { return parts_; }
  // Where it begins in `memory`.
  std::uint64_t offset() const noexcept { return is_imported_ ? request_.offset : 0; }
  std::uint64_t bytes() const noexcept { return request_.size_bytes; }
  std::uint64_t id() const noexcept { return id_; }  // no other registration has had it

  // After the device was lost: the same memory in another context of OpenCL.
  Status reopen(std::shared_ptr<const Engine> engine);
  Status lend();
  Status take_back();
  // The host's own access, QR_PLUGIN_ACCESS_*.
  Status report_access(std::uint32_t access, bool begins) const { return plugin::report_access(view_, access, begins); }

 private:
  bool is_file() const noexcept { return request_.fd >= 0; }
  bool can_import() const noexcept { return is_file() && engine_->device().external.create; }
  Status open(String *note);
  Status map();
  Status edge(opencl::External::Edge call, const char *name);

  std::shared_ptr<const Engine> engine_;
  qr_plugin_memory_request request_;
  std::uint64_t id_;
  plugin::ProcessorMemory view_;  // of a descriptor
  void *data_ = nullptr;          // the host's view
  opencl::Queue queue_;
  opencl::Memory memory_;
  std::shared_ptr<opencl::Parts> parts_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, cl_mem, std::less<>,
           Alloc<std::pair<const std::pair<std::uint64_t, std::uint64_t>, cl_mem>>>
      known_;  // of the parts, by offset and bytes
  std::mutex mutex_;
  std::uint32_t runs_ = 0;
  bool is_imported_ = false, mapped_ = false;
};

}  // namespace quarry::gpu
