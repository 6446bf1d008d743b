// SPDX-License-Identifier: Apache-2.0
#include "tools/console/interrupt.h"

#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace tools {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

// A handler reaches nothing but these.
std::atomic<int> g_noted{0};
sem_t g_wake;
struct sigaction g_before[3];

void note(int number) {
  const int number_before = errno;
  if (number == SIGINT && g_noted.load() == SIGINT) {
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
  g_noted.store(number);
  sem_post(&g_wake);
  errno = number_before;
}

}  // namespace

Interruptible::Interruptible(std::function<void()> wake) : wake_(std::move(wake)) {
  sem_init(&g_wake, 0, 0);
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < 3; ++i) {
    sigaction(kSignals[i], nullptr, &g_before[i]);
    if (g_before[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
  if (!wake_) return;
  waiter_ = std::thread([this] {
    while (sem_wait(&g_wake) != 0 && errno == EINTR) {
    }
    if (!done_) wake_();
  });
}

Interruptible::~Interruptible() {
  for (size_t i = 0; i < 3; ++i) sigaction(kSignals[i], &g_before[i], nullptr);
  if (!waiter_.joinable()) return;
  done_ = true;
  sem_post(&g_wake);
  waiter_.join();
}

int interrupted() noexcept { return g_noted.load(); }

const char *interrupt_name() noexcept {
  const int number = interrupted();
  return number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : number == SIGHUP ? "SIGHUP" : "no signal";
}

void end_by_interrupt() {
  const int number = interrupted();
  if (number == 0) return;
  std::fprintf(stderr, "quarry: stopped by %s\n", interrupt_name());
  signal(number, SIG_DFL);
  raise(number);
  _exit(128 + number);  // a process 1 is not ended by its own signals
}

}  // namespace tools
