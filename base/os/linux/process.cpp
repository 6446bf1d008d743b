// SPDX-License-Identifier: Apache-2.0
#include "base/os/process.h"

#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os/mapping.h"

namespace quarry::os {

std::uint32_t process_id() noexcept { return static_cast<std::uint32_t>(::getpid()); }

bool is_privileged() noexcept { return ::getauxval(AT_SECURE) != 0; }

Vector<String> program_words(int count, const char *const *words) { return {words, words + count}; }

void end_process(int status) noexcept { ::_exit(status); }

void *make_page_zeroed_by_fork() noexcept {
  void *const page = ::mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (::madvise(page, page_size(), MADV_WIPEONFORK) == 0) return page;
  free_page_zeroed_by_fork(page);
  return nullptr;
}

void free_page_zeroed_by_fork(void *page) noexcept { unmap(page, page_size()); }

}  // namespace quarry::os
