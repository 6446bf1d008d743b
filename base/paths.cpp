// SPDX-License-Identifier: Apache-2.0
#include "base/paths.h"

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>

namespace quarry {

String absolute_path(std::string_view path) {
  char folder[PATH_MAX];
  if (path.empty() || path.front() == '/' || !::getcwd(folder, sizeof folder) || folder[0] != '/') return String(path);
  while (path.starts_with("./")) path.remove_prefix(2);
  String out(folder);
  if (out.back() != '/') out += '/';
  return out += path;
}

String library_file(const char *said, const void *address) {
  if (said && said[0] == '/') return said;
  // Lines as "7f01-7f02 r-xp 00000000 08:01 1234   /path".
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> maps(std::fopen("/proc/self/maps", "re"), std::fclose);
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  char line[PATH_MAX + 128];
  while (maps && std::fgets(line, sizeof line, maps.get())) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(line, "%zx-%zx", &begin, &end) != 2 || wanted < begin || wanted >= end) continue;
    const char *const path = std::strchr(line, '/');
    return path ? String(path, std::strcspn(path, "\n")) : String();
  }
  return {};
}

}  // namespace quarry
