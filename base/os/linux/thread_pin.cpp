// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sched.h>

#include <cstring>

#include "base/os/thread.h"

namespace quarry::os {

void pin_thread(Thread thread, const ProcessorSet &to) noexcept {
  pthread_t known;  // a number here, a pointer elsewhere
  std::memcpy(&known, &thread.handle, sizeof known);
  pthread_setaffinity_np(known, sizeof to, reinterpret_cast<const cpu_set_t *>(&to));
}

}  // namespace quarry::os
