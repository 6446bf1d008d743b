// SPDX-License-Identifier: Apache-2.0
// The machine: its processor as far as the system and not an instruction says it, its memory, its system.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace quarry::os {

// The system's words of features (HWCAP, HWCAP2), for Arm, whose processors have no instruction that says them. What
// the bits mean differs by processor: those of a 64-bit Arm stand below, by Linux's numbers on every system.
struct FeatureWords {
  std::uint64_t first, second;
};
inline constexpr std::uint64_t kArmNeon = 1u << 1, kArmCrc32 = 1u << 7, kArmAtomics = 1u << 8, kArmHalf = 1u << 9,
                               kArmNeonHalf = 1u << 10, kArmRoundingProducts = 1u << 12, kArmDotProducts = 1u << 20,
                               kArmSve = 1u << 22;
inline constexpr std::uint64_t kArmSecondI8mm = 1u << 13, kArmSecondBf16 = 1u << 14;
FeatureWords processor_features() noexcept;

// What the system calls the processor, within `buffer`: its model, or else its kind ("aarch64"). Empty: it says
// neither.
std::string_view processor_model(std::span<char> buffer) noexcept;
std::string_view processor_kind(std::span<char> buffer) noexcept;

// Bytes of the machine's memory, 0: that is not known.
std::uint64_t memory_bytes() noexcept;

// Asks that this process may use the state of tiles (Intel's AMX). Refused by Linux before 5.16, by filters of system
// calls, and where a thread has a stack for signals that is too small for the state.
bool allow_tiles() noexcept;

// How many there are, and how busy they were in the last minute (processes that ran or wanted to; below 0: the system
// does not say).
std::uint32_t processor_count() noexcept;
double load_of_last_minute() noexcept;
// What governs the processors' clocks: "schedutil". Empty: the system does not say, or has no word for it.
std::string_view clock_governor(std::span<char> buffer) noexcept;
// The system and its version: "Linux 6.1.0".
std::string_view system_name(std::span<char> buffer) noexcept;

}  // namespace quarry::os
