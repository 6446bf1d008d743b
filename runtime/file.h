// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/status.h"

namespace quarry {

// The folder that libquarry was loaded from (of the program, where it is linked in); empty where that cannot be told.
String library_folder();

// Writes a small text file, replacing what is there. `path` is UTF-8.
Status write_text_file(std::string_view path, std::string_view text);

}  // namespace quarry
