// SPDX-License-Identifier: Apache-2.0
#include "base/os/path.h"

#include <cerrno>

#include "base/os/process.h"
#include "base/os/windows/system.h"
#include "base/status.h"

namespace quarry::os {
namespace {

bool may_open(const wchar_t *name, DWORD access) noexcept {
  const HANDLE handle = CreateFileW(name, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                                    OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (handle == INVALID_HANDLE_VALUE) return fail();
  CloseHandle(handle);
  return true;
}

}  // namespace

String working_folder() {
  const DWORD size = GetCurrentDirectoryW(0, nullptr);
  Vector<wchar_t> room(size + 1);
  const DWORD got = GetCurrentDirectoryW(size, room.data());
  return got == 0 || got >= size ? String() : narrow_path({room.data(), got});
}

bool allows(const char *path, Access access) noexcept {
  const Wide name(path);
  if (!name.get()) return false;
  switch (access) {
    case Access::Exists: return GetFileAttributesW(name.get()) != INVALID_FILE_ATTRIBUTES || fail();
    case Access::Read: return may_open(name.get(), GENERIC_READ);
    case Access::ReadAndWrite: return may_open(name.get(), GENERIC_READ | GENERIC_WRITE);
    case Access::Enter: return may_open(name.get(), FILE_TRAVERSE);
  }
  return false;
}

int for_each_name(const char *folder, void (*visit)(void *self, const char *name), void *self) {
  const Wide all(String(folder) + "/*");
  if (!all.get()) return errno;
  WIN32_FIND_DATAW found;
  const HANDLE search = FindFirstFileExW(all.get(), FindExInfoBasic, &found, FindExSearchNameMatch, nullptr, 0);
  if (search == INVALID_HANDLE_VALUE) return number_of(GetLastError());
  const std::unique_ptr<void, BOOL (*)(HANDLE)> closer(search, [](HANDLE handle) { return FindClose(handle); });
  do {
    if (found.cFileName[0] != L'.') visit(self, narrow(found.cFileName).c_str());
  } while (FindNextFileW(search, &found));
  const DWORD error = GetLastError();
  return error == ERROR_NO_MORE_FILES ? 0 : number_of(error);
}

// Threads of Windows have one working folder together.
int enter_own_folder(const char *) noexcept { return ENOSYS; }

void remove_file(const char *path) noexcept {
  const Wide name(path);
  if (name.get()) DeleteFileW(name.get());
}

int make_folder(const char *path) noexcept {
  const Wide name(path);
  if (!name.get()) return errno;
  return CreateDirectoryW(name.get(), nullptr) ? 0 : number_of(GetLastError());
}

// (The system's own folder for such files is the user's.)
String make_scratch_folder(String *out_place) {
  String room;
  const char *const place = variable("TMPDIR", room);
  wchar_t own[MAX_PATH + 1];
  const DWORD size = GetTempPathW(MAX_PATH + 1, own);
  *out_place = place && *place ? String(place) : narrow_path({own, size <= MAX_PATH ? size : 0});
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const String path = format("%s/quarry-%u-%u", out_place->c_str(), process_id(), i);
    const int error = make_folder(path.c_str());
    if (error == 0) return path;
    errno = error;
    if (error != EEXIST) break;
  }
  return {};
}

}  // namespace quarry::os
