// SPDX-License-Identifier: Apache-2.0
#include "base/os/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/os/file.h"

namespace quarry::os {

// Under a name that nobody else has (31 bytes at most), and that is taken away at once: the descriptor is all there is
// of it.
OpenFd make_shared_memory(const char *, std::uint64_t size) noexcept {
  for (int attempt = 0;; ++attempt) {
    char name[32];
    std::snprintf(name, sizeof name, "/quarry-%08x%08x", ::arc4random(), ::arc4random());
    OpenFd made(::shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
    if (made.get() < 0 && errno == EEXIST && attempt < 100) continue;
    if (made.get() < 0) return made;
    ::shm_unlink(name);
    if (::fcntl(made.get(), F_SETFD, FD_CLOEXEC) == 0 && ::ftruncate(made.get(), static_cast<off_t>(size)) == 0)
      return made;
    const int number = errno;
    made = OpenFd();
    errno = number;
    return made;
  }
}

// Of shared memory, which is no file and cannot be sought in, too: its size is that of its pages.
bool get_size(int fd, std::uint64_t *out) noexcept {
  FileInfo info;
  if (!get_info(fd, &info)) return false;
  *out = info.size;
  if (info.kind == FileKind::Regular || (info.kind == FileKind::Other && info.size > 0)) return true;
  errno = ESPIPE;
  return false;
}

// There are none here.
bool sync_dma(int, DmaEdge, bool, bool) noexcept {
  errno = ENOTTY;
  return false;
}

}  // namespace quarry::os
