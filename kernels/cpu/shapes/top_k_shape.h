// SPDX-License-Identifier: Apache-2.0
// What a worker of TopK needs room for: its check and its kernel agree on it here.
#pragma once

#include "base/dtype.h"
#include "kernels/cpu/params.h"

namespace quarry::kernels {

// Lines of up to so many elements are ranked as they are.
inline constexpr std::int64_t kTopKFew = 32;
// Keys are read in whole vectors, a few at a time.
inline constexpr std::int64_t kTopKPadding = 64;

inline constexpr std::int64_t top_k_width(const TopK &p) noexcept {
  switch (static_cast<DType>(p.dtype)) {
    case DType::I8:
    case DType::U8: return 1;
    case DType::I16:
    case DType::U16: return 2;
    case DType::F64:
    case DType::I64:
    case DType::U64: return 8;
    default: return 4;
  }
}
inline constexpr std::int64_t top_k_key_bytes(const TopK &p) noexcept { return top_k_width(p) == 8 ? 8 : 4; }
// Neighbouring rows that are taken together, where the elements of a row are apart: as many as fit a cache.
inline constexpr std::int64_t top_k_columns(const TopK &p) noexcept {
  const std::int64_t fit = 262144 / p.n, most = p.inner < 16 ? p.inner : 16;
  return p.inner == 1 || fit < 1 ? 1 : fit < most ? fit : most;
}
// The most candidates that are sorted.
inline constexpr std::int64_t top_k_candidates(const TopK &p) noexcept {
  const std::int64_t enough = 2 * p.k + 1024;
  return p.n < enough ? p.n : enough;
}

// Bytes from the beginning of a worker's scratch, each a multiple of 64.
struct TopKRoom {
  std::int64_t rows = 0, keys = 0, first_keys = 0, first_positions = 0, second_keys = 0, second_positions = 0,
               bytes = 0;
};
inline constexpr TopKRoom top_k_room(const TopK &p) noexcept {
  TopKRoom room;
  const auto take = [&room](std::int64_t bytes) {
    const std::int64_t at = room.bytes;
    room.bytes += (bytes + 63) / 64 * 64;
    return at;
  };
  const std::int64_t key = top_k_key_bytes(p), width = top_k_width(p), candidates = top_k_candidates(p) + kTopKPadding;
  room.rows = take(p.inner == 1 ? 0 : top_k_columns(p) * p.n * width);
  room.keys = take((p.n + kTopKPadding) * key);
  room.first_keys = take(candidates * key);
  room.first_positions = take(candidates * 4);
  // Where the greatest keys of groups stand, too: at most half of all keys.
  const std::int64_t groups = p.n / 2 + kTopKPadding;
  room.second_keys = take((groups > candidates ? groups : candidates) * key);
  room.second_positions = take(candidates * 4);
  return room;
}

}  // namespace quarry::kernels
