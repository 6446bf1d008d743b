// SPDX-License-Identifier: Apache-2.0
// Threads that sleep until a word in memory changes.
#pragma once

#include <atomic>
#include <cstdint>

namespace quarry::os {

// Sleeps while the word is `seen`, until wake_all or the clock (base/clock.h) is at `deadline_ns`, 0: for as long as it
// takes. May return early. Of threads of one process.
void wait_on(const std::atomic<std::uint32_t> &word, std::uint32_t seen, std::uint64_t deadline_ns) noexcept;

// Wakes all that sleep on the word. Safe in a signal handler.
void wake_all(const std::atomic<std::uint32_t> &word) noexcept;

}  // namespace quarry::os
