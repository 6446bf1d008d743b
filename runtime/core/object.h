// SPDX-License-Identifier: Apache-2.0
// What every object of the C ABI is: counted, so that children hold their parents and any order of destruction is
// right; and, where its header says [exclusive], guarded against calls that overlap.
// After fork() an object that a thread of the parent was inside stays so in the child: calls on it are refused.
#pragma once

#include <atomic>

#include "base/alloc.h"
#include "base/status.h"
#include "runtime/core/process.h"

namespace quarry {

// Intrusive count. An object is made with one holder.
template <class T>
class Counted : public HeapObject {
 public:
  void retain() const noexcept { holders_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete static_cast<const T *>(this);
  }

 private:
  mutable std::atomic<std::uint32_t> holders_{1};
};

template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  explicit Ref(T *object) noexcept : object_(object) {  // one more holder
    if (object_) object_->retain();
  }
  static Ref adopt(T *object) noexcept {  // takes the holder that `new` made
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  template <class... Args>
  static Ref make(Args &&...args) {
    return adopt(new T(std::forward<Args>(args)...));
  }
  Ref(const Ref &other) noexcept : Ref(other.object_) {}
  Ref(Ref &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref &operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) object_->release();
  }

  T *get() const noexcept { return object_; }
  T *operator->() const noexcept { return object_; }
  T &operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  T *give() noexcept { return std::exchange(object_, nullptr); }  // to a C handle

 private:
  T *object_ = nullptr;
};

// Who is inside an [exclusive] object just now.
class ExclusiveUse {
 public:
  ExclusiveUse() noexcept = default;
  ExclusiveUse(const ExclusiveUse &) = delete;
  ExclusiveUse &operator=(const ExclusiveUse &) = delete;

 private:
  friend class ExclusiveScope;
  std::atomic<std::uint32_t> thread_{0};
};

class ExclusiveScope {
 public:
  ExclusiveScope(ExclusiveUse &use, Process &process, const char *function, const char *object) noexcept
      : use_(use), function_(function), object_(object), thread_(process.thread_id()) {
    held_ = use_.thread_.compare_exchange_strong(other_, thread_, std::memory_order_acquire, std::memory_order_relaxed);
  }
  ~ExclusiveScope() {
    if (held_) use_.thread_.store(0, std::memory_order_release);
  }
  ExclusiveScope(const ExclusiveScope &) = delete;
  ExclusiveScope &operator=(const ExclusiveScope &) = delete;

  bool held() const noexcept { return held_; }
  Status status() const {
    if (held_) return {};
    const String other = other_ == thread_ ? String("the same thread") : format("thread %u", other_);
    return Status::errorf(
        ErrorId::overlapping_calls,
        "%s: called on thread %u while %s is inside another call on this %s, expected one call at a time", function_,
        thread_, other, object_);
  }

 private:
  ExclusiveUse &use_;
  const char *function_;
  const char *object_;
  const std::uint32_t thread_;
  std::uint32_t other_ = 0;
  bool held_;
};

// Who is inside an object that any number of calls may read at a time, while one that changes it is alone.
class SharedUse {
 public:
  SharedUse() noexcept = default;
  SharedUse(const SharedUse &) = delete;
  SharedUse &operator=(const SharedUse &) = delete;

 private:
  friend class SharedScope;
  std::atomic<std::uint64_t> state_{0};  // upper half: the thread that changes it; lower half: how many read it
};

enum class Access : std::uint8_t { Read, Change };

class SharedScope {
 public:
  SharedScope(SharedUse &use, Process &process, Access access, const char *function, const char *object) noexcept
      : use_(use),
        process_(process),
        function_(function),
        object_(object),
        mine_(access == Access::Read ? 1 : changed_by(process.thread_id())) {
    for (;;) {
      held_ = access == Access::Read ? (other_ >> 32) == 0 : other_ == 0;
      if (!held_ || use_.state_.compare_exchange_weak(other_, other_ + mine_, std::memory_order_acquire,
                                                      std::memory_order_relaxed))
        return;
    }
  }
  ~SharedScope() {
    if (held_) use_.state_.fetch_sub(mine_, std::memory_order_release);
  }
  SharedScope(const SharedScope &) = delete;
  SharedScope &operator=(const SharedScope &) = delete;

  bool held() const noexcept { return held_; }
  Status status() const {
    if (held_) return {};
    const auto thread = static_cast<std::uint32_t>(other_ >> 32), readers = static_cast<std::uint32_t>(other_);
    return Status::error(
        ErrorId::overlapping_calls,
        thread ? format("%s: called on thread %u while thread %u changes this %s, expected none meanwhile", function_,
                        process_.thread_id(), thread, object_)
               : format("%s: called on thread %u while %u call%s this %s, expected none meanwhile", function_,
                        process_.thread_id(), readers, readers == 1 ? " reads" : "s read", object_));
  }

 private:
  static constexpr std::uint64_t changed_by(std::uint32_t thread) noexcept { return std::uint64_t{thread} << 32; }

  SharedUse &use_;
  Process &process_;
  const char *function_;
  const char *object_;
  const std::uint64_t mine_;
  std::uint64_t other_ = 0;
  bool held_ = false;
};

}  // namespace quarry
