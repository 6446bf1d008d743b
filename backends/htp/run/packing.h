// SPDX-License-Identifier: Apache-2.0
// Which session of the processor a context lies in (multi-PD). The library decides that, says so to nobody, and takes the
// first that has room, as its document says; from sizes alone it can be said beforehand.
#pragma once

#include <mutex>

#include "base/alloc.h"

namespace quarry::htp {

// The address space of a session that contexts can have: 3.75 GB of 4.
inline constexpr std::uint64_t kSessionBytes = std::uint64_t{15} << 28;

class Packing {
 public:
  static Packing &of_process() noexcept;

  // The first session with room, a new one where none has; more than a whole one is alone in its own.
  std::size_t enter(std::uint64_t bytes);
  void leave(std::size_t session, std::uint64_t bytes) noexcept;
  std::uint64_t used(std::size_t session) const;

 private:
  mutable std::mutex mutex_;
  Vector<std::uint64_t> used_;
};

}  // namespace quarry::htp
