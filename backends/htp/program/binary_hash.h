// SPDX-License-Identifier: Apache-2.0
// The hash over a binary: base/hash.h's, which is counted whenever a context is loaded; with wide vectors where the
// processor has them, it takes a third of the time.
#pragma once

#include <cstdint>
#include <span>

namespace quarry::htp {

std::uint64_t binary_hash(std::span<const std::uint8_t> binary) noexcept;

#ifdef __x86_64__
// Only where the processor has AVX2.
std::uint64_t binary_hash_avx2(const void *data, std::size_t size) noexcept;
#endif

}  // namespace quarry::htp
