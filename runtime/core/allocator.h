// SPDX-License-Identifier: Apache-2.0
// The caller's qr_allocator as an Allocator.
#pragma once

#include <atomic>

#include "base/alloc.h"
#include "quarry/runtime.h"

namespace quarry {

// A status or a text may outlive the runtime that made it, so the adapter lives until its last block is freed: it
// counts them, and the runtime is one more holder.
class CallerAllocator final : public Allocator {
 public:
  // Made in the caller's memory; nullptr when there is none. The caller of `make` is a holder.
  static CallerAllocator *make(const qr_allocator &functions) noexcept;
  void release() noexcept;

  void *allocate(std::size_t size, std::size_t align) noexcept override;
  void deallocate(void *ptr, std::size_t size, std::size_t align) noexcept override;

 private:
  explicit CallerAllocator(const qr_allocator &functions) noexcept : functions_(functions) {}
  qr_allocator functions_;
  std::atomic<std::uint64_t> holders_{1};
};

}  // namespace quarry
