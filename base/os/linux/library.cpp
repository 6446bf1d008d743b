// SPDX-License-Identifier: Apache-2.0
#include "base/os/library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>

#include "base/status.h"

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

// Whether a file has the name of glibc in it, as what is linked with it has. musl's own message names a function or a
// library of glibc's that it lacks.
[[maybe_unused]] bool is_for_glibc(const char *path) noexcept {
  char name[] = "libc.so._";  // not whole in our own plugins, which it would find there
  name[sizeof name - 2] = '6';
  const std::string_view kGlibc = name;
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path, "re"), std::fclose);
  char room[4096];
  std::size_t kept = 0;  // the end of the part before, which may be the begin of the name
  while (const std::size_t read = file ? std::fread(room + kept, 1, sizeof room - kept, file.get()) : 0) {
    const std::string_view part(room, kept + read);
    if (part.find(kGlibc) != part.npos) return true;
    kept = std::min(part.size(), kGlibc.size() - 1);
    std::memmove(room, room + part.size() - kept, kept);
  }
  return false;
}
[[maybe_unused]] thread_local bool last_was_for_glibc = false;

}  // namespace

void *open_library(const char *path) noexcept {
  void *const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  // (A name without a folder is searched for, where nobody says.)
  if constexpr (kMusl) last_was_for_glibc = !library && std::strchr(path, '/') && is_for_glibc(path);
  return library;
}

String library_error() {
  const char *const why = ::dlerror();
  if constexpr (kAndroid) return why ? with_manifest_line(why) : "no reason given";
  if constexpr (kMusl) {
    if (last_was_for_glibc)
      return format(
          "%s; found a library that is linked with glibc, expected one for musl, for which this is built; a build for "
          "glibc, on a system that has it, opens it",
          why ? why : "no reason given");
  }
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
