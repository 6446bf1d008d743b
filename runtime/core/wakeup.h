// SPDX-License-Identifier: Apache-2.0
// Sleep of threads that wait for one of several things, such as an end of work or the abort of a signal.
#pragma once

#include <atomic>
#include <cstdint>

namespace quarry {

// To wait: note seen(), look whether what is waited for is there, and if not sleep(seen). Whoever changes something
// calls wake() afterwards: a sleep that begins later than that does not sleep. Holds nothing that a child of fork()
// would have to make anew.
class Wakeup {
 public:
  std::uint32_t seen() const noexcept { return count_.load(std::memory_order_acquire); }
  // Safe in a signal handler. Makes no system call where nobody sleeps.
  void wake() noexcept;
  // Until wake() is called or the clock (loader::monotonic_ns) is at `deadline_ns`, 0 for none; may also return early.
  void sleep(std::uint32_t seen, std::uint64_t deadline_ns) noexcept;

 private:
  std::atomic<std::uint32_t> count_{0}, sleepers_{0};
};

}  // namespace quarry
