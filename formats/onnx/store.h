// SPDX-License-Identifier: Apache-2.0
// Owns the bytes that constants of a graph point to while it is being made.
#pragma once

#include <cstring>

#include "base/alloc.h"
#include "formats/qir/graph.h"

namespace quarry::onnx_import {

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
  qir::Bytes copy(const void *data, std::uint64_t size) {
    void *place = allocate(size);
    if (size) std::memcpy(place, data, size);
    return {place, size};
  }

 private:
  Vector<void *> blocks_;
};

}  // namespace quarry::onnx_import
