// SPDX-License-Identifier: Apache-2.0
// Packed weights that the plans of a range share: made when a plan first wants them, and kept. They go by what they are
// made of, which says which constant of the graph, and how it is laid out: never a dimension that runs change, so there
// are as many as there are layouts. Thread-safe.
#pragma once

#include <mutex>

#include "graph/graph.h"

namespace quarry::cpu {

// A block that plans hold on to: its own memory, or bytes of a container.
class SharedBlock : public HeapObject {
 public:
  explicit SharedBlock(std::uint64_t bytes);
  explicit SharedBlock(qir::Bytes borrowed) : bytes_(borrowed) {}
  SharedBlock(const SharedBlock &) = delete;
  SharedBlock &operator=(const SharedBlock &) = delete;
  ~SharedBlock() { free_block(own_); }
  qir::Bytes bytes() const noexcept { return bytes_; }
  void *own() const noexcept { return own_; }

 private:
  void *own_ = nullptr;
  qir::Bytes bytes_;
};
using SharedBytes = std::shared_ptr<const SharedBlock>;

class SharedWeights : public HeapObject {
 public:
  // Constants of the graphs lie in these, which outlive it.
  explicit SharedWeights(std::span<const qir::Bytes> segments) : segments_(segments.begin(), segments.end()) {}

  // What names the constant that `data` points into, wherever the segments lie; empty: none of them has it.
  String source_of(const void *data) const;

  // `fill(void *)` writes them where there are none of that key and size: once, while others wait.
  template <class Fill>
  SharedBytes get(const String &key, std::uint64_t bytes, Fill &&fill) {
    const std::lock_guard lock(mutex_);
    SharedBytes &made = blocks_[key];
    if (made && made->bytes().size == bytes) return made;
    auto block = quarry::make_shared<SharedBlock>(bytes);
    fill(block->own());
    return made = std::move(block);
  }
  // Of a container.
  void add(String key, qir::Bytes bytes);

  struct Entry {
    String key;
    SharedBytes block;
  };
  Vector<Entry> entries() const;  // in the order of their keys
  std::uint64_t own_bytes() const;

 private:
  const Vector<qir::Bytes> segments_;
  mutable std::mutex mutex_;
  OrderedMap<String, SharedBytes> blocks_;
};

}  // namespace quarry::cpu
