// SPDX-License-Identifier: Apache-2.0
// Constants in device memory that the plans of a range share: weights are there once, however many shapes have a plan.
#pragma once

#include <map>
#include <mutex>

#include "backends/gpu/opencl/library.h"

namespace quarry::gpu {

using PooledMemory = std::shared_ptr<const opencl::Memory>;

class ConstantPool : public HeapObject {
 public:
  struct Key {
    std::uint64_t hash = 0, bytes = 0;    // of the contents, as they lie in the plan
    std::int32_t layout = -1, dtype = 0;  // of an image; -1: a buffer
    std::int64_t steps = 0;
    friend auto operator<=>(const Key &, const Key &) = default;
  };
  // Null: no plan has it.
  PooledMemory find(const Key &key);
  // What another thread has added meanwhile counts.
  PooledMemory add(const Key &key, opencl::Memory memory);
  // In use by plans.
  std::uint64_t bytes() const;

 private:
  mutable std::mutex mutex_;
  using Entry = std::pair<const Key, std::weak_ptr<const opencl::Memory>>;
  std::map<Key, Entry::second_type, std::less<>, Alloc<Entry>> entries_;
};

}  // namespace quarry::gpu
