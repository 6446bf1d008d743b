// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>

#include "base/os/file.h"
#include "base/os/path.h"

namespace quarry::os {

OpenFd open_folder(const char *path) noexcept { return OpenFd(::open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)); }

int enter_own_folder(const char *path) noexcept { return ::unshare(CLONE_FS) == 0 && ::chdir(path) == 0 ? 0 : errno; }

}  // namespace quarry::os
