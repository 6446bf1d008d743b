// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/allocator.h"

namespace quarry {

CallerAllocator *CallerAllocator::make(const qr_allocator &functions) noexcept {
  void *place = functions.alloc(functions.self, sizeof(CallerAllocator), 16);
  return place ? ::new (place) CallerAllocator(functions) : nullptr;
}

void CallerAllocator::release() noexcept {
  if (holders_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const qr_allocator functions = functions_;
  this->~CallerAllocator();
  functions.free(functions.self, this, sizeof(CallerAllocator), 16);
}

void *CallerAllocator::allocate(std::size_t size, std::size_t align) noexcept {
  void *ptr = functions_.alloc(functions_.self, size ? size : 1, align < 16 ? 16 : align);
  if (ptr) holders_.fetch_add(1, std::memory_order_relaxed);
  return ptr;
}

void CallerAllocator::deallocate(void *ptr, std::size_t size, std::size_t align) noexcept {
  functions_.free(functions_.self, ptr, size ? size : 1, align < 16 ? 16 : align);
  release();
}

}  // namespace quarry
