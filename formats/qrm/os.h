// SPDX-License-Identifier: Apache-2.0
// Errors of the operating system about a file. Inside formats/qrm only.
#pragma once

#include <cerrno>
#include <cstring>

#include "base/os_error.h"

namespace quarry::qrm {

// `number`: an errno; `fallback`: what it is when the number says nothing better.
inline Status os_error(int number, std::string_view path, const char *doing, ErrorId fallback = ErrorId::io_error) {
  return Status::error(os_error_id(number, fallback), format("file '%s' cannot be read: %s failed: %s",
                                                             printable(path, 1000), doing, os_error_text(number)));
}

}  // namespace quarry::qrm
