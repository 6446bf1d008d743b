// SPDX-License-Identifier: Apache-2.0
// What the writer of files (base/new_file.h) asks of the system where systems differ (not Windows, which has another
// one). Where a call fails, errno says why.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/open_fd.h"

namespace quarry::os {

// For names that nobody foretells.
std::uint64_t random_number() noexcept;

// write() to what may be a pipe whose reader is gone: that is an error of this call and no signal to the process.
std::ptrdiff_t write_without_signal(int fd, const void *data, std::size_t size) noexcept;

// Whether the names in a folder are descriptors of processes: /proc/self/fd, /dev/fd.
bool holds_descriptors(int folder) noexcept;

// To make and find files in; `folder`: where a relative path begins.
OpenFd open_place(const char *path, int folder) noexcept;

// A file that has no name yet; none where the system knows no such files. link_nameless gives it one; copy_nameless
// copies `size` bytes of it to a file that has one, where that cannot be done. False: errno.
OpenFd open_nameless(int folder, std::uint32_t mode) noexcept;
bool link_nameless(int fd, int folder, const char *name) noexcept;
bool copy_nameless(int from, int to, std::uint64_t size) noexcept;

// What is written outlasts a loss of power. False: errno.
bool flush_file(int fd) noexcept;

}  // namespace quarry::os
