// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

namespace quarry {

// Whether all of them are 0.
inline bool is_zero(const void *data, std::uint64_t size) noexcept {
  const auto *bytes = static_cast<const unsigned char *>(data);
  return size == 0 || (bytes[0] == 0 && std::memcmp(bytes, bytes + 1, static_cast<std::size_t>(size - 1)) == 0);
}

}  // namespace quarry
