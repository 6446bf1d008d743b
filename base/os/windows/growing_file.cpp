// SPDX-License-Identifier: Apache-2.0
#include "base/os/growing_file.h"

#include <algorithm>
#include <cerrno>

#include "base/os/windows/system.h"

namespace quarry::os {

OpenFd open_growing(const char *path) noexcept {
  const Wide name(path);
  if (!name.get()) return {};
  constexpr DWORD kShared = FILE_SHARE_READ | FILE_SHARE_DELETE;
  return descriptor_of(CreateFileW(name.get(), GENERIC_READ | GENERIC_WRITE, kShared, nullptr, OPEN_ALWAYS,
                                   FILE_ATTRIBUTE_NORMAL, nullptr));
}

int make_empty(int fd) noexcept {
  const HANDLE file = handle_of(fd);
  if (SetFilePointerEx(file, {}, nullptr, FILE_BEGIN) && SetEndOfFile(file)) return 0;
  return number_of(GetLastError());
}

int append(int fd, const void *data, std::size_t size) noexcept {
  const HANDLE file = handle_of(fd);
  if (!SetFilePointerEx(file, {}, nullptr, FILE_END)) return number_of(GetLastError());
  const char *at = static_cast<const char *>(data);
  while (size > 0) {
    constexpr std::size_t kMost = std::size_t{1} << 30;
    DWORD put = 0;
    if (!WriteFile(file, at, static_cast<DWORD>(std::min(size, kMost)), &put, nullptr))
      return number_of(GetLastError());
    at += put;
    size -= put;
  }
  return 0;
}

}  // namespace quarry::os
