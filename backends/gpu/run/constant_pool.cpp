// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/run/constant_pool.h"

#include "base/alloc.h"

namespace quarry::gpu {

PooledMemory ConstantPool::find(const Key &key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : found->second.lock();
}

PooledMemory ConstantPool::add(const Key &key, opencl::Memory memory) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const auto &entry) { return entry.second.expired(); });
  std::weak_ptr<const opencl::Memory> &entry = entries_[key];
  if (PooledMemory there = entry.lock()) return there;
  PooledMemory made = quarry::make_shared<const opencl::Memory>(std::move(memory));
  entry = made;
  return made;
}

std::uint64_t ConstantPool::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto &[key, memory] : entries_)
    if (!memory.expired()) sum += key.bytes;
  return sum;
}

}  // namespace quarry::gpu
