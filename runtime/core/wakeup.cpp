// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/wakeup.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace quarry {

void Wakeup::wake() noexcept {
  count_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0)
    syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void Wakeup::sleep(std::uint32_t seen, std::uint64_t deadline_ns) noexcept {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const timespec until = {static_cast<time_t>(deadline_ns / kSecond), static_cast<long>(deadline_ns % kSecond)};
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &count_, FUTEX_WAIT_BITSET_PRIVATE, seen, deadline_ns ? &until : nullptr, nullptr,
          FUTEX_BITSET_MATCH_ANY);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace quarry
