// SPDX-License-Identifier: Apache-2.0
// Files that options name.
#pragma once

#include "base/status.h"

namespace quarry::htp {

// All of the file. `expected`: what it is to be, for errors; more than `most` bytes are none of that.
Result<Vector<std::uint8_t>> read_file_bytes(const char *option, std::string_view path, const char *expected,
                                             std::size_t most);

}  // namespace quarry::htp
