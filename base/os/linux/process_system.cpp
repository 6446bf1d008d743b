// SPDX-License-Identifier: Apache-2.0
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdio>
#include <memory>
#include <string_view>

#include "base/os/mapping.h"
#include "base/os/process.h"

namespace quarry::os {

bool is_privileged() noexcept { return ::getauxval(AT_SECURE) != 0; }

void *make_page_zeroed_by_fork() noexcept {
  void *const page = ::mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (::madvise(page, page_size(), MADV_WIPEONFORK) == 0) return page;
  free_page_zeroed_by_fork(page);
  return nullptr;
}

void free_page_zeroed_by_fork(void *page) noexcept { unmap(page, page_size()); }

// "ru_maxrss" begins with what the parent of this process held.
PeakMemory peak_memory() noexcept {
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> status(std::fopen("/proc/self/status", "re"), std::fclose);
  for (char line[256]; status && std::fgets(line, sizeof line, status.get());) {
    constexpr std::string_view kKey = "VmHWM:";
    if (std::string_view(line).starts_with(kKey))
      return {std::strtoull(line + kKey.size(), nullptr, 10) << 10, "VmHWM"};
  }
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0 || usage.ru_maxrss <= 0) return {0, "none"};
  return {static_cast<std::uint64_t>(usage.ru_maxrss) << 10, "ru_maxrss"};
}

}  // namespace quarry::os
