// SPDX-License-Identifier: Apache-2.0
#include "base/os/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace quarry::os {
namespace {

// As much as glibc gives (here 512 kB where nothing is said); memory is taken as it is used.
constexpr std::size_t kStackBytes = 8 << 20;

static_assert(sizeof(pthread_t) == sizeof(std::uintptr_t));

// A thread has its name from itself alone.
struct Start {
  void *(*body)(void *);
  void *argument;
  char name[16];
};

void *run_named(void *given) noexcept {
  const Start start = *static_cast<Start *>(given);
  std::free(given);
  pthread_setname_np(start.name);
  return start.body(start.argument);
}

}  // namespace

bool start_thread(Thread *out, const char *name, void *(*body)(void *), void *argument) noexcept {
  auto *const start = static_cast<Start *>(std::calloc(1, sizeof(Start)));
  if (!start) return false;
  start->body = body, start->argument = argument;
  std::memcpy(start->name, name, std::min(std::strlen(name), sizeof start->name - 1));
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  const bool started = pthread_create(&thread, &attributes, run_named, start) == 0;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) std::memcpy(&out->handle, &thread, sizeof thread);
  else std::free(start);
  return started;
}

void join_thread(Thread thread) noexcept {
  pthread_t known;
  std::memcpy(&known, &thread.handle, sizeof known);
  pthread_join(known, nullptr);
}

void yield_thread() noexcept { sched_yield(); }

std::uint32_t current_thread_id() noexcept {
  std::uint64_t number = 0;
  pthread_threadid_np(nullptr, &number);
  return static_cast<std::uint32_t>(number);
}

// The system moves threads as it likes; all that run are there for each.
ProcessorSet usable_processor_set() noexcept {
  ProcessorSet out;
  for (std::uint32_t i = 0; i < std::min(usable_processors(), kMostProcessors); ++i) out.set(i);
  return out;
}

std::uint32_t usable_processors() noexcept {
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<std::uint32_t>(online) : 1;
}

void pin_thread(Thread, const ProcessorSet &) noexcept {}

}  // namespace quarry::os
