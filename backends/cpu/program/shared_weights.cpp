// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/program/shared_weights.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/hash.h"

namespace quarry::cpu {

SharedBlock::SharedBlock(std::uint64_t bytes)
    : own_(allocate_block(std::max<std::uint64_t>(bytes, 1), 64)), bytes_{own_, bytes} {}

void append_number(String *key, char before, std::int64_t number) {
  char text[24];
  text[0] = before;
  char *const end = std::to_chars(text + 1, text + sizeof text, number).ptr;
  key->append(before ? text : text + 1, end);
}

String SharedWeights::name_of(qir::Bytes constant) const {
  const auto at = reinterpret_cast<std::uintptr_t>(constant.data);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const auto begin = reinterpret_cast<std::uintptr_t>(segments_[i].data);
    if (at < begin || at - begin >= segments_[i].size) continue;
    String name;
    append_number(&name, 0, static_cast<std::int64_t>(i));
    append_number(&name, '+', static_cast<std::int64_t>(at - begin));
    return name;
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto place = place_of(constant.data); place != computed_places_.end()) {
      String name = place->second;
      append_number(&name, '+', static_cast<std::int64_t>(at - reinterpret_cast<std::uintptr_t>(place->first)));
      return name;
    }
  }
  return format("#%016llx:%llu", static_cast<unsigned long long>(hash64(constant.data, constant.size)), constant.size);
}

// (The lock is held.)
OrderedMap<const void *, String>::const_iterator SharedWeights::place_of(const void *data) const {
  auto place = computed_places_.upper_bound(data);
  if (place == computed_places_.begin()) return computed_places_.end();
  --place;
  const std::uint64_t size = computed_.at(place->second)->bytes().size;
  const auto distance =
      static_cast<std::uint64_t>(static_cast<const char *>(data) - static_cast<const char *>(place->first));
  return distance < size ? place : computed_places_.end();
}

SharedBytes SharedWeights::computed(const String &key) const {
  const std::lock_guard lock(mutex_);
  const auto found = computed_.find(key);
  return found == computed_.end() ? nullptr : found->second;
}

SharedBytes SharedWeights::computed_at(const void *data) const {
  const std::lock_guard lock(mutex_);
  const auto place = place_of(data);
  return place == computed_places_.end() ? nullptr : computed_.at(place->second);
}

SharedBytes SharedWeights::keep_computed(const String &key, qir::Bytes bytes) {
  if (SharedBytes found = computed(key)) return found;
  auto block = quarry::make_shared<SharedBlock>(bytes.size);
  if (bytes.size > 0) std::memcpy(block->own(), bytes.data, bytes.size);
  const std::lock_guard lock(mutex_);
  if (const auto found = computed_.find(key); found != computed_.end()) return found->second;  // by another meanwhile
  computed_.emplace(key, block);
  computed_places_.insert_or_assign(block->own(), key);  // (without it, it goes by what it is)
  return block;
}

SharedBytes SharedWeights::packed_as(const String &key) const {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(key);
  return found == blocks_.end() ? nullptr : found->second;
}

SharedBytes SharedWeights::keep(const String &key, SharedBytes block) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(key);
  if (found != blocks_.end() && found->second->bytes().size == block->bytes().size) return found->second;
  ++packed_;
  if (key[0] != '#' || ++made_ <= kMostMade) blocks_.insert_or_assign(key, block);
  return block;
}

void SharedWeights::add(String key, qir::Bytes bytes) {
  const std::lock_guard lock(mutex_);
  blocks_[std::move(key)] = quarry::make_shared<SharedBlock>(bytes);
}

Vector<SharedWeights::Entry> SharedWeights::entries() const {
  const std::lock_guard lock(mutex_);
  Vector<Entry> out;
  for (const auto &[key, block] : blocks_) out.push_back({key, block});
  std::ranges::sort(out, {}, &Entry::key);
  return out;
}

std::uint64_t SharedWeights::packed() const {
  const std::lock_guard lock(mutex_);
  return packed_;
}

std::uint64_t SharedWeights::own_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto *blocks : {&blocks_, &computed_})
    for (const auto &[key, block] : *blocks)
      if (block->own()) bytes += block->bytes().size;
  return bytes;
}

}  // namespace quarry::cpu
