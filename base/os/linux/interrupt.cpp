// SPDX-License-Identifier: Apache-2.0
#include "base/os/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <iterator>

#include "base/os/wake_count.h"

namespace quarry::os {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

// A handler reaches nothing but these.
std::atomic<int> noted{0};
struct sigaction before[std::size(kSignals)];

void note(int number) {
  const int number_before = errno;
  if (number == SIGINT && noted.load() == SIGINT) {
    ::signal(SIGINT, SIG_DFL);
    ::raise(SIGINT);
  }
  noted.store(number);
  add_wake();
  errno = number_before;
}

}  // namespace

void begin_noting_interrupts() noexcept {
  begin_wake_count();
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

void end_noting_interrupts() noexcept {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before[i], nullptr);
}

void await_interrupt() noexcept { await_wake(); }

void release_interrupt_waiter() noexcept { add_wake(); }

int noted_interrupt() noexcept { return noted.load(); }

bool forget_ctrl_c() noexcept {
  int number = SIGINT;
  return noted.compare_exchange_strong(number, 0);
}

const char *interrupt_name(int number) noexcept {
  switch (number) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGHUP: return "SIGHUP";
    default: return "no signal";
  }
}

void end_by_interrupt(int number) noexcept {
  ::signal(number, SIG_DFL);
  ::raise(number);
  ::_exit(128 + number);  // a process 1 is not ended by its own signals
}

}  // namespace quarry::os
