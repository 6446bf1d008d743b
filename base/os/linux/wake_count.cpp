// SPDX-License-Identifier: Apache-2.0
#include "base/os/wake_count.h"

#include <semaphore.h>

#include <cerrno>

namespace quarry::os {

static sem_t woken;

void begin_wake_count() noexcept { ::sem_init(&woken, 0, 0); }

void add_wake() noexcept { ::sem_post(&woken); }

void await_wake() noexcept {
  while (::sem_wait(&woken) != 0 && errno == EINTR) {
  }
}

}  // namespace quarry::os
