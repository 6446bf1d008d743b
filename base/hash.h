// SPDX-License-Identifier: Apache-2.0
// XXH3-64: finds accidental damage and candidates for equality. It is no proof against someone who wants two contents
// to collide.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quarry {

std::uint64_t hash64(const void *data, std::size_t size) noexcept;

// The same of contents that come in pieces.
class Hasher64 {
 public:
  Hasher64() noexcept;
  void add(const void *data, std::size_t size) noexcept;
  std::uint64_t sum() const noexcept;

 private:
  alignas(64) unsigned char state_[576];
};

}  // namespace quarry
