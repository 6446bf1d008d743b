// SPDX-License-Identifier: Apache-2.0
// Packed weights that the plans of a range share: made when a plan first wants them, and kept. They go by what they are
// made of, which says which constant of the graph, and how it is laid out: never a dimension that runs change, so there
// are as many as there are layouts. So do constants that are computed of others (f32 of f16) and what is found out of
// weights by reading them all. Thread-safe.
#pragma once

#include <cstring>
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

// Whether the name of a constant, or what begins with it, is that of one that lies in a segment.
inline bool is_of_graph(const String &name) noexcept { return !name.empty() && name[0] >= '0' && name[0] <= '9'; }
// Appends a number to a key, behind a character that no number has (0: none).
void append_number(String *key, char before, std::int64_t number);

class SharedWeights : public HeapObject {
 public:
  // Constants of the graphs lie in these, which outlive it.
  explicit SharedWeights(std::span<const qir::Bytes> segments) : segments_(segments.begin(), segments.end()) {}

  // What names a constant, wherever the segments lie: where it begins in one of them or in what was computed, or what
  // it is. Every plan that makes it anew finds the same name.
  String name_of(qir::Bytes constant) const;

  // `fill(void *)` writes them where there are none of that key and size. Nobody waits for it: neither a run with a
  // deadline, nor a child of fork(), in which no thread would end it. Of two that are made at once the first is kept.
  template <class Fill>
  SharedBytes get(const String &key, std::uint64_t bytes, Fill &&fill) {
    SharedBytes found = packed_as(key);
    if (found && found->bytes().size == bytes) return found;
    auto block = quarry::make_shared<SharedBlock>(bytes);
    fill(block->own());
    return keep(key, std::move(block));
  }
  // The same of weights whose size shows when they are packed: `pack()` gives a Result<Vector<std::uint8_t>>.
  template <class Pack>
  Result<SharedBytes> get(const String &key, Pack &&pack) {
    if (SharedBytes found = packed_as(key)) return found;
    QR_ASSIGN_OR_RETURN(const Vector<std::uint8_t> packed, pack());
    auto block = quarry::make_shared<SharedBlock>(packed.size());
    if (!packed.empty()) std::memcpy(block->own(), packed.data(), packed.size());
    return keep(key, std::move(block));
  }
  // Of a container.
  void add(String key, qir::Bytes bytes);

  // A constant that is computed of others, which plans read or pack. It is in no container.
  SharedBytes computed(const String &key) const;  // nullptr: nobody has computed it
  SharedBytes keep_computed(const String &key, qir::Bytes bytes);
  // The one that has this address in it, or nullptr.
  SharedBytes computed_at(const void *data) const;

  // What is found out of weights: `look()` reads them.
  template <class Look>
  std::uint32_t fact(const String &key, Look &&look) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = facts_.find(key); found != facts_.end()) return found->second;
    }
    const std::uint32_t fact = look();
    const std::lock_guard lock(mutex_);
    facts_.emplace(key, fact);
    return fact;
  }

  struct Entry {
    String key;
    SharedBytes block;
  };
  Vector<Entry> entries() const;    // in the order of their keys
  std::uint64_t own_bytes() const;  // of memory that no container has
  std::uint64_t packed() const;     // how many times weights were packed

 private:
  // Of constants that passes make there may be others in each plan: so many are kept.
  static constexpr std::size_t kMostMade = 4096;
  SharedBytes packed_as(const String &key) const;  // nullptr: there are none
  SharedBytes keep(const String &key, SharedBytes block);
  OrderedMap<const void *, String>::const_iterator place_of(const void *data) const;

  const Vector<qir::Bytes> segments_;
  mutable std::mutex mutex_;  // of the maps: held while one is read or written, never while weights are
  StringMap<SharedBytes> blocks_, computed_;
  OrderedMap<const void *, String> computed_places_;  // where each begins
  StringMap<std::uint32_t> facts_;
  std::uint64_t packed_ = 0;
  std::size_t made_ = 0;
};

}  // namespace quarry::cpu
