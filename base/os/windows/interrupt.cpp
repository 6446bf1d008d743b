// SPDX-License-Identifier: Apache-2.0
#include "base/os/interrupt.h"

#include <atomic>

#include "base/os/windows/system.h"

namespace quarry::os {
namespace {

constexpr int kNone = 0;
// Numbers of the console's events, and one more, as the first of them is 0.
constexpr int number_of_event(DWORD event) noexcept { return static_cast<int>(event) + 1; }

std::atomic<int> noted{kNone};
const HANDLE woken = CreateSemaphoreW(nullptr, 0, 1 << 20, nullptr);

// On a thread of Windows' own. FALSE: Windows does what it does without us, and ends the program.
BOOL WINAPI note(DWORD event) {
  const int number = number_of_event(event);
  if (event == CTRL_C_EVENT && noted.load() == number) return FALSE;
  noted.store(number);
  ReleaseSemaphore(woken, 1, nullptr);
  // Of a window that is closed, and of a session that ends, it waits some seconds for this function.
  if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) Sleep(4000);
  return TRUE;
}

}  // namespace

void begin_noting_interrupts() noexcept {
  while (WaitForSingleObject(woken, 0) == WAIT_OBJECT_0) {
  }
  SetConsoleCtrlHandler(note, TRUE);
}

void end_noting_interrupts() noexcept { SetConsoleCtrlHandler(note, FALSE); }

void await_interrupt() noexcept { WaitForSingleObject(woken, INFINITE); }

void release_interrupt_waiter() noexcept { ReleaseSemaphore(woken, 1, nullptr); }

int noted_interrupt() noexcept { return noted.load(); }

bool forget_ctrl_c() noexcept {
  int number = number_of_event(CTRL_C_EVENT);
  return noted.compare_exchange_strong(number, kNone);
}

const char *interrupt_name(int number) noexcept {
  switch (number) {
    case number_of_event(CTRL_C_EVENT): return "Ctrl-C";
    case number_of_event(CTRL_BREAK_EVENT): return "Ctrl-Break";
    case number_of_event(CTRL_CLOSE_EVENT): return "its window's end";
    case number_of_event(CTRL_LOGOFF_EVENT): return "the user's logging off";
    case number_of_event(CTRL_SHUTDOWN_EVENT): return "the system's end";
    default: return "no event";
  }
}

void end_by_interrupt(int) noexcept {
  constexpr UINT kControlCExit = 0xC000013A;  // STATUS_CONTROL_C_EXIT, what a parent sees of the others
  TerminateProcess(GetCurrentProcess(), kControlCExit);
  for (;;) Sleep(INFINITE);
}

}  // namespace quarry::os
