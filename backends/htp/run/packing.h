// SPDX-License-Identifier: Apache-2.0
// Which session of the processor a context lies in (multi-PD). The library decides that, says so to nobody, and takes
// the first that has room, as its document says; from sizes alone it can be said beforehand.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace quarry::htp {

// The address space of a session that contexts can have: 3.75 GB of 4.
inline constexpr std::uint64_t kSessionBytes = std::uint64_t{15} << 28;

class Packing {
 public:
  static Packing &of_process() noexcept;

  // The first session with room, a new one where none has; more than a whole one is alone in its own. What comes after
  // the last is in the last: no SoC has nearly so many.
  std::size_t enter(std::uint64_t bytes);
  void leave(std::size_t session, std::uint64_t bytes) noexcept;
  std::uint64_t used(std::size_t session) const;

 private:
  // It outlives every runtime, and so has no memory of theirs.
  mutable std::mutex mutex_;
  std::array<std::uint64_t, 64> used_{};
};

}  // namespace quarry::htp
