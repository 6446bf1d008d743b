// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/settings/power.h"

#include <chrono>

#include "base/clock.h"

namespace quarry::htp {

namespace {

// Voltage corners as the library numbers them.
constexpr std::uint32_t Disable = 0x10, Min = 0x20, Svs2 = 0x30, Svs = 0x40, SvsPlus = 0x50, Nom = 0x60, NomPlus = 0x70,
                        Turbo = 0x80, Max = 0xa0;
constexpr std::uint32_t kModeUpDown = 0x01, kModePerformance = 0x10;
constexpr std::uint32_t kDcvs = 1, kRpcLatency = 2, kRpcPolling = 3, kHmxTimeout = 4, kHmx = 5, kAdaptivePolling = 6;
// How long the votes of a timed profile stay after a run.
constexpr std::chrono::milliseconds kHold(300);

constexpr PowerProfile kProfiles[] = {
#define QR_POWER(name, sleep, dcvs, polling, low, target, high, between, timed) \
  {#name, sleep, dcvs, polling, low, target, high, #between, (timed) != 0},
#define QR_HMX_CORNER(name, number)
#include "backends/htp/settings/power.inc"
#undef QR_POWER
#undef QR_HMX_CORNER
};

}  // namespace

const PowerProfile *find_power_profile(std::string_view name) noexcept {
  for (const PowerProfile &profile : kProfiles)
    if (name == profile.name) return &profile;
  return nullptr;
}

std::int32_t find_hmx_corner(std::string_view name) noexcept {
#define QR_POWER(...)
#define QR_HMX_CORNER(corner, number) \
  if (name == #corner) return number;
#include "backends/htp/settings/power.inc"
#undef QR_POWER
#undef QR_HMX_CORNER
  return -1;
}

Power::~Power() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    wake_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
  if (has_id_) (void)infra_->destroyPowerConfigId(id_);  // its votes go with it
}

Status Power::need_id() {
  if (has_id_) return {};
  qnn::LogLines lines;
  const qnn::Api &api = engine_->api();
  void *infra = nullptr;
  if (!api.deviceGetInfrastructure)
    return Status::error(ErrorId::backend_library,
                         format("%s: the library has no deviceGetInfrastructure, which performance profiles need",
                                printable(engine_->library().path(), 1000)),
                         "leave htp_performance_mode and the options of RPC out");
  if (const qnn::Error error = api.deviceGetInfrastructure(&infra))
    return qnn::call_failed("deviceGetInfrastructure", error, &lines);
  infra_ = static_cast<const qnn::HtpInfra *>(infra);
  if (const qnn::Error error = infra_->createPowerConfigId(wishes_.device, wishes_.core, &id_))
    return qnn::call_failed("createPowerConfigId", error, &lines);
  has_id_ = true;
  if (wishes_.adaptive_polling_us > 0) QR_RETURN_IF_ERROR(vote(kAdaptivePolling, wishes_.adaptive_polling_us));
  if (wishes_.hmx_timeout_us > 0) QR_RETURN_IF_ERROR(vote(kHmxTimeout, wishes_.hmx_timeout_us));
  if (!wishes_.profile && wishes_.rpc_polling_us >= 0)
    QR_RETURN_IF_ERROR(vote(kRpcPolling, static_cast<std::uint32_t>(wishes_.rpc_polling_us)));
  return {};
}

Status Power::vote(std::uint32_t option, std::uint32_t value) {
  qnn::HtpPowerConfig config{};
  config.option = option, config.u32 = value;
  const qnn::HtpPowerConfig *list[] = {&config, nullptr};
  qnn::LogLines lines;
  if (const qnn::Error error = infra_->setPowerConfig(id_, list))
    return qnn::call_failed(format("setPowerConfig of option %u", option), error, &lines);
  return {};
}

// What the matrix unit gets: between runs as the profile's corner again.
qnn::HtpPowerConfig Power::matrix_unit(bool is_run) const {
  const std::uint32_t corner = is_run ? static_cast<std::uint32_t>(wishes_.hmx_corner) : 0;
  qnn::HtpPowerConfig config{};
  config.option = kHmx;
  config.hmx = {is_run ? 0u : 1u, corner, corner, corner, is_run ? wishes_.hmx_clock : 0};
  return config;
}

qnn::HtpPowerConfig Power::clocks_of(const PowerProfile &profile, bool is_run) const {
  qnn::HtpPowerConfig clocks{};
  clocks.option = kDcvs;
  qnn::DcvsV3 &v = clocks.dcvs;
  v.context_id = id_;
  v.set_dcvs = 1, v.dcvs = profile.dcvs;
  // With DCVS the clocks move between the corners; without it the mode is not looked at.
  v.mode = profile.dcvs ? kModeUpDown : kModePerformance;
  v.set_sleep_latency = 1, v.sleep_latency = profile.sleep_latency;
  if (wishes_.no_sleep) v.set_sleep_disable = 1, v.sleep_disable = is_run ? 1 : 0;
  v.set_bus = v.set_core = 1;
  v.bus_min = v.core_min = profile.corner_min;
  v.bus_target = v.core_target = profile.corner_target;
  v.bus_max = v.core_max = profile.corner_max;
  return clocks;
}

Status Power::vote(const PowerProfile &profile) {
  if (voted_ == &profile) return {};
  // Those that others are lowered to are lowered to themselves.
  const bool is_run = std::string_view(profile.between) != profile.name, votes_matrix = wishes_.hmx_corner >= 0;
  const qnn::HtpPowerConfig clocks = clocks_of(profile, is_run), matrix = matrix_unit(is_run);
  qnn::HtpPowerConfig polling{};
  polling.option = kRpcPolling;
  polling.u32 = wishes_.rpc_polling_us >= 0 && profile.polling_us > 0
                    ? static_cast<std::uint32_t>(wishes_.rpc_polling_us)
                    : profile.polling_us;
  const qnn::HtpPowerConfig *list[] = {&clocks, &polling, votes_matrix ? &matrix : nullptr, nullptr};
  qnn::LogLines lines;
  if (const qnn::Error error = infra_->setPowerConfig(id_, list))
    return qnn::call_failed(format("setPowerConfig of profile %s", profile.name), error, &lines);
  voted_ = &profile;
  return {};
}

Status Power::begin(const RunPower &run) {
  const std::lock_guard lock(mutex_);
  QR_RETURN_IF_ERROR(raise(run));
  ++under_way_;
  return {};
}

Status Power::raise(const RunPower &run) {
  if (!wants(run)) return {};
  QR_RETURN_IF_ERROR(need_id());
  due_ns_ = 0;
  const std::uint32_t latency = run.rpc_latency_us > 0 ? run.rpc_latency_us : wishes_.rpc_latency_us;
  if (latency != voted_latency_) {
    QR_RETURN_IF_ERROR(vote(kRpcLatency, latency));
    voted_latency_ = latency;
  }
  const PowerProfile *const profile = run.during ? run.during : wishes_.profile;
  return profile ? vote(*profile) : Status();
}

Status Power::end(const RunPower &run) {
  std::unique_lock lock(mutex_);
  if (under_way_ > 0) --under_way_;
  if (under_way_ > 0 || !wants(run) || !has_id_) return {};
  if (run.after) return vote(*run.after);
  const PowerProfile *const profile = run.during ? run.during : wishes_.profile;
  if (!profile) return {};
  const PowerProfile &lower = *find_power_profile(profile->between);
  if (!profile->is_timed) return vote(lower);
  lower_later(lock, lower);
  return {};
}

void Power::choose(const PowerProfile *profile) {
  const std::lock_guard lock(mutex_);
  wishes_.profile = profile;
  // Without a profile the votes made so far must go.
  if (!profile && voted_ && has_id_) {
    (void)infra_->destroyPowerConfigId(id_);
    has_id_ = false, voted_ = nullptr, voted_latency_ = 0, due_ns_ = 0;
  }
}

void Power::forget() {
  const std::lock_guard lock(mutex_);
  under_way_ = 0;
  has_id_ = false, voted_ = nullptr, voted_latency_ = 0, due_ns_ = 0;
}

void Power::lower_later(std::unique_lock<std::mutex> &lock, const PowerProfile &to) {
  due_ns_ = now_ns() + static_cast<std::uint64_t>(std::chrono::nanoseconds(kHold).count());
  lower_to_ = &to;
  if (!watcher_.joinable()) watcher_ = std::thread([this] { watch(); });
  // One that waits for an earlier time looks again then.
  const bool sleeps = sleeps_;
  lock.unlock();
  if (sleeps) wake_.notify_one();
}

void Power::watch() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (due_ns_ == 0) {
      sleeps_ = true;
      wake_.wait(lock);
      sleeps_ = false;
      continue;
    }
    const std::uint64_t now = now_ns();
    if (now < due_ns_) {
      wake_.wait_for(lock, std::chrono::nanoseconds(due_ns_ - now));
      continue;
    }
    due_ns_ = 0;
    try {
      if (has_id_) (void)vote(*lower_to_);  // nobody is there to hear it
    } catch (const std::bad_alloc &) {      // of the words about what failed
    }
  }
}

}  // namespace quarry::htp
