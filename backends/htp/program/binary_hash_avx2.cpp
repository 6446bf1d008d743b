// SPDX-License-Identifier: Apache-2.0
// Compiled for AVX2, and so with nothing in it that another file may share.
#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#define XXH_NO_STDLIB
#include <xxhash.h>

namespace quarry::htp {

uint64_t binary_hash_avx2(const void *data, size_t size) noexcept;
uint64_t binary_hash_avx2(const void *data, size_t size) noexcept { return XXH3_64bits(data, size); }

}  // namespace quarry::htp
