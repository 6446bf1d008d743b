// SPDX-License-Identifier: Apache-2.0
#include "loader/compatibility.h"

#include "base/os/library.h"
#include "base/os/path.h"

namespace quarry::loader {
namespace {

constexpr std::string_view kPrefix = QR_PLUGIN_PREFIX "quarry-backend-", kSuffix = QR_LIBRARY_SUFFIX;

String flavour_text(std::uint32_t flavour) {
  if (flavour == 0) return "none";
  String out;
  const auto add = [&](std::string_view word) { out.append(out.empty() ? "" : "+").append(word); };
  if (flavour & QR_PLUGIN_FLAVOUR_ASAN) add("address");
  if (flavour & QR_PLUGIN_FLAVOUR_TSAN) add("thread");
  if (flavour & QR_PLUGIN_FLAVOUR_MSAN) add("memory");
  if (const std::uint32_t rest = flavour & ~7u) add(format("0x%x", rest));
  return out;
}

}  // namespace

std::string_view id_of_file(std::string_view path) noexcept {
  const std::size_t slash = os::last_separator(path);
  std::string_view name = slash == path.npos ? path : path.substr(slash + 1);
  if (name.size() <= kPrefix.size() + kSuffix.size() || !name.starts_with(kPrefix) || !name.ends_with(kSuffix))
    return {};
  return name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
}

bool is_plugin_id(std::string_view id) noexcept {
  if (id.empty() || id.size() > 31 || id[0] < 'a' || id[0] > 'z') return false;
  for (const char c : id)
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-') return false;
  return true;
}

Status check_compatibility(const PluginNote &note, std::string_view path, const HostFacts &host) {
  String differs;
  std::optional<ErrorId> first;
  const auto pair = [&](ErrorId id, const String &text) {
    if (!first) first = id;
    differs += differs.empty() ? text : "; " + text;
  };
  if (note.target != host.target)
    pair(ErrorId::plugin_target, format("target found %s, expected %.*s", note.target, host.target));
  if (note.abi_major != host.abi_major) {
    pair(ErrorId::plugin_abi_major, format("plugin ABI major found %u, expected %u", note.abi_major, host.abi_major));
  } else {
    // Minors of another major mean nothing here.
    if (note.abi_minor_min > host.abi_minor_max)
      pair(ErrorId::plugin_abi_minor,
           format("plugin ABI minor found at least %u, expected at most %u", note.abi_minor_min, host.abi_minor_max));
    if (note.abi_minor < host.abi_minor_min)
      pair(ErrorId::plugin_abi_minor,
           format("plugin ABI minor found %u, expected at least %u", note.abi_minor, host.abi_minor_min));
  }
  if (note.flavour != host.flavour)
    pair(ErrorId::plugin_flavour,
         format("sanitizers found %s, expected %s", flavour_text(note.flavour), flavour_text(host.flavour)));
  const std::string_view id = id_of_file(path);
  if (note.id != id || !is_plugin_id(note.id))
    pair(ErrorId::plugin_id_mismatch,
         id.empty()      ? format("id found \"%s\" in a file of another name, expected a file " QR_PLUGIN_PREFIX
                                  "quarry-backend-<id>" QR_LIBRARY_SUFFIX,
                                  note.id)
         : note.id != id ? format("id found \"%s\", expected \"%s\" as in the file's name", note.id, printable(id))
                         : format("id found \"%s\", expected 1 to 31 of a-z, 0-9 and '-', a letter first", note.id));
  if (!first) return {};
  // Of the system's own, but for the C library: the plugin is nearly what is wanted.
  const auto system = [](std::string_view target) { return target.substr(0, target.rfind('-')); };
  const bool nearly = *first == ErrorId::plugin_target && system(note.target) == system(host.target);
  const String hint =
      nearly ? format("build the plugin with the C library of this system (%.*s), or install one that was", host.target)
             : String(error_row(*first).hint);
  return Status::error(*first, format("%s: %s", printable(path, 1024), differs), hint).with("file", path);
}

}  // namespace quarry::loader
