// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/checked.h"
#include "base/hash.h"
#include "base/hash_index.h"
#include "graph/graph.h"
#include "graph/limits.h"

namespace quarry::qir {

struct ConstantPool::State {
  Vector<Part> parts;
  std::uint64_t size = 0;
  // Parts by the sum of their contents. Sums find candidates; contents decide.
  HashIndex by_sum;
};

ConstantPool::ConstantPool() : state_(make_unique<State>()) {}
ConstantPool::~ConstantPool() = default;

std::uint64_t ConstantPool::add(Bytes contents) {
  if (contents.size == 0) return 0;  // any place will do
  const std::uint64_t sum = hash64(contents.data, contents.size);
  const std::uint32_t known = state_->by_sum.find(sum, [&](std::uint32_t i) {
    const Bytes &there = state_->parts[i].contents;
    return there.size == contents.size && std::memcmp(there.data, contents.data, contents.size) == 0;
  });
  if (known != HashIndex::kNone) return state_->parts[known].offset;
  std::uint64_t offset, end;
  if (!checked_align_up(state_->size, kConstantAlign, &offset) || !checked_add(offset, contents.size, &end))
    throw std::bad_alloc();
  state_->parts.push_back({offset, contents});
  try {
    state_->by_sum.put(sum, static_cast<std::uint32_t>(state_->parts.size() - 1));
  } catch (...) {
    state_->parts.pop_back();
    throw;
  }
  state_->size = end;
  return offset;
}

std::uint64_t ConstantPool::size() const noexcept { return state_->size; }
const Vector<ConstantPool::Part> &ConstantPool::parts() const noexcept { return state_->parts; }

void ConstantPool::write_to(void *destination) const {
  char *out = static_cast<char *>(destination);
  std::uint64_t at = 0;
  for (const Part &part : state_->parts) {
    std::memset(out + at, 0, part.offset - at);
    std::memcpy(out + part.offset, part.contents.data, part.contents.size);
    at = part.offset + part.contents.size;
  }
}

}  // namespace quarry::qir
