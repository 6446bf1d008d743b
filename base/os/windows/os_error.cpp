// SPDX-License-Identifier: Apache-2.0
#include "base/os_error.h"

#include <io.h>

#include <cerrno>
#include <cstring>

#include "base/os/windows/system.h"

namespace quarry {

ErrorId os_error_id(int number, ErrorId fallback) noexcept {
  const bool reads = fallback == ErrorId::io_error;
  switch (number) {
    case ENOENT:
    case ENOTDIR:
    case EILSEQ:
    case os::kWindowsError | ERROR_DIRECTORY: return reads ? ErrorId::file_not_found : fallback;
    case EACCES:
    case EPERM:
    case os::kWindowsError | ERROR_SHARING_VIOLATION:
    case os::kWindowsError | ERROR_LOCK_VIOLATION: return reads ? ErrorId::file_not_readable : fallback;
    case ENOSPC:
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

// Windows' own sentence for its numbers, without the full stop and the line's end that it has.
String os_error_text(int number) {
  if (!(number & os::kWindowsError)) return ::strerror(number);
  const auto error = static_cast<DWORD>(number & ~os::kWindowsError);
  wchar_t room[512];
  DWORD size =
      FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK,
                     nullptr, error, 0, room, 512, nullptr);
  while (size && (room[size - 1] <= L' ' || room[size - 1] == L'.')) --size;
  return size ? os::narrow({room, size}) : format("Windows' error %lu", error);
}

Status no_descriptors(const char *what, const char *instead) {
  return Status::hinted(ErrorId::no_descriptor, instead,
                        "%s: found Windows, where a descriptor is of one C library alone, expected another way", what);
}

bool out_of_descriptors() noexcept {
  const int fd = ::_open("NUL", 0);
  if (fd >= 0) ::_close(fd);
  return fd < 0 && errno == EMFILE;
}

}  // namespace quarry
