// SPDX-License-Identifier: Apache-2.0
// Memory of the caller's that the device works on where it lies. Between runs the host has it (it is mapped); each run
// borrows it, and the last one that ends gives it back.
#pragma once

#include <mutex>

#include "backends/gpu/engine.h"

namespace quarry::gpu {

class SharedMemory : public HeapObject {
 public:
  static Result<Unique<SharedMemory>> make(std::shared_ptr<const Engine> engine, void *data, std::uint64_t bytes,
                                           std::uint64_t id);
  SharedMemory(std::shared_ptr<const Engine> engine, void *data, std::uint64_t bytes, std::uint64_t id)
      : engine_(std::move(engine)), data_(data), bytes_(bytes), id_(id) {}
  ~SharedMemory();

  const Engine *engine() const noexcept { return engine_.get(); }
  std::shared_ptr<const Engine> shared_engine() const noexcept { return engine_; }
  const opencl::Memory &memory() const noexcept { return memory_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t id() const noexcept { return id_; }  // no other registration has had it

  // After the device was lost: the same memory in another context of OpenCL.
  Status reopen(std::shared_ptr<const Engine> engine);
  Status lend();
  Status take_back();

 private:
  Status open();
  Status map();
  std::shared_ptr<const Engine> engine_;
  void *data_;
  std::uint64_t bytes_, id_;
  opencl::Queue queue_;
  opencl::Memory memory_;
  std::mutex mutex_;
  std::uint32_t runs_ = 0;
  bool mapped_ = false;
};

}  // namespace quarry::gpu
