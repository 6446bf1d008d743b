// SPDX-License-Identifier: Apache-2.0
// Errors of the operating system about a file. Inside formats/qrm only.
#pragma once

#include <cerrno>
#include <cstring>

#include "base/status.h"

namespace quarry::qrm {

// `number`: an errno; `fallback`: what it is when the number says nothing better.
inline Status os_error(int number, std::string_view path, const char *doing, ErrorId fallback = ErrorId::io_error) {
  ErrorId id = fallback;
  switch (number) {
    case ENOENT:
    case ENOTDIR: id = fallback == ErrorId::io_error ? ErrorId::file_not_found : fallback; break;
    case EACCES:
    case EPERM: id = fallback == ErrorId::io_error ? ErrorId::file_not_readable : fallback; break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: id = ErrorId::disk_full; break;
    case ENOMEM:
    case EMFILE:
    case ENFILE: id = ErrorId::out_of_memory; break;
    case EISDIR:
    case ELOOP: id = ErrorId::not_a_file; break;
    default: break;
  }
  char room[128];
  return Status::error(id, format("file '%s': found that %s failed: %s", printable(path, 1000).c_str(), doing,
                                  ::strerror_r(number, room, sizeof room)));
}

}  // namespace quarry::qrm
