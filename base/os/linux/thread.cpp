// SPDX-License-Identifier: Apache-2.0
#include "base/os/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <type_traits>

#include "base/os/library.h"

namespace quarry::os {
namespace {

// As much as glibc gives; memory is taken as it is used.
[[maybe_unused]] constexpr std::size_t kStackBytes = 8 << 20;

static_assert(sizeof(pthread_t) == sizeof(std::uintptr_t));
// Both are words of bits.
static_assert(kMostProcessors == CPU_SETSIZE && sizeof(ProcessorSet) == sizeof(cpu_set_t) &&
              std::is_trivially_copyable_v<ProcessorSet>);

pthread_t system_thread(Thread thread) noexcept {
  pthread_t out;  // a number here, a pointer elsewhere
  std::memcpy(&out, &thread.handle, sizeof out);
  return out;
}

}  // namespace

bool start_thread(Thread *out, const char *name, void *(*body)(void *), void *argument) noexcept {
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes, *with = nullptr;
  if constexpr (kMusl || kAndroid) {  // which give a thread 128 kB, or 1 MB, where nothing is said
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    with = &attributes;
  }
  const bool started = pthread_create(&thread, with, body, argument) == 0;
  if (started) {
    pthread_setname_np(thread, name);
    std::memcpy(&out->handle, &thread, sizeof thread);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void join_thread(Thread thread) noexcept { pthread_join(system_thread(thread), nullptr); }

void yield_thread() noexcept { sched_yield(); }

std::uint32_t current_thread_id() noexcept { return static_cast<std::uint32_t>(gettid()); }

ProcessorSet usable_processor_set() noexcept {
  ProcessorSet out;
  sched_getaffinity(0, sizeof out, reinterpret_cast<cpu_set_t *>(&out));
  return out;
}

std::uint32_t usable_processors() noexcept {
  const ProcessorSet usable = usable_processor_set();
  if (const int count = CPU_COUNT(reinterpret_cast<const cpu_set_t *>(&usable)))
    return static_cast<std::uint32_t>(count);
  const long online = sysconf(_SC_NPROCESSORS_ONLN);  // more processors than cpu_set_t has bits
  return online > 0 ? static_cast<std::uint32_t>(online) : 1;
}

}  // namespace quarry::os
