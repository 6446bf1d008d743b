// SPDX-License-Identifier: Apache-2.0
#include "base/os/shared_memory.h"

#include <cerrno>
#include <cwchar>

#include "base/os/file.h"
#include "base/os/windows/system.h"

namespace quarry::os {

// A file that the system keeps in memory while there is room, and drops with its last descriptor: a section alone has
// no size and cannot be a descriptor.
OpenFd make_shared_memory(const char *, std::uint64_t size) noexcept {
  wchar_t folder[MAX_PATH + 1], name[MAX_PATH + 64];
  const DWORD length = GetTempPathW(MAX_PATH + 1, folder);
  if (length == 0 || length > MAX_PATH) {
    fail();
    return {};
  }
  static constinit LONG counter = 0;
  const LONG number = InterlockedIncrement(&counter);
  LARGE_INTEGER now;
  QueryPerformanceCounter(&now);
  std::swprintf(name, MAX_PATH + 64, L"%ls.quarry-%lx-%lx-%llx.tmp", folder, GetCurrentProcessId(), number,
                static_cast<unsigned long long>(now.QuadPart));
  const HANDLE handle = CreateFileW(name, GENERIC_READ | GENERIC_WRITE | DELETE, FILE_SHARE_DELETE, nullptr, CREATE_NEW,
                                    FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, nullptr);
  OpenFd out = descriptor_of(handle);
  if (out.get() < 0) return out;
  LARGE_INTEGER end;
  end.QuadPart = static_cast<LONGLONG>(size);
  if (SetFilePointerEx(handle, end, nullptr, FILE_BEGIN) && SetEndOfFile(handle)) {
    end.QuadPart = 0;
    SetFilePointerEx(handle, end, nullptr, FILE_BEGIN);
    return out;
  }
  fail();
  return {};
}

bool get_size(int fd, std::uint64_t *out) noexcept {
  FileInfo info;
  if (!get_info(fd, &info)) return false;
  *out = info.size;
  return info.kind == FileKind::Regular || fail(EINVAL);
}

bool sync_dma(int, DmaEdge, bool, bool) noexcept { return fail(ENOSYS); }

}  // namespace quarry::os
