// SPDX-License-Identifier: Apache-2.0
#include "base/os/mapping.h"

#include "base/os/windows/system.h"

namespace quarry::os {

// Not a page: Windows maps at multiples of 64 KiB.
std::size_t page_size() noexcept {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return info.dwAllocationGranularity;
}

// A file that is mapped cannot be cut, nor another be renamed over it, until it is not mapped any longer.
void *map_file(int fd, std::uint64_t offset, std::size_t size, MappedFor use) noexcept {
  const bool writes = use == MappedFor::Writing;
  const HANDLE file = handle_of(fd);
  if (file == INVALID_HANDLE_VALUE) return nullptr;
  const HANDLE section = CreateFileMappingW(file, nullptr, writes ? PAGE_READWRITE : PAGE_READONLY, 0, 0, nullptr);
  void *base = nullptr;
  if (section)
    base = MapViewOfFile(section, writes ? FILE_MAP_READ | FILE_MAP_WRITE : FILE_MAP_READ,
                         static_cast<DWORD>(offset >> 32), static_cast<DWORD>(offset), size);
  if (!base) fail();
  if (section) CloseHandle(section);  // the view keeps it
  return base;
}

void unmap(void *base, std::size_t) noexcept { UnmapViewOfFile(base); }

// (A view's pages leave the working set when memory is short; there is no word for a part of one.)
void forget_pages(const void *, std::size_t) noexcept {}

}  // namespace quarry::os
