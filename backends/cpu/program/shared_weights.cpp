// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/program/shared_weights.h"

#include <algorithm>

namespace quarry::cpu {

SharedBlock::SharedBlock(std::uint64_t bytes)
    : own_(allocate_block(std::max<std::uint64_t>(bytes, 1), 64)), bytes_{own_, bytes} {}

String SharedWeights::source_of(const void *data) const {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const auto begin = reinterpret_cast<std::uintptr_t>(segments_[i].data);
    if (at >= begin && at - begin < segments_[i].size)
      return format("%zu+%llu", i, static_cast<unsigned long long>(at - begin));
  }
  return {};
}

void SharedWeights::add(String key, qir::Bytes bytes) {
  const std::lock_guard lock(mutex_);
  blocks_[std::move(key)] = quarry::make_shared<SharedBlock>(bytes);
}

Vector<SharedWeights::Entry> SharedWeights::entries() const {
  const std::lock_guard lock(mutex_);
  Vector<Entry> out;
  for (const auto &[key, block] : blocks_) out.push_back({key, block});
  return out;
}

std::uint64_t SharedWeights::own_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto &[key, block] : blocks_)
    if (block->own()) bytes += block->bytes().size;
  return bytes;
}

}  // namespace quarry::cpu
