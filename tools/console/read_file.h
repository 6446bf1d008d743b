// SPDX-License-Identifier: Apache-2.0
// Files, pipes and standard input ("-") as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tools {

std::vector<uint8_t> read_file(const std::string &path);

}  // namespace tools
