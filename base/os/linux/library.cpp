// SPDX-License-Identifier: Apache-2.0
#include "base/os/library.h"

#include <dlfcn.h>
#include <link.h>

#include <climits>
#include <cstdio>
#include <cstring>

namespace quarry::os {
namespace {

// The dynamic linker's own name of a file (`said`) is relative to whatever the working folder was then, where
// LD_LIBRARY_PATH or the program's own name was relative: the system is asked where it is.
String mapped_file(const void *address) {
  // Rows as "7f01-7f02 r-xp 00000000 08:01 1234   /path".
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> maps(std::fopen("/proc/self/maps", "re"), std::fclose);
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  char row[PATH_MAX + 128];
  while (maps && std::fgets(row, sizeof row, maps.get())) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(row, "%zx-%zx", &begin, &end) != 2 || wanted < begin || wanted >= end) continue;
    const char *const path = std::strchr(row, '/');
    return path ? String(path, std::strcspn(path, "\n")) : String();
  }
  return {};
}

}  // namespace

void *open_library(const char *path) noexcept { return ::dlopen(path, RTLD_NOW | RTLD_LOCAL); }

String library_error() {
  const char *const why = ::dlerror();
  return why ? why : "no reason given";
}

void *find_symbol(void *library, const char *name) noexcept { return ::dlsym(library, name); }

String file_of(const void *address) {
  Dl_info info;
  if (::dladdr(address, &info) == 0) return {};
  return info.dli_fname && info.dli_fname[0] == '/' ? String(info.dli_fname) : mapped_file(address);
}

void for_each_library(void (*visit)(void *self, std::string_view file), void *self) {
  std::pair<void (*)(void *, std::string_view), void *> visitor(visit, self);
  ::dl_iterate_phdr(
      [](dl_phdr_info *info, std::size_t, void *to) {
        const auto &[call, with] = *static_cast<decltype(visitor) *>(to);
        if (info->dlpi_name && *info->dlpi_name) call(with, info->dlpi_name);
        return 0;
      },
      &visitor);
}

}  // namespace quarry::os
