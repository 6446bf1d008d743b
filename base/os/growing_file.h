// SPDX-License-Identifier: Apache-2.0
// A file that is of use from its first bytes on, for who reads it after this process has crashed: what new_file.h puts
// in place when it is whole would be lost then. Each append is the system's when it returns.
#pragma once

#include <cstddef>

#include "base/open_fd.h"

namespace quarry::os {

// For appending and reading; made where it is not there, kept as it is where it is. None: errno says why.
OpenFd open_growing(const char *path) noexcept;
// These give 0 or an errno.
int make_empty(int fd) noexcept;
int append(int fd, const void *data, std::size_t size) noexcept;

}  // namespace quarry::os
