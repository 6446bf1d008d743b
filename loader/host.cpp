// SPDX-License-Identifier: Apache-2.0
#include "loader/host.h"

#include <ctime>

#include "loader/checks.h"

namespace quarry::loader {
namespace {

HostEnvironment &environment_of(void *self) noexcept { return *static_cast<HostEnvironment *>(self); }

bool is_power_of_two(std::uint64_t value) noexcept { return value && (value & (value - 1)) == 0; }

void *host_alloc(void *self, std::uint64_t size, std::uint64_t align) {
  if (!is_power_of_two(align) || align > 65536) return nullptr;
  return environment_of(self).allocator().allocate(size, align < 16 ? 16 : align);
}

void host_free(void *self, void *ptr, std::uint64_t size, std::uint64_t align) {
  if (ptr) environment_of(self).allocator().deallocate(ptr, size, align < 16 ? 16 : align);
}

void host_log(void *self, std::int32_t level, qr_plugin_string topic, qr_plugin_string message) {
  const auto topic_text = checked_text(topic), message_text = checked_text(message);
  if (topic_text && message_text && level >= QR_LOG_ERROR && level <= QR_LOG_TRACE)
    environment_of(self).log(level, 0, *topic_text, *message_text);
}

std::uint64_t host_clock(void *) { return monotonic_ns(); }

const void *host_extension(void *self, const char *id) { return id ? environment_of(self).extension(id) : nullptr; }

}  // namespace

std::uint64_t monotonic_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

qr_host make_host(HostEnvironment &environment) noexcept {
  return {sizeof(qr_host), QR_PLUGIN_ABI_MAJOR, 1,        QR_PLUGIN_ABI_MINOR, QR_PLUGIN_MAGIC, &environment,
          host_alloc,      host_free,           host_log, host_clock,          host_extension};
}

}  // namespace quarry::loader
