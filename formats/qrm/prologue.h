// SPDX-License-Identifier: Apache-2.0
// The first 64 bytes of a container, little-endian. They mean the same in every version, so that any build can say what
// a file is.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/hash.h"

namespace quarry::qrm {

static_assert(std::endian::native == std::endian::little, "containers are little-endian and are used where they lie");

// In the spirit of PNG's: the high bit shows a 7-bit transfer, CR LF and LF show a text-mode one, ^Z ends a listing on
// DOS.
inline constexpr unsigned char kMagic[8] = {0x89, 'Q', 'R', 'M', '\r', '\n', 0x1a, '\n'};

struct Prologue {
  unsigned char magic[8];
  std::uint16_t major;
  std::uint16_t minor;
  std::uint32_t header_size;  // 64; a newer minor may have more behind the prologue
  std::uint64_t file_size;
  std::uint64_t metadata_offset;  // the first multiple of 64 from header_size on
  std::uint64_t metadata_size;
  std::uint64_t required_features;  // a reader that does not know one of them refuses
  std::uint64_t metadata_sum;       // XXH3-64
  std::uint64_t sum;                // XXH3-64 of the bytes before it

  std::uint64_t own_sum() const noexcept { return hash64(this, offsetof(Prologue, sum)); }
};
static_assert(sizeof(Prologue) == 64 && offsetof(Prologue, sum) == 56);

// A program of several graphs: a reader that does not know of them would take the first for the only one.
inline constexpr std::uint64_t kFeatureGraphsInOneProgram = 1;
// Several networks, of which one is to be chosen: a reader that does not know of them would find no graph.
inline constexpr std::uint64_t kFeatureNetworks = 2;
inline constexpr std::uint64_t kKnownFeatures = kFeatureGraphsInOneProgram | kFeatureNetworks;

}  // namespace quarry::qrm
