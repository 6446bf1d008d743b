// SPDX-License-Identifier: Apache-2.0
#include "base/os/event.h"

#include <fcntl.h>
#include <sys/event.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>

namespace quarry::os {

// A queue of the kernel's with one event of ours in it: it is readable while that is raised, as poll and select see it.
// A pipe would take two descriptors.
namespace {

constexpr std::uintptr_t kOurs = 1;

bool change(EventHandle event, std::uint16_t flags, std::uint32_t what) noexcept {
  struct kevent one;
  EV_SET(&one, kOurs, EVFILT_USER, flags, what, 0, nullptr);
  return ::kevent(event, &one, 1, nullptr, 0, nullptr) == 0;
}

}  // namespace

// (exec closes a queue in any case.)
EventHandle make_event(bool raised) noexcept {
  const EventHandle event = ::kqueue();
  if (event < 0) return kNoEvent;
  if (!change(event, EV_ADD | EV_CLEAR, 0)) {
    ::close(event);
    return kNoEvent;
  }
  if (raised) raise_event(event);
  return event;
}

// In a child of fork() the number may be another's.
void close_event(EventHandle event) noexcept {
  const timespec at_once{};
  if (::kevent(event, nullptr, 0, nullptr, 0, &at_once) == 0) ::close(event);
}

void raise_event(EventHandle event) noexcept { (void)change(event, 0, NOTE_TRIGGER); }

void lower_event(EventHandle event) noexcept {
  struct kevent taken;
  const timespec at_once{};
  (void)::kevent(event, nullptr, 0, &taken, 1, &at_once);
}

// A child has none of its parent's queues: the number is free there, or another's by now, who keeps it.
bool renew_event(EventHandle event) noexcept {
  if (::fcntl(event, F_GETFD) >= 0) return false;
  const EventHandle fresh = make_event(false);
  if (fresh < 0 || fresh == event) return fresh == event;
  const bool renewed = ::dup2(fresh, event) == event;
  ::close(fresh);
  return renewed;
}

}  // namespace quarry::os
