// SPDX-License-Identifier: Apache-2.0
// Limits of a container, each tested at the limit and one past it.
#pragma once

#include <cstdint>

namespace quarry::qrm {

inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1}
                                               << 62;  // of what is written: sizes and offsets fit off_t
inline constexpr std::uint64_t kMaxMetadataBytes = std::uint64_t{64} << 20;
inline constexpr std::uint32_t kMaxSegments = 1u << 16;
inline constexpr std::uint32_t kMaxGraphs = 1024;
inline constexpr std::uint32_t kMaxContexts = 256;
inline constexpr std::uint32_t kMaxSignatureTensors = 1u << 16;  // inputs and outputs, each
inline constexpr std::uint32_t kMaxPairs = 1u << 16;             // options of a context, the user's metadata, each
inline constexpr std::uint32_t kMaxSegmentRefs = 1u << 16;       // segments that one graph or program names
inline constexpr std::uint32_t kMaxNameBytes = 4096;             // names, keys, ids, targets
inline constexpr std::uint32_t kMaxTextBytes = 1u << 20;         // values
inline constexpr std::uint32_t kMinSegmentAlign = 64;
inline constexpr std::uint32_t kMaxSegmentAlign = 65536;
// So much is read, summed or written, some milliseconds long, before it is asked whether to go on.
inline constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;

}  // namespace quarry::qrm
