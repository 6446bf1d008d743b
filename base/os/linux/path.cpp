// SPDX-License-Identifier: Apache-2.0
#include "base/os/path.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "base/os/library.h"

namespace quarry::os {

String working_folder() {
  char folder[PATH_MAX];
  return ::getcwd(folder, sizeof folder) ? folder : "";
}

bool allows(const char *path, Access access) noexcept {
  int mode = F_OK;
  switch (access) {
    case Access::Exists: break;
    case Access::Read: mode = R_OK; break;
    case Access::ReadAndWrite: mode = R_OK | W_OK; break;
    case Access::Enter: mode = X_OK; break;
  }
  return ::access(path, mode) == 0;
}

int for_each_name(const char *folder, void (*visit)(void *self, const char *name), void *self) {
  DIR *const opened = ::opendir(folder);
  if (!opened) return errno;
  const std::unique_ptr<DIR, int (*)(DIR *)> closer(opened, ::closedir);
  while (const dirent *const entry = ::readdir(opened))
    if (entry->d_name[0] != '.') visit(self, entry->d_name);
  return 0;
}

void remove_file(const char *path) noexcept { ::unlink(path); }

int make_folder(const char *path) noexcept { return ::mkdir(path, 0777) == 0 ? 0 : errno; }

String make_scratch_folder(String *out_place) {
  const char *const place = std::getenv("TMPDIR");
  // Android has none for everybody; apps have one of their own, which TMPDIR is for, and the shell has this.
  *out_place = place && *place ? place : kAndroid ? "/data/local/tmp" : "/tmp";
  String path = *out_place + "/quarry-XXXXXX";
  return ::mkdtemp(path.data()) ? path : "";
}

}  // namespace quarry::os
