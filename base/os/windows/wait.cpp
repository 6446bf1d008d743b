// SPDX-License-Identifier: Apache-2.0
#include "base/os/wait.h"

#include "base/clock.h"
#include "base/os/windows/system.h"

namespace quarry::os {

void wait_on(const std::atomic<std::uint32_t> &word, std::uint32_t seen, std::uint64_t deadline_ns) noexcept {
  DWORD ms = INFINITE;
  if (deadline_ns) {
    const std::uint64_t now = now_ns();
    const std::uint64_t left = deadline_ns > now ? (deadline_ns - now - 1) / 1'000'000 + 1 : 0;
    ms = left < INFINITE ? static_cast<DWORD>(left) : INFINITE - 1;
  }
  WaitOnAddress(const_cast<std::atomic<std::uint32_t> *>(&word), &seen, sizeof seen, ms);
}

void wake_all(const std::atomic<std::uint32_t> &word) noexcept {
  WakeByAddressAll(const_cast<std::atomic<std::uint32_t> *>(&word));
}

}  // namespace quarry::os
