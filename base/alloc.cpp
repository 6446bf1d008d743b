// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"

#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "base/os/memory.h"

namespace quarry {
namespace {

constexpr std::size_t kLarge = std::size_t{8} << 20;

class MallocAllocator final : public Allocator {
 public:
  void *allocate(std::size_t size, std::size_t align) noexcept override {
    if (size == 0) size = 1;
    void *const made = align <= alignof(std::max_align_t) ? std::malloc(size) : os::allocate_aligned(size, align);
    // Weights and arenas: a product with few rows reads all of them, and misses in the table of pages each 4 kB.
    if (made && size >= kLarge) os::prefer_large_pages(made, size);
    return made;
  }
  void deallocate(void *ptr, std::size_t, std::size_t align) noexcept override {
    if (align <= alignof(std::max_align_t)) std::free(ptr);
    else os::free_aligned(ptr);
  }
  bool pools() const noexcept override { return true; }
};

// Constant-initialised and trivially destroyed: no global constructor runs.
constinit MallocAllocator g_malloc;
constinit thread_local detail::ThreadMemory t_memory;

// Stands directly before each block, small as most blocks are: a graph is many thousands of them.
struct alignas(16) Header {
  union {
    Allocator *allocator;
    PoolScope::Chunk *chunk;  // what it was cut from
  };
  std::uint64_t size_and_align;  // what was asked of the allocator; the alignment's logarithm in the lowest byte
};
static_assert(sizeof(Header) == 16);

constexpr std::uint64_t kCut = 0;  // in the place of an alignment: of a chunk

// From what the allocator gave to the block.
std::size_t offset_of(std::size_t align) noexcept { return align > sizeof(Header) ? align : sizeof(Header); }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kPools = false;  // they look at each block
#else
constexpr bool kPools = true;
#endif
constexpr std::size_t kLeastChunk = 4096, kMostChunk = 65536;
constexpr std::uint64_t kFreed = 0xDDDDDDDDDDDDDDDD;

}  // namespace

// Stands at the front of what blocks are cut from. (No more aligned than malloc gives: aligned blocks leave crumbs.)
struct alignas(16) PoolScope::Chunk {
  Allocator *allocator;
  std::size_t size;
  std::atomic<PoolScope *> pool;  // nullptr: its scope has ended
  Chunk *next;
  std::int64_t live = 0;  // blocks that the scope's thread took and did not free
  // Less one for each block freed elsewhere while the scope lives; how many are left, afterwards.
  std::atomic<std::int64_t> left{0};

  // One was freed elsewhere, or the scope ended with so many left.
  void settle(std::int64_t change) noexcept {
    if (left.fetch_add(change, std::memory_order_acq_rel) + change == 0)
      allocator->deallocate(this, size, alignof(Chunk));
  }
};

Allocator &malloc_allocator() noexcept { return g_malloc; }
Allocator &current_allocator() noexcept {
  Allocator *const current = t_memory.current;
  return current ? *current : g_malloc;
}

AllocatorScope::AllocatorScope(Allocator &allocator) noexcept
    : memory_(&t_memory), previous_(memory_->current), pool_(memory_->pool) {
  if (!previous_) memory_->refused = 0;  // of a call before this one
  memory_->current = &allocator;
  memory_->pool = nullptr;
}

PoolScope::PoolScope() noexcept
    : memory_(&t_memory), allocator_(memory_->current ? memory_->current : &g_malloc), previous_(memory_->pool) {
  if (kPools && !previous_ && allocator_->pools()) memory_->pool = this;
}

PoolScope::~PoolScope() {
  memory_->pool = previous_;
  for (Chunk *chunk = first_; chunk;) {
    Chunk *const next = chunk->next;
    chunk->pool.store(nullptr, std::memory_order_relaxed);
    chunk->settle(chunk->live);
    chunk = next;
  }
}

bool PoolScope::grow() noexcept {
  const std::size_t size = !last_ ? kLeastChunk : last_->size < kMostChunk ? 2 * last_->size : kMostChunk;
  char *const raw = static_cast<char *>(allocator_->allocate(size, alignof(Chunk)));
  if (!raw) return false;
  Chunk *const chunk = ::new (static_cast<void *>(raw)) Chunk{allocator_, size, {this}, nullptr};
  (last_ ? last_->next : first_) = chunk;
  last_ = chunk;
  at_ = raw + sizeof(Chunk), end_ = raw + size;
  return true;
}

// The rest of a chunk that is too small is left.
void *PoolScope::take(std::size_t size) noexcept {
  size = size < 2 * sizeof(Header) ? 2 * sizeof(Header) : (size + 15) & ~std::size_t{15};  // a free one has a link
  void *&free = free_[size / 16];
  if (free) {
    Header *const header = static_cast<Header *>(free);
    std::memcpy(&free, header + 1, sizeof free);
    ++header->chunk->live;
    return header;
  }
  if (static_cast<std::size_t>(end_ - at_) < size && !grow()) return nullptr;
  ++last_->live;
  Header *const header = ::new (static_cast<void *>(at_)) Header{{.chunk = last_}, size << 8 | kCut};
  at_ += size;
  return header;
}

void *try_allocate_block(std::size_t size, std::size_t align) noexcept {
  if (align < 16) align = 16;
  const std::size_t offset = offset_of(align);
  if (size > (SIZE_MAX >> 8) - offset) return nullptr;
  detail::ThreadMemory &memory = t_memory;
  if (memory.pool && align == 16 && size + offset <= PoolScope::kMaxBlock) {
    char *const raw = static_cast<char *>(memory.pool->take(size + offset));
    return raw ? raw + offset : nullptr;
  }
  Allocator &allocator = memory.current ? *memory.current : g_malloc;
  char *raw = static_cast<char *>(allocator.allocate(size + offset, align));
  if (!raw) return nullptr;
  Header *header = reinterpret_cast<Header *>(raw + offset) - 1;
  *header = Header{{&allocator}, (size + offset) << 8 | static_cast<std::uint64_t>(std::countr_zero(align))};
  return raw + offset;
}

void *allocate_block(std::size_t size, std::size_t align) {
  void *ptr = try_allocate_block(size, align);
  if (!ptr) {
    t_memory.refused = size;
    throw std::bad_alloc();
  }
  return ptr;
}

std::size_t take_refused_size() noexcept { return std::exchange(t_memory.refused, 0); }

// What a pool gets back is filled, so that who reads it afterwards does not find what was there.
void PoolScope::put(void *raw, std::size_t size) noexcept {
  Header *const header = static_cast<Header *>(raw);
  // (By words: built for size, memset is one slow instruction.)
  auto *const words = reinterpret_cast<std::uint64_t *>(header);
  for (std::size_t i = sizeof(Header) / 8; i < size / 8; ++i) words[i] = kFreed;
  void *&free = free_[size / 16];
  std::memcpy(header + 1, &free, sizeof free);
  free = raw;
  --header->chunk->live;
}

void free_block(void *ptr) noexcept {
  if (!ptr) return;
  const Header header = *(static_cast<Header *>(ptr) - 1);
  const std::uint64_t log = header.size_and_align & 0xFF;
  if (log == kCut) {
    PoolScope *const pool = t_memory.pool;
    if (pool && header.chunk->pool.load(std::memory_order_relaxed) == pool)
      pool->put(static_cast<Header *>(ptr) - 1, header.size_and_align >> 8);
    else header.chunk->settle(-1);
    return;
  }
  const std::size_t align = std::size_t{1} << log;
  header.allocator->deallocate(static_cast<char *>(ptr) - offset_of(align), header.size_and_align >> 8, align);
}

}  // namespace quarry
