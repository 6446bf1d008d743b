// SPDX-License-Identifier: Apache-2.0
// Votes for clocks and for the way to the device, by performance profiles (power.inc): while a context is loaded, in
// each run, and lower ones between runs.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "backends/htp/engine/engine.h"
#include "backends/htp/qnn/htp_abi.h"

namespace quarry::htp {

struct PowerProfile {
  const char *name;
  std::uint32_t sleep_latency, dcvs, polling_us, corner_min, corner_target, corner_max;
  const char *between;
  bool is_timed;
};
// nullptr for "default", and for a name that is none: no votes, the system decides.
const PowerProfile *find_power_profile(std::string_view name) noexcept;
// A corner of the matrix unit as the library numbers it; -1 for "auto", and for a name that is none.
std::int32_t find_hmx_corner(std::string_view name) noexcept;

// What the options of a session ask for; 0 or -1: not set.
struct PowerWishes {
  const PowerProfile *profile = nullptr;
  std::uint32_t device = 0, core = 0;
  std::uint32_t rpc_latency_us = 0, adaptive_polling_us = 0, hmx_timeout_us = 0;
  std::int32_t rpc_polling_us = -1;  // -1: the profile's
  std::int32_t hmx_corner = -1;      // beside a profile; -1: as the profile's corner
  std::uint32_t hmx_clock = 0;       // 0 high, 1 low
  bool no_sleep = false;             // beside a profile
  bool any() const noexcept {
    return profile || rpc_latency_us > 0 || adaptive_polling_us > 0 || hmx_timeout_us > 0 || rpc_polling_us >= 0;
  }
};
// What the options of a run ask for beside.
struct RunPower {
  const PowerProfile *during = nullptr, *after = nullptr;  // nullptr: the session's, what that is lowered to
  std::uint32_t rpc_latency_us = 0;
  bool any() const noexcept { return during || after || rpc_latency_us > 0; }
};

// The votes of one context. Without wishes it asks the library for nothing.
class Power {
 public:
  Power(std::shared_ptr<const Engine> engine, PowerWishes wishes) : engine_(std::move(engine)), wishes_(wishes) {}
  ~Power();
  Power(const Power &) = delete;
  Power &operator=(const Power &) = delete;

  // Around the loading of the context, and around each run. The profile's votes begin; when no run is under way any
  // more they are lowered.
  Status begin(const RunPower &run = {});
  Status end(const RunPower &run = {});
  // A profile for the runs to come (ep.dynamic.qnn_htp_performance_mode).
  void choose(const PowerProfile *profile);
  // The library has forgotten everything.
  void forget();

 private:
  bool wants(const RunPower &run) const noexcept { return wishes_.any() || run.any(); }
  Status raise(const RunPower &run);
  Status need_id();
  Status vote(const PowerProfile &profile);
  Status vote(std::uint32_t option, std::uint32_t value);
  qnn::HtpPowerConfig clocks_of(const PowerProfile &profile, bool is_run) const;
  qnn::HtpPowerConfig matrix_unit(bool is_run) const;
  void lower_later(std::unique_lock<std::mutex> &lock, const PowerProfile &to);
  void watch();

  std::shared_ptr<const Engine> engine_;
  std::mutex mutex_;
  PowerWishes wishes_;
  const qnn::HtpInfra *infra_ = nullptr;
  std::uint32_t id_ = 0, under_way_ = 0;
  bool has_id_ = false;
  const PowerProfile *voted_ = nullptr;
  std::uint32_t voted_latency_ = 0;
  // Timed profiles: a thread lowers the votes when no run has come for a while.
  std::thread watcher_;
  std::condition_variable wake_;
  bool ends_ = false, sleeps_ = false;
  std::uint64_t due_ns_ = 0;  // 0: nothing to lower
  const PowerProfile *lower_to_ = nullptr;
};

}  // namespace quarry::htp
