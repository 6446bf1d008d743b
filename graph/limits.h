// SPDX-License-Identifier: Apache-2.0
// Limits of a graph that is read from bytes, each tested at the limit and one past it.
#pragma once

#include <cstdint>

namespace quarry::qir {

inline constexpr std::uint64_t kMaxGraphBytes = std::uint64_t{64} << 20;  // of the FlatBuffer; constants lie outside
inline constexpr std::uint32_t kMaxTensors = 1u << 20;
inline constexpr std::uint32_t kMaxNodes = 1u << 20;
inline constexpr std::uint32_t kMaxNameBytes = 4096;
inline constexpr std::uint32_t kMaxNodeArity = 1u << 16;
inline constexpr std::uint32_t kMaxAttributes = 256;  // of a node
inline constexpr std::uint32_t kMaxAttributeElements = 1u << 20;
inline constexpr std::uint32_t kMaxSubgraphDepth = 64;
inline constexpr std::uint32_t kMaxSubgraphs = 1024;
inline constexpr std::uint32_t kMaxInferredNodes = 1u << 17;  // of bodies, each round counted, in one inference
inline constexpr std::uint32_t kMaxDimensions = 1024;         // symbolic ones, and terms of one
inline constexpr std::uint32_t kMaxQuantEntries = 1u << 26;
inline constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 40;
inline constexpr std::uint32_t kConstantAlign = 64;  // of a constant in its segment

}  // namespace quarry::qir
