// SPDX-License-Identifier: Apache-2.0
#include "base/os/library.h"

#include <dlfcn.h>
#include <mach-o/dyld.h>
#include <stdlib.h>

#include <climits>
#include <cstdint>

namespace quarry::os {

void *open_library(const char *path) noexcept { return ::dlopen(path, RTLD_NOW | RTLD_LOCAL); }

String library_error() {
  const char *const why = ::dlerror();
  return why ? why : "no reason given";
}

void *find_symbol(void *library, const char *name) noexcept { return ::dlsym(library, name); }

// (Of a program that was started by a relative name dyld has that.)
String file_of(const void *address) {
  Dl_info info;
  if (::dladdr(address, &info) == 0 || !info.dli_fname) return {};
  char path[PATH_MAX];
  return info.dli_fname[0] == '/' || !::realpath(info.dli_fname, path) ? String(info.dli_fname) : String(path);
}

// One that is unloaded meanwhile has no name any more.
void for_each_library(void (*visit)(void *self, std::string_view file), void *self) {
  for (std::uint32_t i = 0; i < ::_dyld_image_count(); ++i)
    if (const char *const name = ::_dyld_get_image_name(i)) visit(self, name);
}

}  // namespace quarry::os
