// SPDX-License-Identifier: Apache-2.0
#include "tools/console/interrupt.h"

#include <cstdio>

#include "base/os/interrupt.h"

namespace tools {

namespace os = quarry::os;

Interruptible::Interruptible(std::function<void()> wake) : wake_(std::move(wake)) {
  os::begin_noting_interrupts();
  if (!wake_) return;
  waiter_ = std::thread([this] {
    os::await_interrupt();
    if (!done_) wake_();
  });
}

Interruptible::~Interruptible() {
  os::end_noting_interrupts();
  if (!waiter_.joinable()) return;
  done_ = true;
  os::release_interrupt_waiter();
  waiter_.join();
}

int interrupted() noexcept { return os::noted_interrupt(); }

bool forget_ctrl_c() noexcept { return os::forget_ctrl_c(); }

const char *interrupt_name() noexcept { return os::interrupt_name(interrupted()); }

void end_by_interrupt() {
  const int number = interrupted();
  if (number == 0) return;
  std::fprintf(stderr, "quarry: stopped by %s\n", interrupt_name());
  os::end_by_interrupt(number);
}

}  // namespace tools
