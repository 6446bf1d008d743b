// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"

#include <cstdlib>

namespace quarry {
namespace {

class MallocAllocator final : public Allocator {
 public:
  void *allocate(std::size_t size, std::size_t align) noexcept override {
    if (align <= alignof(std::max_align_t)) return std::malloc(size ? size : 1);
    void *ptr = nullptr;
    return posix_memalign(&ptr, align, size ? size : 1) == 0 ? ptr : nullptr;
  }
  void deallocate(void *ptr, std::size_t, std::size_t) noexcept override { std::free(ptr); }
};

// Constant-initialised and trivially destroyed: no global constructor runs.
constinit MallocAllocator g_malloc;
constinit thread_local Allocator *t_current = nullptr;
// std::bad_alloc carries no size: the edge that catches it asks here.
constinit thread_local std::size_t t_refused = 0;

// Stands directly before each block. `offset` leads back to what the allocator gave.
struct alignas(16) Header {
  Allocator *allocator;
  std::size_t size;
  std::uint32_t align;
  std::uint32_t offset;
};
static_assert(sizeof(Header) == 32);

}  // namespace

Allocator &malloc_allocator() noexcept { return g_malloc; }
Allocator &current_allocator() noexcept { return t_current ? *t_current : g_malloc; }

AllocatorScope::AllocatorScope(Allocator &allocator) noexcept : current_(&t_current), previous_(t_current) {
  if (!previous_) t_refused = 0;  // of a call before this one
  *current_ = &allocator;
}

void *try_allocate_block(std::size_t size, std::size_t align) noexcept {
  if (align < 16) align = 16;
  const std::size_t offset = align > sizeof(Header) ? align : sizeof(Header);
  if (size > SIZE_MAX - offset) return nullptr;
  Allocator &allocator = current_allocator();
  char *raw = static_cast<char *>(allocator.allocate(size + offset, align));
  if (!raw) return nullptr;
  Header *header = reinterpret_cast<Header *>(raw + offset) - 1;
  *header = Header{&allocator, size + offset, static_cast<std::uint32_t>(align), static_cast<std::uint32_t>(offset)};
  return raw + offset;
}

void *allocate_block(std::size_t size, std::size_t align) {
  void *ptr = try_allocate_block(size, align);
  if (!ptr) {
    t_refused = size;
    throw std::bad_alloc();
  }
  return ptr;
}

std::size_t take_refused_size() noexcept { return std::exchange(t_refused, 0); }

void free_block(void *ptr) noexcept {
  if (!ptr) return;
  const Header header = *(static_cast<Header *>(ptr) - 1);
  header.allocator->deallocate(static_cast<char *>(ptr) - header.offset, header.size, header.align);
}

}  // namespace quarry
