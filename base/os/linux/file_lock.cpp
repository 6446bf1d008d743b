// SPDX-License-Identifier: Apache-2.0
#include "base/os/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

namespace quarry::os {

OpenFd open_lock(const char *path) noexcept {
  return OpenFd(::open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
}

LockTaken try_lock(int fd) noexcept {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    return errno == EWOULDBLOCK ? LockTaken::Busy : LockTaken::Impossible;
  }
  return LockTaken::Yes;
}

void unlock(int fd) noexcept { (void)::flock(fd, LOCK_UN); }

}  // namespace quarry::os
