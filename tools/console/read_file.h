// SPDX-License-Identifier: Apache-2.0
// Files, pipes and standard input ("-") as bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tools {

std::vector<uint8_t> read_file(const std::string &path);
// All of standard input, which is read once and kept to the program's end.
const std::vector<uint8_t> &standard_input();
// The first bytes of a file or of standard input, at most `size`; none of another pipe, which gives them once.
std::vector<uint8_t> read_head(const std::string &path, size_t size);
bool is_folder(const std::string &path);
// For std::filesystem, which on Windows would read a name in the system's code page.
std::filesystem::path system_path(const std::string &name);

}  // namespace tools
