// SPDX-License-Identifier: Apache-2.0
// Locks that processes have in common, each by a file. One ends with the last copy of its descriptor at the latest.
#pragma once

#include "base/open_fd.h"

namespace quarry::os {

// Makes the file where it is not there; does not follow a link. None: errno says why.
OpenFd open_lock(const char *path) noexcept;

// Impossible: the file system knows no locks.
enum class LockTaken : unsigned char { Yes, Busy, Impossible };
LockTaken try_lock(int fd) noexcept;
// In a child that was forked meanwhile the descriptor is open as well: to close it does not end the lock.
void unlock(int fd) noexcept;

}  // namespace quarry::os
