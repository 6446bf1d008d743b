// SPDX-License-Identifier: Apache-2.0
#include "base/os/event.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace quarry::os {

EventHandle make_event(bool raised) noexcept { return ::eventfd(raised ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK); }

void close_event(EventHandle event) noexcept { ::close(event); }

void raise_event(EventHandle event) noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event, &one, sizeof one);  // a full counter is readable already
}

void lower_event(EventHandle event) noexcept {
  std::uint64_t count;
  [[maybe_unused]] const ssize_t taken = ::read(event, &count, sizeof count);
}

bool renew_event(EventHandle event) noexcept {
  const EventHandle fresh = make_event(false);
  if (fresh < 0) return false;
  ::dup3(fresh, event, O_CLOEXEC);
  ::close(fresh);
  return true;
}

}  // namespace quarry::os
