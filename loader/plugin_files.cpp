// SPDX-License-Identifier: Apache-2.0
#include "loader/plugin_files.h"

#include "loader/checks.h"

namespace quarry::loader {

qr_plugin_code PluginFiles::take(const qr_plugin_string *name, const void *data, std::uint64_t size,
                                 std::uint64_t more) noexcept {
  AllocatorScope scope(memory_);
  const std::lock_guard lock(mutex_);
  if (!failed_.ok()) return failed_.code();
  try {
    failed_ = name ? to_.begin(checked_text(*name).value_or(""), size, more) : to_.write(data, size);
  } catch (const std::bad_alloc &) {
    failed_ = Status::out_of_memory();
  }
  return failed_.code();
}

qr_plugin_code PluginFiles::begin(void *self, qr_plugin_string name, std::uint64_t size, std::uint64_t more) {
  return static_cast<PluginFiles *>(self)->take(&name, nullptr, size, more);
}

qr_plugin_code PluginFiles::write(void *self, const void *data, std::uint64_t size) {
  return static_cast<PluginFiles *>(self)->take(nullptr, data, size, 0);
}

}  // namespace quarry::loader
