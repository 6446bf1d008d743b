// SPDX-License-Identifier: Apache-2.0
#include "runtime/process.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace quarry {

Process::Process() noexcept {
  const std::size_t size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void *page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED && madvise(page, size, MADV_WIPEONFORK) == 0) {
    page_ = ::new (page) std::atomic<std::uint32_t>(1);
    return;
  }
  if (page != MAP_FAILED) munmap(page, size);
  pid_.store(static_cast<std::uint32_t>(getpid()), std::memory_order_relaxed);
}

Process::~Process() {
  if (page_) munmap(page_, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
}

void Process::yield() noexcept { sched_yield(); }

std::uint32_t Process::generation() noexcept {
  const auto another = [this] { generation_.fetch_add(1, std::memory_order_relaxed); };
  if (page_) once(*page_, 1, another);
  else once(pid_, static_cast<std::uint32_t>(getpid()), another);
  return generation_.load(std::memory_order_relaxed);
}

bool ProcessMutex::lock() noexcept {
  const std::uint32_t here = process_.generation();
  std::uint32_t holder = 0;
  while (!holder_.compare_exchange_weak(holder, here, std::memory_order_acquire, std::memory_order_relaxed)) {
    if (holder == here) holder_.wait(holder, std::memory_order_relaxed);
    else if (holder != 0) return false;
    holder = 0;
  }
  return true;
}

void ProcessMutex::unlock() noexcept {
  holder_.store(0, std::memory_order_release);
  holder_.notify_one();
}

Status ProcessLock::status(const char *what) const {
  if (held_) return {};
  return Status::error(ErrorId::lock_lost_at_fork,
                       format("%s: this process was forked while a thread of its parent was at work on them, expected "
                              "that no call was under way",
                              what));
}

}  // namespace quarry
