// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/run/shared_memory.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/os_error.h"

namespace quarry::htp {

SharedMemory::SharedMemory(const String &folder) {
  constexpr char kFile[] = "libcdsprpc.so";
  void *library = folder.empty() ? nullptr : dlopen((folder + "/" + kFile).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  alloc_ = reinterpret_cast<decltype(alloc_)>(dlsym(library, "rpcmem_alloc"));
  free_ = reinterpret_cast<decltype(free_)>(dlsym(library, "rpcmem_free"));
  to_fd_ = reinterpret_cast<decltype(to_fd_)>(dlsym(library, "rpcmem_to_fd"));
  if (!free_ || !to_fd_) alloc_ = nullptr;
}

Status SharedMemory::allocate(std::uint64_t size, plugin::ProcessorMemory &out) {
  blocks_.reserve(blocks_.size() + 1);
  if (alloc_) {
    constexpr int kSystemHeap = 25;
    constexpr unsigned kCached = 1;
    if (size > INT_MAX)
      return Status::error(
          ErrorId::bad_argument,
          format("memory: found %llu bytes, expected at most %d, the most that rpcmem_alloc gives", size, INT_MAX));
    void *const base = alloc_(kSystemHeap, kCached, static_cast<int>(size));
    if (!base)
      return Status::error(ErrorId::out_of_memory, format("memory: rpcmem_alloc gave none of %llu bytes", size));
    std::memset(base, 0, size);
    out = {base, size, to_fd_(base), false, 0};
    blocks_.push_back({base, true});
    return {};
  }
  const int fd = memfd_create("quarry-htp", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)) != 0) {
    const int number = errno;
    if (fd >= 0) ::close(fd);
    return Status::error(ErrorId::out_of_memory,
                         format("memory: found no memfd of %llu bytes: %s", size, os_error_text(number)));
  }
  void *const base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    ::close(fd);
    return Status::error(ErrorId::out_of_memory, format("memory: %llu bytes cannot be mapped", size));
  }
  out = {base, size, fd, false, 0};
  blocks_.push_back({base, false});
  return {};
}

bool SharedMemory::release(const plugin::ProcessorMemory &memory) noexcept {
  const auto found =
      std::find_if(blocks_.begin(), blocks_.end(), [&](const Block &block) { return block.base == memory.base; });
  if (found == blocks_.end()) return false;
  if (found->is_rpc) {
    free_(memory.base);
  } else {
    munmap(memory.base, memory.mapped_bytes);
    ::close(memory.fd);
  }
  blocks_.erase(found);
  return true;
}

}  // namespace quarry::htp
