// SPDX-License-Identifier: Apache-2.0
#include "base/os/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

namespace quarry::os {

std::size_t page_size() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

void *map_file(int fd, std::uint64_t offset, std::size_t size, MappedFor use) noexcept {
  const bool writes = use == MappedFor::Writing;
  void *const base = ::mmap(nullptr, size, writes ? PROT_READ | PROT_WRITE : PROT_READ,
                            writes ? MAP_SHARED : MAP_PRIVATE, fd, static_cast<off_t>(offset));
  return base == MAP_FAILED ? nullptr : base;
}

void unmap(void *base, std::size_t size) noexcept { ::munmap(base, size); }

void forget_pages(const void *data, std::size_t size) noexcept {
  const std::uintptr_t page = page_size(), begin = reinterpret_cast<std::uintptr_t>(data),
                       first = (begin + page - 1) / page * page, end = (begin + size) / page * page;
  if (first < end) ::madvise(reinterpret_cast<void *>(first), end - first, MADV_DONTNEED);
}

}  // namespace quarry::os
