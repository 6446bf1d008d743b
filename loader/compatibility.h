// SPDX-License-Identifier: Apache-2.0
// Compares what a plugin declares with what this host is. Every field that differs is named with what was found and
// what was expected; the first one gives the error id.
#pragma once

#include <string_view>

#include "base/status.h"
#include "loader/plugin_note.h"

namespace quarry::loader {

// What a note is held against.
struct HostFacts {
  std::uint32_t abi_major = QR_PLUGIN_ABI_MAJOR;
  std::uint32_t abi_minor_min = 1;
  std::uint32_t abi_minor_max = QR_PLUGIN_ABI_MINOR;
  std::uint32_t flavour = QR_PLUGIN_BUILD_FLAVOUR;
  std::string_view target = QR_PLUGIN_BUILD_TARGET;
};

// "quarry-backend-<id>.so" ("libquarry-backend-<id>.so" on Android) -> "<id>"; empty: not a plugin's file name.
std::string_view id_of_file(std::string_view path) noexcept;
// What an id may be: a-z, 0-9 and '-', 1 to 31 bytes, starting with a letter. (Keeps ids out of paths.)
bool is_plugin_id(std::string_view id) noexcept;

Status check_compatibility(const PluginNote &note, std::string_view path, const HostFacts &host = {});

}  // namespace quarry::loader
