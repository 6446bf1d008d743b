// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/engine.h"

#include "backends/htp/qnn/htp_abi.h"

namespace quarry::htp {

namespace {

// The device's configuration in the layout of the library's version.
struct DeviceConfigs {
  DeviceConfigs(const qnn::Library &library, const Soc &soc, bool signed_domain) {
    const bool wide = library.device_config_is_wide();
    wide_[0].option = 0, wide_[0].soc = soc.number;
    narrow_[0].option = 0, narrow_[0].soc = soc.number;
    wide_[1].option = 2, wide_[1].pd = {0, true};
    narrow_[1].option = 2, narrow_[1].pd = {0, true};
    for (int i = 0; i < (signed_domain ? 2 : 1); ++i) {
      configs_[i].option = 0;
      configs_[i].custom = wide ? static_cast<void *>(&wide_[i]) : static_cast<void *>(&narrow_[i]);
      list[i] = &configs_[i];
    }
  }
  const qnn::DeviceConfig *list[3] = {};

 private:
  qnn::HtpDeviceConfig wide_[2] = {};
  qnn::HtpDeviceConfigOld narrow_[2] = {};
  qnn::DeviceConfig configs_[2] = {};
};

}  // namespace

Result<std::shared_ptr<Engine>> Engine::make(std::shared_ptr<const qnn::Library> library, const Soc &soc,
                                             bool signed_domain) {
  auto engine = std::allocate_shared<Engine>(Alloc<Engine>(), std::move(library));
  const qnn::Api &api = engine->api();
  qnn::LogLines lines;
  if (const qnn::Error error =
          api.logCreate(qnn::write_log, static_cast<std::uint32_t>(qnn::LogLevel::Warnings), &engine->log_))
    return qnn::call_failed("logCreate", error, &lines);
  if (const qnn::Error error = api.backendCreate(engine->log_, nullptr, &engine->backend_))
    return qnn::call_failed("backendCreate", error, &lines);
  DeviceConfigs configs(engine->library(), soc, signed_domain);
  if (const qnn::Error error = api.deviceCreate(engine->log_, configs.list, &engine->device_)) {
    const bool no_soc = lines.text().find("No Snapdragon SOC") != String::npos;
    return qnn::call_failed(
        format("deviceCreate for %s", soc_text(soc).c_str()), error, &lines,
        no_soc ? "this machine has no Snapdragon; on x86-64 Linux the same libraries run in an emulator"
               : "`quarry doctor` says what the device needs");
  }
  return engine;
}

Engine::~Engine() {
  const qnn::Api &api = library_->api();
  if (device_) (void)api.deviceFree(device_);
  if (backend_) (void)api.backendFree(backend_);
  if (log_) (void)api.logFree(log_);
}

}  // namespace quarry::htp
