// SPDX-License-Identifier: Apache-2.0
// As much of YAML as a table of overrides needs: mappings and lists by indentation, [a, b] and {a: b} in one line,
// texts with and without quotes, numbers, true and false, comments.
#pragma once

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace quarry::quantize {

// `name`: what messages call the text.
Result<nlohmann::json> parse_yaml(std::string_view text, std::string_view name);

}  // namespace quarry::quantize
