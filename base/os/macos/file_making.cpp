// SPDX-License-Identifier: Apache-2.0
#include "base/os/file_making.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace quarry::os {

std::uint64_t random_number() noexcept {
  std::uint64_t number;
  ::arc4random_buf(&number, sizeof number);
  return number;
}

std::ptrdiff_t write_without_signal(int fd, const void *data, std::size_t size) noexcept {
  const bool silent = ::fcntl(fd, F_GETNOSIGPIPE) > 0;  // the descriptor is another's, who may want it otherwise
  if (!silent) (void)::fcntl(fd, F_SETNOSIGPIPE, 1);
  const ssize_t put = ::write(fd, data, size);
  const int error = errno;
  if (!silent) (void)::fcntl(fd, F_SETNOSIGPIPE, 0);
  errno = error;
  return put;
}

// /dev/fd, which is of the file system of /dev: what else is there is no regular file either.
bool holds_descriptors(int folder) noexcept {
  struct statfs info;
  return ::fstatfs(folder, &info) == 0 && std::string_view(info.f_fstypename) == "devfs";
}

OpenFd open_place(const char *path, int folder) noexcept {
  const int fd = ::openat(folder, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return OpenFd(fd >= 0 || errno != EACCES ? fd : ::openat(folder, path, O_SEARCH | O_CLOEXEC));
}

OpenFd open_nameless(int, std::uint32_t) noexcept {
  errno = ENOTSUP;
  return {};
}

bool link_nameless(int, int, const char *) noexcept {
  errno = ENOTSUP;
  return false;
}

bool copy_nameless(int, int, std::uint64_t) noexcept {
  errno = ENOTSUP;
  return false;
}

// fsync leaves it to the disk when to write what it was given.
bool flush_file(int fd) noexcept { return ::fcntl(fd, F_FULLFSYNC) == 0 || ::fsync(fd) == 0; }

}  // namespace quarry::os
