// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <new>

// The header alone: libquarry needs no libxxhash at run time, and a state needs no malloc.
#define XXH_INLINE_ALL
#define XXH_NO_STDLIB
#include <xxhash.h>

namespace quarry {

std::uint64_t hash64(const void *data, std::size_t size) noexcept { return XXH3_64bits(data, size); }

Hasher64::Hasher64() noexcept {
  static_assert(sizeof(XXH3_state_t) <= sizeof state_ && alignof(XXH3_state_t) <= 64);
  XXH3_64bits_reset(::new (state_) XXH3_state_t);
}
void Hasher64::add(const void *data, std::size_t size) noexcept {
  XXH3_64bits_update(reinterpret_cast<XXH3_state_t *>(state_), data, size);
}
std::uint64_t Hasher64::sum() const noexcept {
  return XXH3_64bits_digest(reinterpret_cast<const XXH3_state_t *>(state_));
}

}  // namespace quarry
