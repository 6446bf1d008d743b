// SPDX-License-Identifier: Apache-2.0
// Strings and errors as they cross C boundaries.
#pragma once

#include <cstring>
#include <string_view>

#include "base/status.h"
#include "quarry/backend.h"

namespace quarry {

inline qr_plugin_string plugin_string(std::string_view text) noexcept { return {text.data(), text.size()}; }

inline std::string_view text_of(const qr_plugin_string &text) noexcept {
  if (!text.data) return {};
  return text.size == QR_PLUGIN_NUL_TERMINATED ? std::string_view(text.data, std::strlen(text.data))
                                               : std::string_view(text.data, text.size);
}

inline std::string_view text_of(const qr_string &text) noexcept {
  return text_of(qr_plugin_string{text.data, text.size});
}

}  // namespace quarry
