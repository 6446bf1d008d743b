// SPDX-License-Identifier: Apache-2.0
#include "base/os/process.h"

#include "base/os/windows/system.h"
// After the one above.
#include <psapi.h>
#include <shellapi.h>

#include <cstdio>
#include <memory>

namespace quarry::os {

std::uint32_t process_id() noexcept { return GetCurrentProcessId(); }

// Windows has no programs that have more rights than who starts them, unless that one was asked.
bool is_privileged() noexcept { return false; }

Vector<String> program_words(int count, const char *const *words) {
  const std::unique_ptr<wchar_t *, HLOCAL (*)(HLOCAL)> wide(CommandLineToArgvW(GetCommandLineW(), &count), LocalFree);
  if (!wide) return {words, words + count};
  Vector<String> out;
  for (int i = 0; i < count; ++i) out.push_back(narrow(wide.get()[i]));
  return out;
}

const char *variable(const char *name, String &room) {
  const Wide wide(name);
  const DWORD size = wide.get() ? GetEnvironmentVariableW(wide.get(), nullptr, 0) : 0;  // with its NUL
  if (size == 0) return nullptr;
  Vector<wchar_t> text(size);
  const DWORD got = GetEnvironmentVariableW(wide.get(), text.data(), size);
  if (got >= size) return nullptr;  // another thread made it longer
  room = narrow({text.data(), got});
  return room.c_str();
}

bool set_variable(const char *name, const char *value) noexcept {
  const Wide wide(name), wide_value(value);
  return wide.get() && wide_value.get() && SetEnvironmentVariableW(wide.get(), wide_value.get());
}

void end_process(int status) noexcept {
  TerminateProcess(GetCurrentProcess(), static_cast<UINT>(status));
  for (;;) Sleep(INFINITE);
}

// There is no fork().
void *make_page_zeroed_by_fork() noexcept {
  return VirtualAlloc(nullptr, 4096, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void free_page_zeroed_by_fork(void *page) noexcept { VirtualFree(page, 0, MEM_RELEASE); }

PeakMemory peak_memory() noexcept {
  PROCESS_MEMORY_COUNTERS counters;
  if (!K32GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters)) return {0, "none"};
  return {counters.PeakWorkingSetSize, "PeakWorkingSetSize"};
}

std::uint64_t most_open_files() noexcept { return static_cast<std::uint64_t>(::_getmaxstdio()); }

}  // namespace quarry::os
