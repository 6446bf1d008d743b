// SPDX-License-Identifier: Apache-2.0
// The runtime's log: one sink of the caller's, or none.
#pragma once

#include <string_view>

#include "base/os/tracing.h"
#include "base/status.h"
#include "quarry/runtime.h"

namespace quarry {

class Log {
 public:
  Log() noexcept = default;
  explicit Log(const qr_log_sink &sink) noexcept : sink_(sink) {
    if (sink_.level == 0) sink_.level = QR_LOG_WARN;
  }

  qr_log_level level() const noexcept { return sink_.level; }

  bool wants(qr_log_level level) const noexcept {
    return (sink_.write && level <= sink_.level) || os::is_traced(traced(level), os::TraceKeyword::Log);
  }
  void write(qr_log_level level, std::string_view topic, std::string_view message,
             std::uint32_t flags = 0) const noexcept {
    if (os::is_traced(traced(level), os::TraceKeyword::Log))
      os::trace("Log", traced(level), os::TraceKeyword::Log, {{"Topic", topic}, {"Message", message}});
    if (sink_.write && level <= sink_.level)
      sink_.write(sink_.self, level, flags, {topic.data(), topic.size()}, {message.data(), message.size()});
  }
  // For calls that have no status to give back.
  void misuse(const Status &status) const noexcept {
    write(QR_LOG_ERROR, "capi", status.message(), QR_LOG_CALLER_MISBEHAVES);
  }

 private:
  // The system's tracing counts one more: its first level is for what ends the process.
  static unsigned traced(qr_log_level level) noexcept { return static_cast<unsigned>(level) + 1; }

  qr_log_sink sink_ = QR_LOG_SINK_INIT;
};

}  // namespace quarry
