// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sched.h>

#include <cstring>

#include "base/os/thread.h"

namespace quarry::os {

// By the kernel's number of the thread: pthread_setaffinity_np is of API 36.
void pin_thread(Thread thread, const ProcessorSet &to) noexcept {
  pthread_t known;
  std::memcpy(&known, &thread.handle, sizeof known);
  sched_setaffinity(pthread_gettid_np(known), sizeof to, reinterpret_cast<const cpu_set_t *>(&to));
}

}  // namespace quarry::os
