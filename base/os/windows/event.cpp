// SPDX-License-Identifier: Apache-2.0
#include "base/os/event.h"

#include <cerrno>

namespace quarry::os {

// Windows has no descriptor that a program could wait for beside others: to ask for one is an error.
EventHandle make_event(bool) noexcept {
  errno = ENOSYS;
  return kNoEvent;
}

void close_event(EventHandle) noexcept {}
void raise_event(EventHandle) noexcept {}
void lower_event(EventHandle) noexcept {}
bool renew_event(EventHandle) noexcept { return false; }

}  // namespace quarry::os
