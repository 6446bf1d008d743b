// SPDX-License-Identifier: Apache-2.0
// Files that an option asks for.
#pragma once

#include "base/status.h"

namespace quarry::htp {

// Replaces what is there. `what` begins the message of an error: "option x".
Status write_file(std::string_view what, const String &path, std::string_view bytes);

}  // namespace quarry::htp
