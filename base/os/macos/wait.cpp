// SPDX-License-Identifier: Apache-2.0
#include "base/os/wait.h"

#include <algorithm>

#include "base/clock.h"

// Of libSystem since macOS 10.12, in no header; what the headers have for it, os_sync_wait_on_address, is there from
// macOS 14.4 on. libc++ waits by them too.
extern "C" int __ulock_wait(std::uint32_t operation, void *address, std::uint64_t seen, std::uint32_t microseconds);
extern "C" int __ulock_wake(std::uint32_t operation, void *address, std::uint64_t value);

namespace quarry::os {
namespace {

constexpr std::uint32_t kCompareAndWait = 1, kWakeAll = 0x100, kNoErrno = 0x1000000;

void *address_of(const std::atomic<std::uint32_t> &word) noexcept {
  return const_cast<std::atomic<std::uint32_t> *>(&word);
}

}  // namespace

void wait_on(const std::atomic<std::uint32_t> &word, std::uint32_t seen, std::uint64_t deadline_ns) noexcept {
  std::uint32_t microseconds = 0;  // for as long as it takes
  if (deadline_ns) {
    const std::uint64_t now = now_ns();
    if (now >= deadline_ns) return;
    microseconds = static_cast<std::uint32_t>(std::min<std::uint64_t>((deadline_ns - now) / 1000 + 1, UINT32_MAX));
  }
  (void)__ulock_wait(kCompareAndWait | kNoErrno, address_of(word), seen, microseconds);
}

void wake_all(const std::atomic<std::uint32_t> &word) noexcept {
  (void)__ulock_wake(kCompareAndWait | kWakeAll | kNoErrno, address_of(word), 0);
}

}  // namespace quarry::os
