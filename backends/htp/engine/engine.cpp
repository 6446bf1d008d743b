// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/engine/engine.h"

#include <algorithm>

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
                                             bool signed_domain, Vector<OpPackage> packages) {
  auto engine =
      std::allocate_shared<Engine>(Alloc<Engine>(), std::move(library), &soc, signed_domain, std::move(packages));
  QR_RETURN_IF_ERROR(engine->open());
  return engine;
}

Status Engine::probe(std::shared_ptr<const qnn::Library> library) {
  return Engine(std::move(library), nullptr, false, {}).open();
}

Status Engine::open() {
  const qnn::Api &api = library_->api();
  qnn::LogLines lines;
  // Which of the calls meets the lack of a device differs from release to release.
  const auto failed = [&](std::string_view call, qnn::Error error) {
    const String said = lines.text();
    if (said.find("No Snapdragon SOC") == String::npos)
      return qnn::call_failed(call, error, &lines, "`quarry doctor` says what the device needs");
    return Status::error(ErrorId::backend_no_device,
                         format("%s: found a machine without a Snapdragon SoC, expected one; the library says: %s",
                                library_->path(), said),
                         "run on a Snapdragon device; on x86-64 Linux the same libraries have an emulator");
  };
  if (const qnn::Error error =
          api.logCreate(qnn::write_log, static_cast<std::uint32_t>(qnn::LogLevel::Warnings), &log_))
    return failed("logCreate", error);
  if (const qnn::Error error = api.backendCreate(log_, nullptr, &backend_)) return failed("backendCreate", error);
  QR_RETURN_IF_ERROR(register_packages());
  if (soc_) {
    DeviceConfigs configs(*library_, *soc_, signed_domain_);
    if (const qnn::Error error = api.deviceCreate(log_, configs.list, &device_))
      return failed(format("deviceCreate for %s%s", soc_text(*soc_), signed_domain_ ? " with htp.signed_pd=1" : ""),
                    error);
  } else if (const qnn::Error error = api.deviceCreate(log_, nullptr, &device_)) {
    return failed("deviceCreate", error);
  }
  interrupter_ = quarry::make_unique<Interrupter>(api, backend_);
  return {};
}

Status Engine::register_packages() {
  const qnn::Api &api = library_->api();
  for (std::size_t i = 0; i < packages_.size(); ++i) {
    const OpPackage &package = packages_[i];
    // Several operators of one package: it is registered once.
    if (std::any_of(packages_.begin(), packages_.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const OpPackage &p) { return p.path == package.path && p.target == package.target; }))
      continue;
    if (!api.backendRegisterOpPackage) return qnn::slot_missing(*library_, "backendRegisterOpPackage", "op_packages");
    qnn::LogLines lines;
    if (const qnn::Error error =
            api.backendRegisterOpPackage(backend_, package.path.c_str(), package.symbol.c_str(),
                                         package.target.empty() ? nullptr : package.target.c_str()))
      return qnn::call_failed("backendRegisterOpPackage of op_packages: " + printable(package.path, 1000), error,
                              &lines,
                              "the package must be built for this machine, and its symbol be that of its interface");
  }
  return {};
}

void Engine::keep(std::shared_ptr<ListedContext> listed) {
  const std::lock_guard lock(listing_);
  std::erase_if(listed_, [&](const std::shared_ptr<ListedContext> &one) {
    if (!one->is_done()) return false;
    if (const qnn::Handle orphan = one->orphan()) (void)library_->api().contextFree(orphan, nullptr);
    return true;
  });
  listed_.push_back(std::move(listed));
}

void Engine::close() noexcept {
  const qnn::Api &api = library_->api();
  interrupter_.reset();
  for (const std::shared_ptr<ListedContext> &one : listed_)
    if (const qnn::Handle orphan = one->orphan()) (void)api.contextFree(orphan, nullptr);
  if (device_) (void)api.deviceFree(device_);
  if (backend_) (void)api.backendFree(backend_);
  if (log_) (void)api.logFree(log_);
  device_ = backend_ = log_ = nullptr;
  listed_.clear();  // the library reports nothing any more
}

Status Engine::reopen() {
  close();
  return open();
}

Engine::~Engine() { close(); }

}  // namespace quarry::htp
