// SPDX-License-Identifier: Apache-2.0
// Who owns the bytes that constants of a graph point to, while an importer or a pass makes them; and who computes those
// that follow from others.
#pragma once

#include <cstring>

#include "base/alloc.h"
#include "graph/graph.h"

namespace quarry::qir {

class Store : public HeapObject {
 public:
  Store() = default;
  Store(const Store &) = delete;
  Store &operator=(const Store &) = delete;
  ~Store() {
    for (void *block : blocks_) free_block(block);
  }

  // 64-byte aligned; lives as long as the store. Not initialised.
  void *allocate(std::uint64_t size) {
    blocks_.push_back(nullptr);
    blocks_.back() = allocate_block(size ? size : 1, 64);
    return blocks_.back();
  }
  Bytes copy(const void *data, std::uint64_t size) {
    void *place = allocate(size);
    if (size) std::memcpy(place, data, size);
    return {place, size};
  }

 private:
  Vector<void *> blocks_;
};

// A constant by itself, before it is a tensor of a graph.
struct Constant {
  DType dtype = DType::Unknown;
  Shape shape;
  Bytes data;
};

// Computes a node whose inputs are all constant. What a node means is the reference interpreter's to say, which neither
// formats nor passes know.
class Folder {
 public:
  // One result per output; their bytes lie in the store. False: leave the node as it is.
  virtual bool fold(const Graph &graph, const Node &node, Store &store, Vector<Constant> *outputs) = 0;
  // All results of one graph together may have kAllowed bytes, and kTimes what its constants have: no small model
  // becomes a large one.
  static constexpr std::uint64_t kAllowed = std::uint64_t{64} << 20, kTimes = 16;
  // What is left of that, for importers, which have no graph yet to count in (passes/clean/fold.cpp counts by itself).
  std::uint64_t left = UINT64_MAX;

 protected:
  ~Folder() = default;
};

}  // namespace quarry::qir
