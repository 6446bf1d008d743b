// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <cerrno>

#include "base/os/file.h"
#include "base/os/path.h"

namespace quarry::os {

// One that may be entered and not read is opened for searching alone.
OpenFd open_folder(const char *path) noexcept {
  const int fd = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return OpenFd(fd >= 0 || errno != EACCES ? fd : ::open(path, O_SEARCH | O_CLOEXEC));
}

// There is a call for it that no header has.
int enter_own_folder(const char *) noexcept { return ENOTSUP; }

}  // namespace quarry::os
