// SPDX-License-Identifier: Apache-2.0
// Memory. Every allocation of Quarry's own code comes from the allocator in scope on the thread: a C ABI function or a
// plugin slot opens an AllocatorScope and containers declared with the aliases below draw from it. A block remembers
// its allocator, so it may be freed on any thread and in any scope. Without a scope malloc serves. Out of memory throws
// std::bad_alloc, which the edges turn into a static status: it is the only exception that our code raises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace quarry {

// What memory is taken from. Adapters to qr_allocator and qr_host live with those.
class Allocator {
 public:
  virtual void *allocate(std::size_t size, std::size_t align) noexcept = 0;  // nullptr when there is none
  virtual void deallocate(void *ptr, std::size_t size, std::size_t align) noexcept = 0;
  // Small blocks may be cut from larger ones (PoolScope). A caller's allocator is to see each.
  virtual bool pools() const noexcept { return false; }

 protected:
  ~Allocator() = default;
};

Allocator &malloc_allocator() noexcept;
Allocator &current_allocator() noexcept;

class PoolScope;
namespace detail {
struct ThreadMemory {
  Allocator *current = nullptr;
  PoolScope *pool = nullptr;  // of the scope over `current`
  std::size_t refused = 0;    // std::bad_alloc carries no size: the edge that catches it asks here
};
}  // namespace detail

// Makes an allocator the thread's own until the scope ends; scopes nest.
class AllocatorScope {
 public:
  explicit AllocatorScope(Allocator &allocator) noexcept;
  ~AllocatorScope() { memory_->current = previous_, memory_->pool = pool_; }
  AllocatorScope(const AllocatorScope &) = delete;
  AllocatorScope &operator=(const AllocatorScope &) = delete;

 private:
  detail::ThreadMemory *const memory_;  // this thread's: it takes a call to find it
  Allocator *const previous_;
  PoolScope *const pool_;
};

// While it lives, small blocks that this thread takes are cut from larger ones of the allocator in scope, and used
// again when they are freed: for calls that make and drop a great many of them, as compilers do. A block may outlive
// the scope and be freed anywhere: a larger one goes back with the last that was cut from it. An allocator that does
// not pool gives each block itself.
class PoolScope {
 public:
  PoolScope() noexcept;
  ~PoolScope();
  PoolScope(const PoolScope &) = delete;
  PoolScope &operator=(const PoolScope &) = delete;

  static constexpr std::size_t kMaxBlock = 512;
  struct Chunk;
  // With room for what stands before a block. Virtual, so that a library that opens no such scope has none of this.
  virtual void *take(std::size_t size) noexcept;
  virtual void put(void *raw, std::size_t size) noexcept;

 private:
  bool grow() noexcept;

  detail::ThreadMemory *const memory_;
  Allocator *const allocator_;
  PoolScope *const previous_;
  char *at_ = nullptr, *end_ = nullptr;  // what is left of the last
  Chunk *first_ = nullptr, *last_ = nullptr;
  void *free_[kMaxBlock / 16 + 1] = {};  // by size
};

// allocate_block throws std::bad_alloc; try_allocate_block returns nullptr. align: a power of two up to 65536.
void *allocate_block(std::size_t size, std::size_t align);
void *try_allocate_block(std::size_t size, std::size_t align) noexcept;
void free_block(void *ptr) noexcept;
// The size that allocate_block last could not give in this thread's outermost scope, given once; 0: it gave everything.
std::size_t take_refused_size() noexcept;

template <class T>
struct Alloc {
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;  // libc++ asks for it where a container is moved
  Alloc() noexcept = default;
  template <class U>
  Alloc(const Alloc<U> &) noexcept {}
  T *allocate(std::size_t count) {
    if (count > SIZE_MAX / 2 / sizeof(T)) throw std::bad_alloc();
    return static_cast<T *>(allocate_block(count * sizeof(T), alignof(T) < 16 ? 16 : alignof(T)));
  }
  void deallocate(T *ptr, std::size_t) noexcept { free_block(ptr); }
  friend bool operator==(const Alloc &, const Alloc &) noexcept { return true; }
};

using String = std::basic_string<char, std::char_traits<char>, Alloc<char>>;
template <class T>
using Vector = std::vector<T, Alloc<T>>;

// The position of what a signed id, an axis or an enumerator names, which was checked before.
template <class Id>
constexpr std::size_t index_of(Id id) noexcept {
  return static_cast<std::size_t>(id);
}

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
};
template <class K, class V>
using HashMap = std::unordered_map<K, V, std::hash<K>, std::equal_to<K>, Alloc<std::pair<const K, V>>>;
template <class V>
using StringMap = std::unordered_map<String, V, StringHash, std::equal_to<>, Alloc<std::pair<const String, V>>>;
template <class K, class V>
using HashMultimap = std::unordered_multimap<K, V, std::hash<K>, std::equal_to<K>, Alloc<std::pair<const K, V>>>;
template <class K>
using HashSet = std::unordered_set<K, std::hash<K>, std::equal_to<K>, Alloc<K>>;
using StringSet = std::unordered_set<String, StringHash, std::equal_to<>, Alloc<String>>;
template <class K, class V>
using OrderedMap = std::map<K, V, std::less<>, Alloc<std::pair<const K, V>>>;

// Base of heap objects: `new T` and `delete` go through the allocator in scope.
struct HeapObject {
  static void *operator new(std::size_t size) { return allocate_block(size, 16); }
  static void *operator new(std::size_t size, std::align_val_t align) {
    return allocate_block(size, static_cast<std::size_t>(align));
  }
  static void *operator new(std::size_t, void *place) noexcept { return place; }
  static void operator delete(void *ptr) noexcept { free_block(ptr); }
  static void operator delete(void *ptr, std::align_val_t) noexcept { free_block(ptr); }
};

template <class T>
struct FreeDelete {
  void operator()(T *ptr) const noexcept {
    ptr->~T();
    free_block(ptr);
  }
};
template <class T>
using Unique = std::unique_ptr<T, FreeDelete<T>>;
template <class T, class... Args>
Unique<T> make_unique(Args &&...args) {
  void *place = allocate_block(sizeof(T), alignof(T) < 16 ? 16 : alignof(T));
  try {
    return Unique<T>(::new (place) T(std::forward<Args>(args)...));
  } catch (...) {
    free_block(place);
    throw;
  }
}
template <class T, class... Args>
std::shared_ptr<T> make_shared(Args &&...args) {
  return std::allocate_shared<T>(Alloc<T>(), std::forward<Args>(args)...);
}

}  // namespace quarry
