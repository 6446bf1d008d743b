// SPDX-License-Identifier: Apache-2.0
// What fork() leaves of a process to its child: the memory, but only the thread that called it. Objects with threads
// of their own ask here whether they are still in the process that started these.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/status.h"
#include "runtime/core/wakeup.h"

namespace quarry {

class CallSignal;

// The process that a runtime is in. Nothing is registered with the system: the mark lies in a page that the kernel
// clears in every child.
class Process {
 public:
  Process() noexcept;
  ~Process();
  Process(const Process &) = delete;
  Process &operator=(const Process &) = delete;

  // 1 in the process that made this object, one more in its child, and so on. Makes no system call (but on kernels
  // older than 4.14, which cannot clear the page).
  std::uint32_t generation() noexcept;
  // Whether generation() gives or would give this number. Safe in a signal handler.
  bool is(std::uint32_t generation) const noexcept;

  // The system's id of the calling thread, never 0. Makes no system call where the thread asked this process before.
  std::uint32_t thread_id() noexcept;

  // Calls `reset` where the object was last used in another process than this; `entered` keeps the generation of the
  // last use. Threads that come at the same time wait until it is done.
  template <class Reset>
  void enter(std::atomic<std::uint32_t> &entered, Reset &&reset) noexcept {
    once(entered, generation(), static_cast<Reset &&>(reset));
  }

 private:
  static constexpr std::uint32_t kBusy = 1u << 31;
  static void yield() noexcept;
  // Has `word` become `wanted`; the one thread that changes it calls `change` meanwhile.
  template <class Change>
  static void once(std::atomic<std::uint32_t> &word, std::uint32_t wanted, Change &&change) noexcept {
    std::uint32_t seen = word.load(std::memory_order_acquire);
    while (seen != wanted) {
      if (seen == (wanted | kBusy)) {
        yield();
        seen = word.load(std::memory_order_acquire);
      } else if (word.compare_exchange_weak(seen, wanted | kBusy, std::memory_order_acquire)) {
        change();
        word.store(wanted, std::memory_order_release);
        return;
      }
    }
  }

  std::atomic<std::uint32_t> *page_ = nullptr;  // 1, until the kernel clears it
  std::atomic<std::uint32_t> pid_{0};           // instead, where there is no page
  std::atomic<std::uint32_t> generation_{1};
  const std::uint64_t made_ns_;  // distinguishes this object from one that was at its address before
};

// A lock that does not hang in a child whose parent was forked while another thread held it.
class ProcessMutex {
 public:
  explicit ProcessMutex(Process &process) noexcept : process_(process) {}
  ProcessMutex(const ProcessMutex &) = delete;
  ProcessMutex &operator=(const ProcessMutex &) = delete;

 private:
  friend class ProcessLock;
  // Lost: the holder is a thread that this process does not have, and what it was changing is lost.
  enum class Taken : std::uint8_t { Yes, Lost, Busy };
  Taken try_lock() noexcept;
  Taken lock() noexcept;
  void unlock() noexcept;

  Process &process_;
  std::atomic<std::uint32_t> holder_{0};  // the generation of the process that the holder is in; 0: free
  Wakeup freed_;
};

class ProcessLock {
 public:
  explicit ProcessLock(ProcessMutex &mutex) noexcept : mutex_(mutex), taken_(mutex.lock()) {}
  // Where the holder may take long: waits no longer than the call's signal allows.
  ProcessLock(ProcessMutex &mutex, const CallSignal &signal);
  ~ProcessLock() {
    if (held()) mutex_.unlock();
  }
  ProcessLock(const ProcessLock &) = delete;
  ProcessLock &operator=(const ProcessLock &) = delete;

  bool held() const noexcept { return taken_ == ProcessMutex::Taken::Yes; }
  // Not ok where the lock is lost or the waiting was stopped; `what`: what it guards.
  Status status(const char *what) const { return held() ? Status() : refusal(what); }

 private:
  Status refusal(const char *what) const;

  ProcessMutex &mutex_;
  ProcessMutex::Taken taken_;
  mutable Status stopped_;  // what ended the waiting; reported once
};

}  // namespace quarry
