// SPDX-License-Identifier: Apache-2.0
// WebP by the system's libwebp, which is opened when a picture wants it: the program starts and is built without.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/input/pixels.h"

namespace tools {

// Throws UsageError naming the file: where the library is not on this machine, and where it cannot read the picture.
Pixels webp_pixels(const std::vector<uint8_t> &file, const std::string &path, int channels);
// {0, 0} where that is not known.
std::pair<int, int> webp_size(const std::vector<uint8_t> &file);

}  // namespace tools
