// SPDX-License-Identifier: Apache-2.0
#include "base/os/file_making.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace quarry::os {

std::uint64_t random_number() noexcept {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, GRND_NONBLOCK) == sizeof number) return number;
  timespec now{};  // a kernel that just woke up; the name is taken with O_EXCL all the same
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_nsec) * 0x9e3779b97f4a7c15u ^ reinterpret_cast<std::uintptr_t>(&now);
}

std::ptrdiff_t write_without_signal(int fd, const void *data, std::size_t size) noexcept {
  sigset_t pipe, before, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const ssize_t put = ::write(fd, data, size);
  const int error = errno;
  const timespec at_once{};
  if (put < 0 && error == EPIPE && !sigismember(&pending, SIGPIPE))
    while (sigtimedwait(&pipe, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return put;
}

bool holds_descriptors(int folder) noexcept {
  struct statfs info;
  return ::fstatfs(folder, &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

// Who may not list a folder may write to it all the same.
OpenFd open_place(const char *path, int folder) noexcept {
  const int fd = ::openat(folder, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return OpenFd(fd >= 0 ? fd : ::openat(folder, path, O_PATH | O_DIRECTORY | O_CLOEXEC));
}

OpenFd open_nameless(int folder, std::uint32_t mode) noexcept {
  return OpenFd(::openat(folder, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, mode));
}

bool link_nameless(int fd, int folder, const char *name) noexcept {
  char self[32];
  std::snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
  return ::linkat(AT_FDCWD, self, folder, name, AT_SYMLINK_FOLLOW) == 0;
}

bool copy_nameless(int from, int to, std::uint64_t size) noexcept {
  for (off_t done = 0; done < static_cast<off_t>(size);) {
    const ssize_t sent = ::sendfile(to, from, &done, std::size_t{1} << 30);
    if (sent == 0) errno = EIO;
    if (sent == 0 || (sent < 0 && errno != EINTR)) return false;
  }
  return true;
}

bool flush_file(int fd) noexcept { return ::fsync(fd) == 0; }

}  // namespace quarry::os
