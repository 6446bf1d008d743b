// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/program/binary_hash.h"

#include "base/hash.h"

namespace quarry::htp {

std::uint64_t binary_hash(std::span<const std::uint8_t> binary) noexcept {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return binary_hash_avx2(binary.data(), binary.size());
#endif
  return hash64(binary.data(), binary.size());
}

}  // namespace quarry::htp
