// SPDX-License-Identifier: Apache-2.0
// Finds by hash what lies elsewhere: names of tensors in their graph, constants in a pool. Eight bytes a slot in one
// block, so that a graph of many thousands is looked through without a block, a copy and a miss of the cache for each.
#pragma once

#include <string_view>

#include "base/alloc.h"

namespace quarry {

// Numbers under hashes; who asks compares what they stand for. One that stands for something else by now is found by
// nobody.
class HashIndex {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  void reserve(std::size_t count) {
    std::size_t places = 16;
    while (places < 2 * count) places *= 2;
    if (places > slots_.size()) spread(places);
  }
  // A number under the hash for which same(number); kNone.
  template <class Same>
  std::uint32_t find(std::uint64_t hash, const Same &same) const {
    if (slots_.empty()) return kNone;
    const std::uint32_t tag = tag_of(hash);
    for (std::size_t at = tag & mask();; at = (at + 1) & mask()) {
      const Slot &slot = slots_[at];
      if (slot.number == kNone || (slot.tag == tag && same(slot.number))) return slot.number;
    }
  }
  void put(std::uint64_t hash, std::uint32_t number) {
    reserve(count_ + 1);
    settle({tag_of(hash), number});
    ++count_;
  }

 private:
  struct Slot {
    std::uint32_t tag = 0, number = kNone;
  };
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash ^ hash >> 32); }
  std::size_t mask() const { return slots_.size() - 1; }
  void settle(Slot slot) {
    std::size_t at = slot.tag & mask();
    while (slots_[at].number != kNone) at = (at + 1) & mask();
    slots_[at] = slot;
  }
  void spread(std::size_t places) {
    Vector<Slot> old(places);
    old.swap(slots_);
    for (const Slot &slot : old)
      if (slot.number != kNone) settle(slot);
  }

  Vector<Slot> slots_;  // a power of two of them, at most half of which are taken
  std::size_t count_ = 0;
};

// Numbers under names, which lie elsewhere and outlive it.
class NameTable {
 public:
  // nullptr: nobody gave it that name.
  const std::int32_t *find(std::string_view name) const {
    const std::uint32_t found = at(name, StringHash{}(name));
    return found == HashIndex::kNone ? nullptr : &entries_[found].number;
  }
  // False: the name has a number already, and keeps it.
  bool emplace(std::string_view name, std::int32_t number) {
    const std::size_t hash = StringHash{}(name);
    if (at(name, hash) != HashIndex::kNone) return false;
    add(name, hash, number);
    return true;
  }
  void set(std::string_view name, std::int32_t number) {
    const std::size_t hash = StringHash{}(name);
    if (const std::uint32_t found = at(name, hash); found != HashIndex::kNone) entries_[found].number = number;
    else add(name, hash, number);
  }

 private:
  struct Entry {
    std::string_view name;
    std::int32_t number;
  };
  std::uint32_t at(std::string_view name, std::size_t hash) const {
    return index_.find(hash, [&](std::uint32_t i) { return entries_[i].name == name; });
  }
  void add(std::string_view name, std::size_t hash, std::int32_t number) {
    entries_.push_back({name, number});
    index_.put(hash, static_cast<std::uint32_t>(entries_.size() - 1));
  }

  Vector<Entry> entries_;
  HashIndex index_;
};

}  // namespace quarry
