// SPDX-License-Identifier: Apache-2.0
// What the loader needs of the one who owns it (runtime/), and what of it a plugin sees as qr_host.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/alloc.h"
#include "quarry/backend.h"
#include "quarry/types.h"

namespace quarry::loader {

// Implemented by the runtime object; outlives every Plugin made with it. All of it is called from any thread.
class HostEnvironment {
 public:
  virtual Allocator &allocator() noexcept = 0;
  // `flags`: QR_LOG_..._MISBEHAVES.
  virtual void log(qr_log_level level, std::uint32_t flags, std::string_view topic,
                   std::string_view message) noexcept = 0;
  // A host extension for plugins, "qr.<name>/<rev>"; nullptr: not there.
  virtual const void *extension(std::string_view) noexcept { return nullptr; }
  // Whether Quarry itself has an option of this key, so that any plugin may say that it honours it.
  virtual bool knows_option(std::string_view) noexcept { return false; }

 protected:
  ~HostEnvironment() = default;
};

// The clock of deadlines and profile events: monotonic, in nanoseconds.
std::uint64_t monotonic_ns() noexcept;

// The table of services that a plugin gets; it points to `environment`.
qr_host make_host(HostEnvironment &environment) noexcept;

}  // namespace quarry::loader
