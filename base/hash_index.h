// SPDX-License-Identifier: Apache-2.0
// Finds by hash what lies elsewhere: names of tensors in their graph, constants in a pool. Eight bytes a place in one
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
    if (places > places_.size()) spread(places);
  }
  // A number under the hash for which same(number); kNone.
  template <class Same>
  std::uint32_t find(std::uint64_t hash, const Same &same) const {
    if (places_.empty()) return kNone;
    const std::uint32_t tag = tag_of(hash);
    for (std::size_t at = tag & mask();; at = (at + 1) & mask()) {
      const Place &place = places_[at];
      if (place.number == kNone || (place.tag == tag && same(place.number))) return place.number;
    }
  }
  void put(std::uint64_t hash, std::uint32_t number) {
    reserve(count_ + 1);
    settle({tag_of(hash), number});
    ++count_;
  }

 private:
  struct Place {
    std::uint32_t tag = 0, number = kNone;
  };
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash ^ hash >> 32); }
  std::size_t mask() const { return places_.size() - 1; }
  void settle(Place place) {
    std::size_t at = place.tag & mask();
    while (places_[at].number != kNone) at = (at + 1) & mask();
    places_[at] = place;
  }
  void spread(std::size_t places) {
    Vector<Place> old(places);
    old.swap(places_);
    for (const Place &place : old)
      if (place.number != kNone) settle(place);
  }

  Vector<Place> places_;  // a power of two of them, at most half of which are taken
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
