// SPDX-License-Identifier: Apache-2.0
#include "base/os_error.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace quarry {
namespace {

// strerror_r gives the text, which need not stand in the room, or whether the room was enough: glibc does one, musl the
// other.
[[maybe_unused]] const char *given_text(const char *text, const char *) noexcept { return text; }
[[maybe_unused]] const char *given_text(int failed, const char *room) noexcept { return failed == 0 ? room : "?"; }

}  // namespace

ErrorId os_error_id(int number, ErrorId fallback) noexcept {
  const bool reads = fallback == ErrorId::io_error;
  switch (number) {
    case ENOENT:
    case ENOTDIR: return reads ? ErrorId::file_not_found : fallback;
    case EACCES:
    case EPERM: return reads ? ErrorId::file_not_readable : fallback;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return ErrorId::disk_full;
    case EIO: return ErrorId::io_error;
    case ENOMEM: return ErrorId::out_of_memory;
    case EMFILE:
    case ENFILE: return ErrorId::out_of_descriptors;
    case EISDIR:
    case ELOOP: return ErrorId::not_a_file;
    default: return fallback;
  }
}

String os_error_text(int number) {
  char room[128];
  String text = given_text(::strerror_r(number, room, sizeof room), room);
  rlimit limit;
  if (number == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    text += format(": this process may have %llu", limit.rlim_cur);
  return text;
}

bool out_of_descriptors() noexcept {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) ::close(fd);
  return fd < 0 && (errno == EMFILE || errno == ENFILE);
}

}  // namespace quarry
