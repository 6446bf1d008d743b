// SPDX-License-Identifier: Apache-2.0
// Internal to loader/: what the checked calls share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/status.h"
#include "loader/plugin.h"

namespace quarry::loader {

// Whether `table` reaches as far as `slot` and has it. Slots of an older table lie past its end.
#define QR_HAS_SLOT(table, slot)                                                                                      \
  ((table) && (table)->struct_size >= offsetof(std::remove_cvref_t<decltype(*(table))>, slot) + sizeof((table)->slot) \
       ? (table)->slot                                                                                                \
       : nullptr)

// A struct of the plugin's, of whatever minor, as ours: what an older plugin does not have is zero, what a newer one
// has more is left out. Nothing where it is smaller than its first release.
template <class T>
std::optional<T> taken(const T *from, std::uint32_t first) noexcept {
  if (!from || from->struct_size < first) return std::nullopt;
  T out{};
  std::memcpy(&out, from, std::min<std::size_t>(from->struct_size, sizeof out));
  out.struct_size = sizeof out;
  return out;
}

inline constexpr std::uint64_t kMaxTextBytes = 64u << 10;  // of any text that a plugin gives
inline constexpr std::uint64_t kMaxDevices = 256;
inline constexpr std::uint64_t kMaxOptionRows = 4096;
inline constexpr std::uint64_t kMaxTensors = 1u << 16;  // inputs or outputs of a context
inline constexpr std::uint32_t kMaxTableBytes = 4096;

inline qr_plugin_string plugin_text(std::string_view view) noexcept { return {view.data(), view.size()}; }

// A text of the plugin's; nothing where it cannot be one (no data but a size, or longer than kMaxTextBytes).
std::optional<std::string_view> checked_text(qr_plugin_string text) noexcept;

// The error sink of one call of a slot, and the judgement on how the slot ended.
class ErrorCollector {
 public:
  explicit ErrorCollector(Plugin &plugin) noexcept
      : plugin_(plugin), sink_{sizeof(qr_error_sink), 0, this, set, detail} {}
  ErrorCollector(const ErrorCollector &) = delete;
  ErrorCollector &operator=(const ErrorCollector &) = delete;

  const qr_error_sink *sink() const noexcept { return &sink_; }
  // The status of a slot that returned `code`: ok, what the plugin said, or QR-L0115 where it said nothing.
  Status finish(const char *slot, qr_plugin_code code) noexcept;
  std::string_view message() const noexcept { return said_.message(); }

 private:
  static void set(void *self, qr_plugin_code code, qr_plugin_string id, qr_plugin_string message,
                  qr_plugin_string hint);
  static void detail(void *self, qr_plugin_string key, qr_plugin_string value);

  Plugin &plugin_;
  qr_error_sink sink_;
  std::mutex mutex_;  // a slot's worker threads may report too
  bool told_ = false;
  bool bad_text_ = false;
  Status said_;
};

}  // namespace quarry::loader
