// SPDX-License-Identifier: Apache-2.0
// Working memory that is taken in the same order run after run: chunks are kept, so that only a run that needs more
// than any before allocates.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/alloc.h"

namespace quarry::reference {

// A block that only grows.
class Block {
 public:
  Block() = default;
  Block(Block &&other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Block &operator=(Block &&) = delete;
  ~Block() { free_block(data_); }
  // At least `size` bytes, 64-byte aligned; what was there is lost when it has to grow.
  void *reserve(std::uint64_t size) {
    if (!data_ || size > size_) {
      free_block(std::exchange(data_, nullptr));
      size_ = 0;
      data_ = allocate_block(std::max<std::uint64_t>(size, 1), 64);
      size_ = size;
    }
    return data_;
  }

 private:
  void *data_ = nullptr;
  std::uint64_t size_ = 0;
};

class Scratch {
 public:
  void reset() noexcept { chunk_ = used_ = 0; }
  void *take(std::uint64_t size) {
    if (size > (std::uint64_t{1} << 62)) throw std::bad_alloc();
    size = (std::max<std::uint64_t>(size, 1) + 63) & ~std::uint64_t{63};
    for (; chunk_ < chunks_.size(); ++chunk_, used_ = 0) {
      if (chunks_[chunk_].size - used_ >= size) {
        void *room = static_cast<char *>(chunks_[chunk_].block.reserve(0)) + used_;
        used_ += size;
        return room;
      }
    }
    chunks_.reserve(chunks_.size() + 1);
    Chunk chunk{{}, std::max(size, kSmallest)};
    void *room = chunk.block.reserve(chunk.size);
    chunks_.push_back(std::move(chunk));
    used_ = size;
    return room;
  }

 private:
  static constexpr std::uint64_t kSmallest = 64 << 10;
  struct Chunk {
    Block block;
    std::uint64_t size;
  };
  Vector<Chunk> chunks_;
  std::size_t chunk_ = 0;
  std::uint64_t used_ = 0;  // of the current chunk
};

}  // namespace quarry::reference
