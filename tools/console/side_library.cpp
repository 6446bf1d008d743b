// SPDX-License-Identifier: Apache-2.0
#include "tools/console/side_library.h"

#include "base/os/library.h"
#include "tools/console/failure.h"

namespace tools {

SideLibrary::SideLibrary(const std::string &file, const std::string &command, const std::string &way_out)
    : file_(file), library_(quarry::os::open_library(file.c_str())) {
  if (!library_) throw Failure("`" + command + "` needs " + file + ": " + quarry::os::library_error().c_str(), way_out);
}

void *SideLibrary::function(const char *name) const {
  void *const found = quarry::os::find_symbol(library_, name);
  if (!found)
    throw Failure(file_ + ": found no function " + name + ", expected that of this program's release",
                  "install quarry and this library of one release");
  return found;
}

}  // namespace tools
