// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/status.h"

namespace quarry::prepare {

// The whole of a file; `kind`: what it is called in errors.
Result<Vector<std::uint8_t>> read_file(std::string_view kind, std::string_view path);

}  // namespace quarry::prepare
