// SPDX-License-Identifier: Apache-2.0
// The state of a device that all sessions of a runtime on it share: whether it was lost.
#pragma once

#include <atomic>
#include <memory>

#include "loader/plugin.h"
#include "runtime/core/signal.h"

namespace quarry {

class DeviceState : public HeapObject {
 public:
  DeviceState(std::shared_ptr<loader::Plugin> plugin, std::uint32_t index, Process &process) noexcept
      : plugin_(std::move(plugin)), index_(index), recovering_(process) {}

  loader::Plugin &plugin() const noexcept { return *plugin_; }
  const std::shared_ptr<loader::Plugin> &shared_plugin() const noexcept { return plugin_; }
  std::uint32_t index() const noexcept { return index_; }
  const loader::DeviceInfo &info() const noexcept { return plugin_->devices()[index_]; }

  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  // QR-R0009 while it is lost, QR-R0016 in a forked child where that cannot use it.
  Status check(const char *what) const;
  // What a slot returned, noted where it says that the device is lost.
  Status note(Status status) noexcept {
    if (status.code() == QR_DEVICE_LOST) lost_.store(true, std::memory_order_release);
    return status;
  }
  // Brings it back, for everybody. Nothing to do where it is healthy.
  Status recover(const CallSignal &signal);

 private:
  std::shared_ptr<loader::Plugin> plugin_;
  std::uint32_t index_;
  std::atomic<bool> lost_{false};
  ProcessMutex recovering_;
};

// The devices that a runtime's sessions and memory use.
class DeviceStates {
 public:
  explicit DeviceStates(Process &process) noexcept : process_(process), mutex_(process) {}
  Result<std::shared_ptr<DeviceState>> of(const std::shared_ptr<loader::Plugin> &plugin, std::uint32_t index);

 private:
  Process &process_;
  ProcessMutex mutex_;
  Vector<std::weak_ptr<DeviceState>> states_;
};

}  // namespace quarry
