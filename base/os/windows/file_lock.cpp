// SPDX-License-Identifier: Apache-2.0
#include "base/os/file_lock.h"

#include <cerrno>

#include "base/os/windows/system.h"

namespace quarry::os {
namespace {

// A lock of Windows is of bytes, and keeps others from them: of one that no file has.
OVERLAPPED far_away() noexcept {
  OVERLAPPED where{};
  where.OffsetHigh = 0x40000000;
  return where;
}

}  // namespace

OpenFd open_lock(const char *path) noexcept {
  const Wide name(path);
  if (!name.get()) return {};
  const HANDLE handle =
      CreateFileW(name.get(), GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                  nullptr, OPEN_ALWAYS, FILE_FLAG_OPEN_REPARSE_POINT, nullptr);
  OpenFd out = descriptor_of(handle);
  BY_HANDLE_FILE_INFORMATION info;
  const bool is_link = out.get() >= 0 && GetFileInformationByHandle(handle, &info) &&
                       info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT;
  if (!is_link) return out;
  errno = ELOOP;
  return {};
}

LockTaken try_lock(int fd) noexcept {
  OVERLAPPED where = far_away();
  if (LockFileEx(handle_of(fd), LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &where))
    return LockTaken::Yes;
  const DWORD error = GetLastError();
  return error == ERROR_LOCK_VIOLATION || error == ERROR_IO_PENDING ? LockTaken::Busy : LockTaken::Impossible;
}

void unlock(int fd) noexcept {
  OVERLAPPED where = far_away();
  UnlockFileEx(handle_of(fd), 0, 1, 0, &where);
}

}  // namespace quarry::os
