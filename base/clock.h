// SPDX-License-Identifier: Apache-2.0
// The clock that profiles, power votes and waits measure by.
#pragma once

#include <chrono>
#include <cstdint>

namespace quarry {

// Since some moment; it is never set back.
inline std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

}  // namespace quarry
