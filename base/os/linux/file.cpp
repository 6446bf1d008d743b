// SPDX-License-Identifier: Apache-2.0
#include "base/os/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace quarry::os {
namespace {

FileKind kind_of(mode_t mode) noexcept {
  return S_ISREG(mode)                    ? FileKind::Regular
         : S_ISDIR(mode)                  ? FileKind::Folder
         : S_ISFIFO(mode)                 ? FileKind::Pipe
         : S_ISSOCK(mode)                 ? FileKind::Socket
         : S_ISBLK(mode) || S_ISCHR(mode) ? FileKind::Device
                                          : FileKind::Other;
}

bool take(const struct stat &info, FileInfo *out) noexcept {
  *out = {kind_of(info.st_mode), static_cast<std::uint64_t>(info.st_size), static_cast<std::uint64_t>(info.st_dev),
          info.st_ino};
  return true;
}

}  // namespace

void close_descriptor(int fd) noexcept { ::close(fd); }

bool get_info(int fd, FileInfo *out) noexcept {
  struct stat info;
  return ::fstat(fd, &info) == 0 && take(info, out);
}

bool get_info(const char *path, FileInfo *out, int folder) noexcept {
  struct stat info;
  return ::fstatat(folder < 0 ? AT_FDCWD : folder, path, &info, 0) == 0 && take(info, out);
}

OpenFd open_file(const char *path, int folder) noexcept {
  return OpenFd(::openat(folder < 0 ? AT_FDCWD : folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

OpenFd duplicate(int fd, int least) noexcept { return OpenFd(::fcntl(fd, F_DUPFD_CLOEXEC, least)); }

int read_at(int fd, void *to, std::size_t size, std::uint64_t offset) noexcept {
  char *at = static_cast<char *>(to);
  while (size > 0) {
    const ssize_t got = ::pread(fd, at, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : kFileEnded;
    at += got;
    size -= static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
  return 0;
}

}  // namespace quarry::os
