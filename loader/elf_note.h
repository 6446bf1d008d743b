// SPDX-License-Identifier: Apache-2.0
// The note of a plugin that is an ELF shared object: ELF header, program headers, the note. Pure functions over bytes;
// every offset and size is checked against the file.
#pragma once

#include "loader/plugin_note.h"

namespace quarry::loader {

// Reads the note of the file `name` (for messages). Fails with QR-L0101 (no ELF shared object), L0102 (truncated),
// L0103 and L0104 (another machine or bitness: found before the note is looked for), L0105 (no note) or L0106 (a note
// that breaks its own rules).
Result<PluginNote> read_elf_note(const ByteSource &source, std::string_view name);

const char *machine_name(std::uint16_t machine) noexcept;  // "x86_64"; nullptr: not one we know

}  // namespace quarry::loader
