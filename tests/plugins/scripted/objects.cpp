// SPDX-License-Identifier: Apache-2.0
#include "tests/plugins/scripted/objects.h"

#include <ctime>

#include "backends/common/node_event.h"

namespace quarry::scripted {

using plugin::StopToken;
using plugin::text;

constexpr std::uint64_t kMillisecond = 1'000'000;

Status take_time(std::uint64_t milliseconds, const qr_plugin_signal *signal, const qr_host &host, const char *what) {
  const StopToken stop(signal, host);
  const std::uint64_t end = host.clock_ns(host.self) + milliseconds * kMillisecond;
  QR_RETURN_IF_ERROR(stop.status(what));
  while (host.clock_ns(host.self) < end) {
    const timespec step{0, static_cast<long>(kMillisecond)};
    nanosleep(&step, nullptr);
    QR_RETURN_IF_ERROR(stop.status(what));
  }
  return {};
}

void report_count(const qr_profile_sink *profile, std::uint64_t id, std::string_view name, std::string_view kind,
                  std::uint64_t value) {
  if (!profile) return;
  const qr_plugin_counter counter{text("value"), text(""), value};
  qr_plugin_event event = plugin::node_event({.id = id, .name = name});
  event.level = QR_PLUGIN_PROFILE_BASIC;
  event.clock = QR_PLUGIN_CLOCK_NONE;
  event.kind = text(kind);
  event.counters = &counter;
  event.counter_count = 1;
  profile->event(profile->self, &event);
}

Result<Script> script_of(const qr_plugin_option *options, std::uint64_t count) {
  return Script::parse(plugin::option(options, count, "scripted.script", ""));
}

std::uint64_t elements(const qir::Tensor &tensor) noexcept {
  std::uint64_t count = 1;
  for (const std::int64_t extent : tensor.shape) count *= static_cast<std::uint64_t>(extent);
  return count;
}

}  // namespace quarry::scripted
