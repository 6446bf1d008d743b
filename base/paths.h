// SPDX-License-Identifier: Apache-2.0
// Names of files and folders that outlast a change of the process's working folder.
#pragma once

#include "base/alloc.h"

namespace quarry {

// What a relative path names now. As it is where the working folder cannot be had.
String absolute_path(std::string_view path);

// The file of the library, or program, that `address` lies in. `said` is what the dynamic linker calls it (dladdr): a
// name relative to whatever the working folder was then, where LD_LIBRARY_PATH or the program's own name was relative.
// The system is asked where it is. Empty: that is not known.
String library_file(const char *said, const void *address);

}  // namespace quarry
