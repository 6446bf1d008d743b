// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/run/packing.h"

namespace quarry::htp {

Packing &Packing::of_process() noexcept {
  static Packing packing;
  return packing;
}

std::size_t Packing::enter(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto has_room = [&](std::uint64_t used) {
    return used == 0 || (bytes <= kSessionBytes && used <= kSessionBytes - bytes);
  };
  std::size_t session = 0;
  while (session + 1 < used_.size() && !has_room(used_[session])) ++session;
  used_[session] += bytes;
  return session;
}

void Packing::leave(std::size_t session, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  used_[session] -= bytes;
}

std::uint64_t Packing::used(std::size_t session) const {
  const std::lock_guard lock(mutex_);
  return session < used_.size() ? used_[session] : 0;
}

}  // namespace quarry::htp
