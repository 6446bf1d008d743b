// SPDX-License-Identifier: Apache-2.0
#include "base/os/thread.h"

#include <process.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/os/windows/system.h"

namespace quarry::os {
namespace {

// What a set's bits mean: 64 for each of Windows' groups of processors.
constexpr std::uint32_t kGroupSize = 64;

struct Start {
  void *(*body)(void *);
  void *argument;
};

unsigned __stdcall run(void *given) {
  const Start start = *static_cast<Start *>(given);
  std::free(given);
  start.body(start.argument);
  return 0;
}

// Windows before 10 (1607), and some headers, have no such function.
void set_name(HANDLE thread, const char *name) noexcept {
  using SetDescription = HRESULT(WINAPI *)(HANDLE, const wchar_t *);
  const auto set = reinterpret_cast<SetDescription>(
      reinterpret_cast<void *>(GetProcAddress(GetModuleHandleW(L"kernel32.dll"), "SetThreadDescription")));
  wchar_t wide[16] = {};
  for (std::size_t i = 0; i < 15 && name[i]; ++i) wide[i] = static_cast<unsigned char>(name[i]);
  if (set) (void)set(thread, wide);
}

HANDLE handle_of(Thread thread) noexcept { return reinterpret_cast<HANDLE>(thread.handle); }

}  // namespace

bool start_thread(Thread *out, const char *name, void *(*body)(void *), void *argument) noexcept {
  auto *const start = static_cast<Start *>(std::malloc(sizeof(Start)));  // freed by the new thread
  if (!start) return false;
  *start = {body, argument};
  const std::uintptr_t thread = ::_beginthreadex(nullptr, 0, run, start, 0, nullptr);
  if (thread == 0) {
    std::free(start);
    return false;
  }
  out->handle = thread;
  set_name(handle_of(*out), name);
  return true;
}

void join_thread(Thread thread) noexcept {
  WaitForSingleObject(handle_of(thread), INFINITE);
  CloseHandle(handle_of(thread));
}

void yield_thread() noexcept { SwitchToThread(); }

std::uint32_t current_thread_id() noexcept { return GetCurrentThreadId(); }

ProcessorSet usable_processor_set() noexcept {
  ProcessorSet out;
  const WORD groups = std::min<WORD>(GetActiveProcessorGroupCount(), kMostProcessors / kGroupSize);
  DWORD_PTR ours = 0, system = 0;
  // With several groups it says nothing: a process may use all of them.
  const bool is_limited = groups == 1 && GetProcessAffinityMask(GetCurrentProcess(), &ours, &system) && ours != 0;
  for (WORD group = 0; group < groups; ++group)
    for (DWORD i = 0, count = GetActiveProcessorCount(group); i < count; ++i)
      if (!is_limited || ours >> i & 1) out.set(group * kGroupSize + i);
  return out;
}

std::uint32_t usable_processors() noexcept {
  return std::max<std::uint32_t>(static_cast<std::uint32_t>(usable_processor_set().count()), 1);
}

// A thread runs in one group: that of the first processor of the set.
void pin_thread(Thread thread, const ProcessorSet &to) noexcept {
  GROUP_AFFINITY affinity{};
  bool found = false;
  for (std::uint32_t i = 0; i < kMostProcessors; ++i) {
    if (!to[i]) continue;
    if (!found) affinity.Group = static_cast<WORD>(i / kGroupSize);
    found = true;
    if (i / kGroupSize == affinity.Group) affinity.Mask |= KAFFINITY{1} << i % kGroupSize;
  }
  if (found) SetThreadGroupAffinity(handle_of(thread), &affinity, nullptr);
}

}  // namespace quarry::os
