// SPDX-License-Identifier: Apache-2.0
// Which cases a pattern names: the same on every system.
#pragma once

#include <string_view>

namespace tools {

// `*` stands for any letters, `?` for one of them, everything else for itself.
bool fits_name(std::string_view pattern, std::string_view name);

}  // namespace tools
