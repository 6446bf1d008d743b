// SPDX-License-Identifier: Apache-2.0
// What helgrind must know: it knows threads and locks, and takes an atomic object for plain memory. A build that it
// is to look at includes this before everything else (-include; tools/fuzz.sh), and no source has to know of it: behind
// the headers of the standard library `std::atomic` is a class that says of each operation what it orders, and that the
// object itself is no race. The same for the builtins that our sources use.
#pragma once

#include <valgrind/helgrind.h>

#ifdef __cplusplus
#define _GLIBCXX_SYNCHRONIZATION_HAPPENS_BEFORE(address) ANNOTATE_HAPPENS_BEFORE(address)
#define _GLIBCXX_SYNCHRONIZATION_HAPPENS_AFTER(address) ANNOTATE_HAPPENS_AFTER(address)
// All that have std::atomic in them: they keep the one they know.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <random>
#include <semaphore>
#include <shared_mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace quarry_helgrind {

inline bool publishes(std::memory_order order) noexcept {
  return order == std::memory_order_release || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}
inline bool takes(std::memory_order order) noexcept {
  return order != std::memory_order_relaxed && order != std::memory_order_release;
}

// One operation on an atomic object, from before it to behind it.
class Operation {
 public:
  Operation(const void *object, std::size_t size, std::memory_order order) noexcept : object_(object), order_(order) {
    VALGRIND_HG_DISABLE_CHECKING(object, size);
    if (publishes(order)) ANNOTATE_HAPPENS_BEFORE(object);
  }
  ~Operation() {
    if (takes(order_)) ANNOTATE_HAPPENS_AFTER(object_);
  }
  Operation(const Operation &) = delete;
  Operation &operator=(const Operation &) = delete;

 private:
  const void *object_;
  std::memory_order order_;
};

}  // namespace quarry_helgrind

namespace std {

template <class T>
struct quarry_annotated : atomic<T> {
  using Base = atomic<T>;
  using Order = memory_order;
  constexpr quarry_annotated() noexcept = default;
  constexpr quarry_annotated(T value) noexcept : Base(value) {}  // NOLINT: as std::atomic has it
  void store(T value, Order order = memory_order_seq_cst) noexcept {
    const auto operation = says(order);
    Base::store(value, order);
  }
  T load(Order order = memory_order_seq_cst) const noexcept {
    // A load publishes nothing.
    const auto operation = says(order == memory_order_relaxed ? order : memory_order_acquire);
    return Base::load(order);
  }
  T exchange(T value, Order order = memory_order_seq_cst) noexcept {
    const auto operation = says(order);
    return Base::exchange(value, order);
  }
  bool compare_exchange_strong(T &expected, T wanted, Order order, Order otherwise) noexcept {
    const auto operation = says(order);
    return Base::compare_exchange_strong(expected, wanted, order, otherwise);
  }
  bool compare_exchange_weak(T &expected, T wanted, Order order, Order otherwise) noexcept {
    const auto operation = says(order);
    return Base::compare_exchange_weak(expected, wanted, order, otherwise);
  }
  bool compare_exchange_strong(T &expected, T wanted, Order order = memory_order_seq_cst) noexcept {
    const auto operation = says(order);
    return Base::compare_exchange_strong(expected, wanted, order);
  }
  bool compare_exchange_weak(T &expected, T wanted, Order order = memory_order_seq_cst) noexcept {
    const auto operation = says(order);
    return Base::compare_exchange_weak(expected, wanted, order);
  }
  T fetch_add(auto by, Order order = memory_order_seq_cst) noexcept {
    const auto operation = says(order);
    return Base::fetch_add(by, order);
  }
  T fetch_sub(auto by, Order order = memory_order_seq_cst) noexcept {
    const auto operation = says(order);
    return Base::fetch_sub(by, order);
  }
  T fetch_or(auto bits, Order order = memory_order_seq_cst) noexcept {
    const auto operation = says(order);
    return Base::fetch_or(bits, order);
  }
  T fetch_and(auto bits, Order order = memory_order_seq_cst) noexcept {
    const auto operation = says(order);
    return Base::fetch_and(bits, order);
  }
  operator T() const noexcept { return load(); }  // NOLINT: the same
  T operator=(T value) noexcept {                 // NOLINT: the same
    store(value);
    return value;
  }
  T operator++() noexcept { return fetch_add(1) + 1; }
  T operator++(int) noexcept { return fetch_add(1); }
  T operator--() noexcept { return fetch_sub(1) - 1; }
  T operator--(int) noexcept { return fetch_sub(1); }
  T operator+=(auto by) noexcept { return fetch_add(by) + by; }
  T operator-=(auto by) noexcept { return fetch_sub(by) - by; }
  T operator|=(auto bits) noexcept { return fetch_or(bits) | bits; }
  T operator&=(auto bits) noexcept { return fetch_and(bits) & bits; }

 private:
  quarry_helgrind::Operation says(Order order) const noexcept { return {this, sizeof *this, order}; }
};

}  // namespace std

#define atomic quarry_annotated
#define QUARRY_HELGRIND_AUTO auto
#else
#define QUARRY_HELGRIND_AUTO __auto_type
#endif

// Inside its own text a macro is not replaced again: that is the builtin.
#define QUARRY_HELGRIND_DO(address, order, call)                       \
  __extension__({                                                      \
    VALGRIND_HG_DISABLE_CHECKING((address), sizeof *(address));        \
    if ((order) != __ATOMIC_RELAXED) ANNOTATE_HAPPENS_BEFORE(address); \
    QUARRY_HELGRIND_AUTO quarry_found = call;                          \
    if ((order) != __ATOMIC_RELAXED) ANNOTATE_HAPPENS_AFTER(address);  \
    quarry_found;                                                      \
  })
#define __atomic_add_fetch(address, by, order) \
  QUARRY_HELGRIND_DO(address, order, __atomic_add_fetch((address), (by), (order)))
#define __atomic_sub_fetch(address, by, order) \
  QUARRY_HELGRIND_DO(address, order, __atomic_sub_fetch((address), (by), (order)))
#define __atomic_load_n(address, order)                                      \
  __extension__({                                                            \
    VALGRIND_HG_DISABLE_CHECKING((address), sizeof *(address));              \
    QUARRY_HELGRIND_AUTO quarry_found = __atomic_load_n((address), (order)); \
    if ((order) != __ATOMIC_RELAXED) ANNOTATE_HAPPENS_AFTER(address);        \
    quarry_found;                                                            \
  })
#define __atomic_store_n(address, value, order)                        \
  __extension__({                                                      \
    VALGRIND_HG_DISABLE_CHECKING((address), sizeof *(address));        \
    if ((order) != __ATOMIC_RELAXED) ANNOTATE_HAPPENS_BEFORE(address); \
    __atomic_store_n((address), (value), (order));                     \
  })
