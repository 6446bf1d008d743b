// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/wakeup.h"

#include "base/os/wait.h"

namespace quarry {

void Wakeup::wake() noexcept {
  count_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) os::wake_all(count_);
}

void Wakeup::sleep(std::uint32_t seen, std::uint64_t deadline_ns) noexcept {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  os::wait_on(count_, seen, deadline_ns);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace quarry
