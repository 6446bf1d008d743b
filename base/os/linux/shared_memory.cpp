// SPDX-License-Identifier: Apache-2.0
#include "base/os/shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/os/file.h"

namespace quarry::os {

OpenFd make_shared_memory(const char *name, std::uint64_t size) noexcept {
  OpenFd made(::memfd_create(name, MFD_CLOEXEC));
  if (made.get() < 0 || ::ftruncate(made.get(), static_cast<off_t>(size)) == 0) return made;
  const int number = errno;
  made = OpenFd();
  errno = number;
  return made;
}

// The position is shared with whoever gave the descriptor. The size of a dma-buf is had by seeking alone, and has no
// position.
bool get_size(int fd, std::uint64_t *out) noexcept {
  FileInfo info;
  if (!get_info(fd, &info)) return false;
  *out = info.size;
  if (info.kind == FileKind::Regular) return true;
  const off_t at = ::lseek(fd, 0, SEEK_CUR), end = ::lseek(fd, 0, SEEK_END);
  const int number = errno;
  if (at >= 0) ::lseek(fd, at, SEEK_SET);
  errno = number;
  *out = static_cast<std::uint64_t>(end);
  return end >= 0;
}

}  // namespace quarry::os
