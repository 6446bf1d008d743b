// SPDX-License-Identifier: Apache-2.0
// Ctrl-C, kill and a closed terminal while there is something to report or to tidy up first.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace tools {

// While one of these is there, SIGINT, SIGTERM and SIGHUP are noted instead of ending the program, each unless the
// caller of the program ignores it; a second SIGINT ends it at once. One at a time.
class Interruptible {
 public:
  // `wake`, where given, is called once after a signal, on a thread of its own: it may do what a signal handler may
  // not.
  explicit Interruptible(std::function<void()> wake = {});
  ~Interruptible();
  Interruptible(const Interruptible &) = delete;
  Interruptible &operator=(const Interruptible &) = delete;

 private:
  std::function<void()> wake_;
  std::thread waiter_;
  std::atomic<bool> done_{false};
};

// The signal that was noted; 0: none.
int interrupted() noexcept;
// Whether it was Ctrl-C, which is forgotten then: it stopped a part of the work and not the program.
bool forget_ctrl_c() noexcept;
// "SIGINT".
const char *interrupt_name() noexcept;
// Says what the program was stopped by and ends it by that signal, so that its parent sees why; returns when there was
// none.
void end_by_interrupt();

}  // namespace tools
