// SPDX-License-Identifier: Apache-2.0
#include "base/os/wake_count.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace quarry::os {

// macOS has no semaphores without a name. A byte for each wake; each begin has a pipe of its own.
static int ends[2] = {-1, -1};

void begin_wake_count() noexcept {
  for (int &end : ends)
    if (end >= 0) ::close(std::exchange(end, -1));
  if (::pipe(ends) != 0) return;
  for (const int end : ends) (void)::fcntl(end, F_SETFD, FD_CLOEXEC);
  (void)::fcntl(ends[1], F_SETFL, O_NONBLOCK);  // a handler does not wait
}

void add_wake() noexcept { (void)!::write(ends[1], "", 1); }

void await_wake() noexcept {
  char byte;
  while (::read(ends[0], &byte, 1) < 0 && errno == EINTR) {
  }
}

}  // namespace quarry::os
