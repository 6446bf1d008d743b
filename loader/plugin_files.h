// SPDX-License-Identifier: Apache-2.0
// Files that a plugin or the compiler library makes, to a FileSink of the host's: nothing but the host writes files.
#pragma once

#include <mutex>

#include "base/alloc.h"
#include "base/file_sink.h"
#include "quarry/backend.h"

namespace quarry::loader {

class PluginFiles {
 public:
  explicit PluginFiles(FileSink &to) noexcept : to_(to), memory_(current_allocator()) {}
  PluginFiles(const PluginFiles &) = delete;
  PluginFiles &operator=(const PluginFiles &) = delete;

  const qr_files_sink *sink() const noexcept { return &sink_; }
  // What became of the files, where the call that had the sink ended well or not: a failure of ours comes before what
  // it made of it.
  Status finish(bool ended_well) { return failed_.ok() && ended_well ? to_.whole() : std::move(failed_); }

 private:
  // A file begins, or (no name) more bytes of it.
  qr_plugin_code take(const qr_plugin_string *name, const void *data, std::uint64_t size, std::uint64_t more) noexcept;

  FileSink &to_;
  Allocator &memory_;
  std::mutex mutex_;
  Status failed_;
  static qr_plugin_code begin(void *self, qr_plugin_string name, std::uint64_t size, std::uint64_t more);
  static qr_plugin_code write(void *self, const void *data, std::uint64_t size);
  const qr_files_sink sink_ = {sizeof(qr_files_sink), 0, this, begin, write};
};

}  // namespace quarry::loader
