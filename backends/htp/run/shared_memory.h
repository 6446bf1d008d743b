// SPDX-License-Identifier: Apache-2.0
// Memory that the device shares: a device's own allocator (libcdsprpc.so, rpcmem) where there is one, else a memfd,
// which has a descriptor too.
#pragma once

#include "backends/common/processor_memory.h"
#include "base/status.h"

namespace quarry::htp {

class SharedMemory : public HeapObject {
 public:
  // `folder`: looked in first; empty: the loader's places alone.
  explicit SharedMemory(const String &folder);

  Status allocate(std::uint64_t size, plugin::ProcessorMemory &out);
  // False: it was not allocated here.
  bool release(const plugin::ProcessorMemory &memory) noexcept;

 private:
  void *(*alloc_)(int heap, unsigned flags, int size) = nullptr;
  void (*free_)(void *) = nullptr;
  int (*to_fd_)(void *) = nullptr;
  struct Block {
    void *base;
    bool is_rpc;
  };
  Vector<Block> blocks_;
};

}  // namespace quarry::htp
