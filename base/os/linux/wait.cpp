// SPDX-License-Identifier: Apache-2.0
#include "base/os/wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace quarry::os {

void wait_on(const std::atomic<std::uint32_t> &word, std::uint32_t seen, std::uint64_t deadline_ns) noexcept {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const timespec until = {static_cast<time_t>(deadline_ns / kSecond), static_cast<long>(deadline_ns % kSecond)};
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, seen, deadline_ns ? &until : nullptr, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

void wake_all(const std::atomic<std::uint32_t> &word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace quarry::os
