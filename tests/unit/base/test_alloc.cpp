// SPDX-License-Identifier: Apache-2.0
// Small blocks that are cut from larger ones: whose they are, when they go back, what is in them.
#include "base/alloc.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "base/os/memory.h"
#include "tests/support/check.h"

using namespace quarry;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kPools = false;  // each block is the allocator's own there
#else
constexpr bool kPools = true;
#endif

class Counting final : public Allocator {
 public:
  explicit Counting(bool pools) : pools_(pools) {}
  void *allocate(std::size_t size, std::size_t align) noexcept override {
    if (left_ == 0) return nullptr;
    --left_;
    ++live, ++given, bytes += size;
    void *const ptr = os::allocate_aligned(size, align);
    std::memset(ptr, 0xCD, size);
    return ptr;
  }
  void deallocate(void *ptr, std::size_t size, std::size_t) noexcept override {
    --live, bytes -= size;
    std::memset(ptr, 0xDD, size);
    os::free_aligned(ptr);
  }
  bool pools() const noexcept override { return pools_; }
  void leave(std::size_t left) { left_ = left; }
  std::atomic<std::size_t> live{0}, given{0}, bytes{0};

 private:
  const bool pools_;
  std::size_t left_ = SIZE_MAX;
};

bool filled(const void *ptr, std::size_t size, unsigned char byte) {
  const auto *bytes = static_cast<const unsigned char *>(ptr);
  for (std::size_t i = 0; i < size; ++i)
    if (bytes[i] != byte) return false;
  return true;
}

}  // namespace

TEST_CASE("small blocks of a scope are apart, aligned, and back with the last of them") {
  Counting counting(true);
  {
    const AllocatorScope scope(counting);
    const PoolScope pool;
    std::vector<std::pair<unsigned char *, std::size_t>> blocks;
    for (std::size_t turn = 0; turn < 20; ++turn)
      for (std::size_t size = 0; size < 700; size += 1 + size / 8) {
        auto *const block = static_cast<unsigned char *>(allocate_block(size, 16));
        CHECK(reinterpret_cast<std::uintptr_t>(block) % 16 == 0);
        std::memset(block, static_cast<int>(blocks.size() % 251), size);
        blocks.push_back({block, size});
      }
    for (std::size_t i = 0; i < blocks.size(); i += 2) free_block(blocks[i].first);
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
      blocks[i].first = static_cast<unsigned char *>(allocate_block(blocks[i].second, 16));
      std::memset(blocks[i].first, static_cast<int>(i % 251), blocks[i].second);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i)
      CHECK(filled(blocks[i].first, blocks[i].second, static_cast<unsigned char>(i % 251)));
    if (kPools) CHECK_LT(counting.given * 4, blocks.size());
    for (const auto &[block, size] : blocks) free_block(block);
    void *const wide = allocate_block(64, 64);
    CHECK(reinterpret_cast<std::uintptr_t>(wide) % 64 == 0);
    free_block(wide);
  }
  CHECK_EQ(counting.live.load(), 0);
  CHECK_EQ(counting.bytes.load(), 0);
}

TEST_CASE("what was freed is used again, and filled until then") {
  Counting counting(true);
  const AllocatorScope scope(counting);
  const PoolScope pool;
  auto *const block = static_cast<unsigned char *>(allocate_block(100, 16));
  std::memset(block, 1, 100);
  free_block(block);
  if (!kPools) return;
  CHECK(filled(block + sizeof(void *), 100 - sizeof(void *), 0xDD));
  const std::size_t given = counting.given;
  void *const again = allocate_block(97, 16);
  CHECK_EQ(again, block);
  CHECK_EQ(counting.given.load(), given);
  free_block(again);
}

TEST_CASE("blocks outlive the scope, and are freed by whom it may be") {
  Counting counting(true);
  constexpr int kBlocks = 3000;
  std::vector<void *> before, after;
  {
    const AllocatorScope scope(counting);
    const PoolScope pool;
    for (int i = 0; i < kBlocks; ++i) before.push_back(allocate_block(40, 16)), after.push_back(allocate_block(56, 16));
    std::thread other([&] {
      for (int i = 0; i < kBlocks; i += 2) free_block(before[static_cast<std::size_t>(i)]);
      const AllocatorScope own(counting);
      const PoolScope pool_of_its_own;
      for (int i = 1; i < kBlocks; i += 4) free_block(before[static_cast<std::size_t>(i)]);
    });
    // Meanwhile this one frees and takes too.
    for (int i = 0; i < kBlocks; ++i) free_block(allocate_block(40, 16));
    other.join();
    const AllocatorScope inner(malloc_allocator());
    for (int i = 3; i < kBlocks; i += 4) free_block(before[static_cast<std::size_t>(i)]);
  }
  CHECK_GT(counting.live.load(), 0);
  std::thread other([&] {
    for (int i = 0; i < kBlocks; i += 2) free_block(after[static_cast<std::size_t>(i)]);
  });
  for (int i = 1; i < kBlocks; i += 2) free_block(after[static_cast<std::size_t>(i)]);
  other.join();
  CHECK_EQ(counting.live.load(), 0);
  CHECK_EQ(counting.bytes.load(), 0);
}

TEST_CASE("an allocator that does not pool gives each block") {
  Counting counting(false);
  const AllocatorScope scope(counting);
  const PoolScope pool;
  std::vector<void *> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(allocate_block(24, 16));
  CHECK_EQ(counting.given.load(), 100);
  for (void *const block : blocks) free_block(block);
  CHECK_EQ(counting.live.load(), 0);
}

TEST_CASE("a scope inside has the blocks of its own allocator, and one without more the pool's") {
  Counting outer(true), inner(true);
  const AllocatorScope scope(outer);
  const PoolScope pool;
  free_block(allocate_block(24, 16));
  const std::size_t given = outer.given;
  {
    const PoolScope same;
    free_block(allocate_block(24, 16));
    if (kPools) CHECK_EQ(outer.given.load(), given);
    const AllocatorScope other(inner);
    void *const block = allocate_block(24, 16);
    CHECK_EQ(inner.live.load(), 1);
    free_block(block);
    CHECK_EQ(inner.live.load(), 0);
  }
  free_block(allocate_block(24, 16));
  if (kPools) CHECK_EQ(outer.given.load(), given);
}

TEST_CASE("out of memory is reported for small blocks too") {
  for (std::size_t left = 0; left < 6; ++left) {
    Counting counting(true);
    {
      const AllocatorScope scope(counting);
      const PoolScope pool;
      counting.leave(left);
      std::vector<void *> blocks;
      void *block;
      while ((block = try_allocate_block(200, 16))) blocks.push_back(block);
      CHECK_EQ(counting.given.load(), left);
      CHECK_THROWS_AS(allocate_block(200, 16), std::bad_alloc);
      CHECK_EQ(take_refused_size(), 200);
      for (void *const one : blocks) free_block(one);
      if (kPools && left) CHECK(try_allocate_block(200, 16) == blocks.back());  // what is there can be had
      if (kPools && left) free_block(blocks.back());
    }
    CHECK_EQ(counting.live.load(), 0);
  }
}
