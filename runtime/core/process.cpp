// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/process.h"

#include <new>

#include "base/os/process.h"
#include "base/os/thread.h"
#include "loader/host.h"
#include "runtime/core/signal.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2")  // the library is built for size; what every run goes through is built for speed
#endif

namespace quarry {

Process::Process() noexcept : made_ns_(loader::monotonic_ns()) {
  if (void *const page = os::make_page_zeroed_by_fork()) page_ = ::new (page) std::atomic<std::uint32_t>(1);
  else pid_.store(os::process_id(), std::memory_order_relaxed);
}

Process::~Process() {
  if (page_) os::free_page_zeroed_by_fork(page_);
}

void Process::yield() noexcept { os::yield_thread(); }

std::uint32_t Process::generation() noexcept {
  const auto another = [this] { generation_.fetch_add(1, std::memory_order_relaxed); };
  if (page_) once(*page_, 1, another);
  else once(pid_, os::process_id(), another);
  return generation_.load(std::memory_order_relaxed);
}

bool Process::is(std::uint32_t generation) const noexcept {
  const bool entered =
      page_ ? page_->load(std::memory_order_acquire) == 1 : pid_.load(std::memory_order_acquire) == os::process_id();
  return entered && generation_.load(std::memory_order_relaxed) == generation;
}

// A child's thread has what its parent's thread noted, but asks in another generation.
std::uint32_t Process::thread_id() noexcept {
  struct Known {
    const Process *process;
    std::uint64_t made_ns;
    std::uint32_t generation, id;
  };
  static constinit thread_local Known known{nullptr, 0, 0, 0};
  const std::uint32_t now = generation();
  if (known.process != this || known.made_ns != made_ns_ || known.generation != now)
    known = {this, made_ns_, now, os::current_thread_id()};
  return known.id;
}

ProcessMutex::Taken ProcessMutex::try_lock() noexcept {
  const std::uint32_t here = process_.generation();
  std::uint32_t holder = 0;
  if (holder_.compare_exchange_strong(holder, here, std::memory_order_acquire, std::memory_order_relaxed))
    return Taken::Yes;
  return holder == here ? Taken::Busy : Taken::Lost;
}

ProcessMutex::Taken ProcessMutex::lock() noexcept {
  for (;;) {
    const std::uint32_t seen = freed_.seen();
    if (const Taken taken = try_lock(); taken != Taken::Busy) return taken;
    freed_.sleep(seen, 0);
  }
}

void ProcessMutex::unlock() noexcept {
  holder_.store(0, std::memory_order_release);
  freed_.wake();
}

ProcessLock::ProcessLock(ProcessMutex &mutex, const CallSignal &signal) : mutex_(mutex), taken_(mutex.try_lock()) {
  if (taken_ != ProcessMutex::Taken::Busy) return;
  WakingFollower follower(mutex.freed_);
  const SignalLink link(signal.signal(), follower);
  for (;;) {
    const std::uint32_t seen = mutex.freed_.seen();
    taken_ = mutex.try_lock();
    if (taken_ != ProcessMutex::Taken::Busy) return;
    stopped_ = signal.check("waiting for another call");
    if (!stopped_.ok()) return;
    mutex.freed_.sleep(seen, signal.deadline_ns());
  }
}

Status ProcessLock::refusal(const char *what) const {
  if (!stopped_.ok()) return std::move(stopped_);
  return Status::errorf(ErrorId::lock_lost_at_fork,
                        "%s: this process was forked while a thread of its parent was at work on them, expected "
                        "that no call was under way",
                        what);
}

}  // namespace quarry
