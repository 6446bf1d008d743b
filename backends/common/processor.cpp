// SPDX-License-Identifier: Apache-2.0
#include "backends/common/processor.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <string_view>

namespace quarry::plugin {

void processor_name(char *name, std::size_t room) noexcept {
  char buffer[4096];
  const int file = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
  const ssize_t size = file < 0 ? 0 : read(file, buffer, sizeof buffer);
  if (file >= 0) close(file);
  const std::string_view info(buffer, size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::size_t key = info.find("model name");
  const std::size_t colon = key == std::string_view::npos ? key : info.find(": ", key);
  utsname machine{};
  std::string_view found = uname(&machine) == 0 ? machine.machine : "cpu";
  if (colon != std::string_view::npos) found = info.substr(colon + 2, info.find('\n', colon) - colon - 2);
  found = found.substr(0, room - 1);
  found.copy(name, found.size());
  name[found.size()] = '\0';
}

std::uint64_t memory_bytes() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) : 0;
}

}  // namespace quarry::plugin
