// SPDX-License-Identifier: Apache-2.0
#include "base/os/library.h"

#include "base/os/path.h"
#include "base/os/windows/system.h"
#include "base/os_error.h"
// After the one above.
#include <psapi.h>

namespace quarry::os {
namespace {

constinit thread_local DWORD t_error = 0;
constexpr DWORD kRoom = 32768;

String file_of(HMODULE module) {
  Vector<wchar_t> room(kRoom);
  const DWORD size = GetModuleFileNameW(module, room.data(), kRoom);
  return size == 0 || size >= kRoom ? String() : narrow_path({room.data(), size});
}

// One without a folder in its name: where the program and the system have theirs, then PATH. Windows' own way would
// look into the working folder too, where anybody may put libraries.
HMODULE open_by_name(const wchar_t *name) noexcept {
  const HMODULE out = LoadLibraryExW(name, nullptr, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
  if (out || GetLastError() != ERROR_MOD_NOT_FOUND) return out;
  const std::unique_ptr<void, decltype(&free_block)> room(
      try_allocate_block((kRoom + MAX_PATH) * sizeof(wchar_t), alignof(wchar_t)), &free_block);
  if (!room) return nullptr;
  auto *const folders = static_cast<wchar_t *>(room.get()), *const file = folders + kRoom;
  const DWORD size = GetEnvironmentVariableW(L"PATH", folders, kRoom);
  const DWORD found = size && size < kRoom ? SearchPathW(folders, name, nullptr, MAX_PATH, file, nullptr) : 0;
  if (found && found < MAX_PATH) return LoadLibraryExW(file, nullptr, LOAD_WITH_ALTERED_SEARCH_PATH);
  SetLastError(ERROR_MOD_NOT_FOUND);
  return nullptr;
}

}  // namespace

// With its own folder searched first for what it needs, where it is named by a path.
void *open_library(const char *path) noexcept {
  const bool has_folder = last_separator(path) != std::string_view::npos;
  const Wide name(path);
  DWORD before = 0;
  SetThreadErrorMode(SEM_FAILCRITICALERRORS | SEM_NOOPENFILEERRORBOX, &before);  // no window that asks somebody
  HMODULE out = nullptr;
  if (!name.get()) SetLastError(ERROR_NO_UNICODE_TRANSLATION);
  else {
    // That way of searching wants a path with '\'.
    wchar_t *const text = const_cast<wchar_t *>(name.get());
    for (wchar_t *at = text; *at; ++at)
      if (*at == L'/') *at = L'\\';
    out = has_folder ? LoadLibraryExW(text, nullptr, LOAD_WITH_ALTERED_SEARCH_PATH) : open_by_name(text);
  }
  t_error = out ? 0 : GetLastError();
  SetThreadErrorMode(before, nullptr);
  return reinterpret_cast<void *>(out);
}

String library_error() {
  if (t_error == 0) return "no reason given";
  if (t_error == ERROR_MOD_NOT_FOUND) return "this file, or a library that it needs, was not found";
  return os_error_text(number_of(t_error));
}

// A loaded one, one beside it, one where the system searches (its own folders, the program's, PATH), or one that
// Windows has under no file of that name ("api-ms-win-...": sets of functions).
bool finds_library(const char *name, const char *beside) noexcept {
  const Wide wide(name), folder(beside);
  if (!wide.get() || !folder.get()) return false;
  if (GetModuleHandleW(wide.get())) return true;
  wchar_t room[MAX_PATH];
  if (SearchPathW(folder.get(), wide.get(), nullptr, MAX_PATH, room, nullptr) != 0) return true;
  if (SearchPathW(nullptr, wide.get(), nullptr, MAX_PATH, room, nullptr) != 0) return true;
  const HMODULE known = LoadLibraryExW(wide.get(), nullptr, LOAD_LIBRARY_AS_DATAFILE);
  if (known) FreeLibrary(known);
  return known != nullptr;
}

void *find_symbol(void *library, const char *name) noexcept {
  return reinterpret_cast<void *>(GetProcAddress(static_cast<HMODULE>(library), name));
}

String file_of(const void *address) {
  HMODULE module = nullptr;
  constexpr DWORD kHow = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  if (!GetModuleHandleExW(kHow, static_cast<const wchar_t *>(address), &module)) return {};
  return file_of(module);
}

void for_each_library(void (*visit)(void *self, std::string_view file), void *self) {
  Vector<HMODULE> modules(256);
  DWORD needed = 0;
  for (;;) {
    const auto room = static_cast<DWORD>(modules.size() * sizeof(HMODULE));
    if (!K32EnumProcessModules(GetCurrentProcess(), modules.data(), room, &needed)) return;
    if (needed <= room) break;
    modules.resize(needed / sizeof(HMODULE) + 16);
  }
  modules.resize(needed / sizeof(HMODULE));
  for (const HMODULE module : modules)
    if (const String file = file_of(module); !file.empty()) visit(self, file);
}

}  // namespace quarry::os
