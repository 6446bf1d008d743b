// SPDX-License-Identifier: Apache-2.0
// qr_memory: memory of a device, usable by every session of the runtime on it.
#pragma once

#include "base/os/hardware_buffer.h"
#include "quarry/memory.h"
#include "runtime/core/device.h"
#include "runtime/core/object.h"

namespace quarry {

class Runtime;

class Memory : public Counted<Memory> {
 public:
  using Device = std::shared_ptr<DeviceState>;
  static Result<Ref<Memory>> allocate(Runtime &runtime, Device device, std::uint64_t size,
                                      const qr_memory_options &how);
  static Result<Ref<Memory>> import_fd(Runtime &runtime, Device device, int fd, std::uint64_t offset,
                                       std::uint64_t size, const qr_memory_options &how);
  static Result<Ref<Memory>> adopt(Runtime &runtime, Device device, void *data, std::uint64_t size,
                                   const qr_memory_options &how);
  // An AHardwareBuffer, locked until the memory ends. `fence`: the caller's, or -1.
  static Result<Ref<Memory>> import_hardware_buffer(Runtime &runtime, Device device, void *buffer, int fence,
                                                    const qr_memory_options &how, qr_buffer_layout &out_layout);

  Memory(Runtime &runtime, Device device, std::uint64_t size);  // by the four above
  ~Memory();

  void *data() const noexcept { return data_; }  // nullptr: the host has no view
  std::uint64_t size() const noexcept { return size_; }
  bool is_mapped() const noexcept { return mapped_.load(std::memory_order_acquire); }
  const DeviceState &device() const noexcept { return *device_; }
  Runtime &runtime() const noexcept { return *runtime_; }
  qr_registration *handle() const noexcept { return registration_ ? registration_->handle() : nullptr; }
  ExclusiveUse &use() const noexcept { return use_; }

  Result<void *> map(std::uint32_t access);
  Status unmap();
  Status begin_access(std::uint32_t access);
  Status end_access(std::uint32_t access);
  Result<loader::Registration::File> export_fd();

 private:
  Status adopt(void *data, const qr_memory_options &how);
  qr_plugin_memory_request request(const qr_memory_options &how) const noexcept;
  Status take(Result<Unique<loader::Registration>> registration);

  Ref<Runtime> runtime_;
  Device device_;
  void *data_ = nullptr;
  std::uint64_t size_;
  void *own_ = nullptr;  // our block, where the backend allocates none
  int fd_ = -1;          // our duplicate
  std::uint64_t offset_ = 0;
  os::HardwareBuffer buffer_;  // that data_ lies in
  std::uint32_t mapped_access_ = 0;
  std::atomic<bool> mapped_{false};
  Unique<loader::Registration> registration_;  // null: plain memory
  mutable ExclusiveUse use_;
};

}  // namespace quarry
