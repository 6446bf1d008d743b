// SPDX-License-Identifier: Apache-2.0
#include "base/os/shared_memory.h"

#include <unistd.h>

#include <cerrno>

#include "base/os/file.h"
#include "base/os/library.h"

namespace quarry::os {
namespace {

// Of libandroid, which is opened by who shares memory: it brings a hundred libraries into a program that is no app, and
// is not there for a vendor's service. memfd_create is of API 30, and a call that the kernel's filter for apps may
// answer by ending the process.
struct AshmemFunctions {
  int (*create)(const char *name, std::size_t size) = nullptr;
  std::size_t (*size)(int fd) = nullptr;
};

AshmemFunctions ashmem_functions() noexcept {
  AshmemFunctions out;
  if (void *const library = open_library("libandroid.so")) {
    find_symbol(library, "ASharedMemory_create", out.create);
    find_symbol(library, "ASharedMemory_getSize", out.size);
  }
  return out;
}

}  // namespace

OpenFd make_shared_memory(const char *name, std::uint64_t size) noexcept {
  const auto create = ashmem_functions().create;
  if (!create) errno = ENOSYS;
  return create ? OpenFd(create(name, size)) : OpenFd();
}

// What ASharedMemory_create gave is a file or a device, by the age of the system; of a device it says the size alone.
// A dma-buf has it by seeking, and has no position.
bool get_size(int fd, std::uint64_t *out) noexcept {
  FileInfo info;
  if (!get_info(fd, &info)) return false;
  *out = info.size;
  if (info.kind == FileKind::Regular) return true;
  if (info.kind == FileKind::Device) {
    const auto size = ashmem_functions().size;
    if (size && (*out = size(fd)) > 0) return true;
  }
  const off_t end = ::lseek(fd, 0, SEEK_END);
  const int number = errno;
  if (end >= 0) ::lseek(fd, 0, SEEK_SET);
  errno = number;
  *out = static_cast<std::uint64_t>(end);
  return end >= 0;
}

}  // namespace quarry::os
