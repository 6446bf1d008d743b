// SPDX-License-Identifier: Apache-2.0
// The note of a plugin that is a Windows DLL (a file of the form PE), and what the DLL imports: headers, sections, the
// section .qrnote, the table of imports. Pure functions over bytes; every offset and size is checked against the file.
#pragma once

#include "loader/plugin_note.h"

namespace quarry::loader {

// Reads the note of the file `name` (for messages), for a host of `machine` (IMAGE_FILE_MACHINE_*). Fails as
// read_elf_note does.
constexpr std::uint16_t kPeX86 = 0x14c, kPeX64 = 0x8664, kPeArm64 = 0xaa64;
#if defined(__aarch64__)
constexpr std::uint16_t kPeHost = kPeArm64;
#else
constexpr std::uint16_t kPeHost = kPeX64;
#endif
Result<PluginNote> read_pe_note(const ByteSource &source, std::string_view name, std::uint16_t machine = kPeHost);

// The names of the DLLs that must be there when it is loaded: "KERNEL32.dll". Fails with QR-L0102 where the table does
// not lie in the file.
Result<Vector<String>> read_pe_imports(const ByteSource &source, std::string_view name);

// QR-L0111 where one of them is not to be found. (On Windows alone: pe_imports.cpp.)
Status check_pe_imports(const ByteSource &source, const String &path);

}  // namespace quarry::loader
