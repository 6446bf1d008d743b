// SPDX-License-Identifier: Apache-2.0
// Files and folders that are open: a descriptor each. Where a call fails, errno says why.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/open_fd.h"

namespace quarry::os {

// Whether a descriptor is the same file for all libraries of a process. On Windows each C runtime has numbers of its
// own: there the C ABI neither takes nor gives them.
#if defined(_WIN32)
inline constexpr bool kDescriptorsAreShared = false;
#else
inline constexpr bool kDescriptorsAreShared = true;
#endif

enum class FileKind : std::uint8_t { Regular, Folder, Pipe, Socket, Device, Other };

struct FileInfo {
  FileKind kind;
  std::uint64_t size;            // of a regular file
  std::uint64_t device, number;  // together no other file has both
};

// False: errno. The second is about what has a path (in a folder that is open, -1: the working folder), links followed.
bool get_info(int fd, FileInfo *out) noexcept;
bool get_info(const char *path, FileInfo *out, int folder = -1) noexcept;

// For reading. Does not wait for the writer of a pipe, which opens all the same: ask what kind it is.
OpenFd open_file(const char *path, int folder = -1) noexcept;
// To open files in; it need not be readable. It stays that folder, whatever becomes of its name.
OpenFd open_folder(const char *path) noexcept;
// The same file with the same position, for as long as the copy is open; its number is `least` or more.
OpenFd duplicate(int fd, int least = 0) noexcept;

// Reads all of `size` bytes at `offset`. 0, an errno (EINVAL past INT64_MAX), or kFileEnded where the file ends before.
constexpr int kFileEnded = -1;
int read_at(int fd, void *to, std::size_t size, std::uint64_t offset) noexcept;

}  // namespace quarry::os
