// SPDX-License-Identifier: Apache-2.0
#include "base/os/process.h"

#include <sys/resource.h>
#include <unistd.h>

namespace quarry::os {

std::uint32_t process_id() noexcept { return static_cast<std::uint32_t>(::getpid()); }

Vector<String> program_words(int count, const char *const *words) { return {words, words + count}; }

bool set_variable(const char *name, const char *value) noexcept { return ::setenv(name, value, 1) == 0; }

void end_process(int status) noexcept { ::_exit(status); }

std::uint64_t most_open_files() noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : 0;
}

}  // namespace quarry::os
