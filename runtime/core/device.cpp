// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/device.h"

namespace quarry {

Status DeviceState::check(const char *what) const {
  if (lost())
    return Status::errorf(ErrorId::device_lost, "%s: device %u (%s) of backend %s was lost in an earlier call", what,
                          index_, info().name, plugin_->id())
        .with("backend", plugin_->id());
  return plugin_->check_process(index_);
}

Status DeviceState::recover(const CallSignal &signal) {
  const ProcessLock lock(recovering_, signal);
  QR_RETURN_IF_ERROR(lock.status("the recovery of a device"));
  if (!lost()) return {};
  QR_RETURN_IF_ERROR(signal.check("qr_session_recover"));
  QR_RETURN_IF_ERROR(plugin_->recover(index_, signal.plugin()));
  lost_.store(false, std::memory_order_release);
  return {};
}

Result<std::shared_ptr<DeviceState>> DeviceStates::of(const std::shared_ptr<loader::Plugin> &plugin,
                                                      std::uint32_t index) {
  const ProcessLock lock(mutex_);
  QR_RETURN_IF_ERROR(lock.status("the devices of this runtime"));
  std::erase_if(states_, [](const std::weak_ptr<DeviceState> &state) { return state.expired(); });
  for (const std::weak_ptr<DeviceState> &known : states_)
    if (auto state = known.lock(); state && state->shared_plugin() == plugin && state->index() == index) return state;
  auto made = quarry::make_shared<DeviceState>(plugin, index, process_);
  states_.push_back(made);
  return made;
}

}  // namespace quarry
