// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/run/shared_memory.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/os/library.h"
#include "base/os/mapping.h"
#include "base/os/path.h"
#include "base/os/shared_memory.h"
#include "base/os_error.h"

namespace quarry::htp {

SharedMemory::SharedMemory(const String &folder) {
  constexpr char kFile[] = "libcdsprpc" QR_LIBRARY_SUFFIX;
  void *library = folder.empty() ? nullptr : os::open_library((folder + "/" + kFile).c_str());
  if (!library) library = os::open_library(kFile);
  if (!library) return;
  os::find_symbol(library, "rpcmem_alloc", alloc_);
  os::find_symbol(library, "rpcmem_free", free_);
  os::find_symbol(library, "rpcmem_to_fd", to_fd_);
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
  OpenFd fd = os::make_shared_memory("quarry-htp", size);
  if (fd.get() < 0)
    return Status::error(ErrorId::out_of_memory,
                         format("memory: found no memfd of %llu bytes: %s", size, os_error_text(errno)));
  void *const base = os::map_file(fd.get(), 0, size, os::MappedFor::Writing);
  if (!base) return Status::error(ErrorId::out_of_memory, format("memory: %llu bytes cannot be mapped", size));
  out = {base, size, fd.release(), false, 0};
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
    os::unmap(memory.base, memory.mapped_bytes);
    os::close_descriptor(memory.fd);
  }
  blocks_.erase(found);
  return true;
}

}  // namespace quarry::htp
