// SPDX-License-Identifier: Apache-2.0
// Names of files and folders that outlast a change of the process's working folder.
#pragma once

#include "base/alloc.h"

namespace quarry {

// What a relative path names now. As it is where the working folder cannot be had.
String absolute_path(std::string_view path);

}  // namespace quarry
