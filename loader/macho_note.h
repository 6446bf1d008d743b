// SPDX-License-Identifier: Apache-2.0
// The note of a plugin that is a file of macOS' (of the form Mach-O): headers, load commands, the section
// __TEXT,__qrnote; of a file for several machines the part for this one. Pure functions over bytes; every offset and
// size is checked against the file.
#pragma once

#include "loader/plugin_note.h"

namespace quarry::loader {

constexpr std::uint32_t kMachX64 = 0x01000007, kMachArm64 = 0x0100000c;  // CPU_TYPE_*
#if defined(__aarch64__)
constexpr std::uint32_t kMachHost = kMachArm64;
#else
constexpr std::uint32_t kMachHost = kMachX64;
#endif

// Reads the note of the file `name` (for messages), for a host of `machine`. Fails as read_elf_note does.
Result<PluginNote> read_macho_note(const ByteSource &source, std::string_view name, std::uint32_t machine = kMachHost);

}  // namespace quarry::loader
