// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <unistd.h>

#include "base/os/process.h"

namespace quarry::os {

bool is_privileged() noexcept { return ::issetugid() != 0; }

// A child has a page as it is, or none there.
void *make_page_zeroed_by_fork() noexcept { return nullptr; }
void free_page_zeroed_by_fork(void *) noexcept {}

// In bytes here.
PeakMemory peak_memory() noexcept {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0 || usage.ru_maxrss <= 0) return {0, "none"};
  return {static_cast<std::uint64_t>(usage.ru_maxrss), "ru_maxrss"};
}

}  // namespace quarry::os
