// SPDX-License-Identifier: Apache-2.0
// Ctrl-C, and what else asks a program to end.
#pragma once

namespace quarry::os {

// From here on such wishes are noted instead of ending the program, each unless the caller of the program ignores it; a
// second Ctrl-C ends it at once. After end_noting_interrupts() they are again as before.
void begin_noting_interrupts() noexcept;
void end_noting_interrupts() noexcept;

// Sleeps until one was noted, or release_interrupt_waiter().
void await_interrupt() noexcept;
void release_interrupt_waiter() noexcept;

// The last that was noted, by the system's number; 0: none.
int noted_interrupt() noexcept;
// Whether that was Ctrl-C, which is then as if it had not been: who stops a part of the work alone goes on.
bool forget_ctrl_c() noexcept;
// "SIGINT".
const char *interrupt_name(int number) noexcept;
// As if the program had not noted it, so that its parent sees why it ended.
[[noreturn]] void end_by_interrupt(int number) noexcept;

}  // namespace quarry::os
