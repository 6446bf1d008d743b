// SPDX-License-Identifier: Apache-2.0
#include "base/os/growing_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace quarry::os {

OpenFd open_growing(const char *path) noexcept {
  return OpenFd(::open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
}

int make_empty(int fd) noexcept { return ::ftruncate(fd, 0) == 0 ? 0 : errno; }

int append(int fd, const void *data, std::size_t size) noexcept {
  const char *at = static_cast<const char *>(data);
  while (size > 0) {
    const ssize_t put = ::write(fd, at, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : EIO;
    at += put;
    size -= static_cast<std::size_t>(put);
  }
  return 0;
}

}  // namespace quarry::os
