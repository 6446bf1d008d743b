// SPDX-License-Identifier: Apache-2.0
// qr_signal: abort and timeout of calls.
#pragma once

#include <atomic>
#include <mutex>

#include "loader/host.h"
#include "quarry/backend.h"
#include "runtime/object.h"

namespace quarry {

class Runtime;

class Signal : public Counted<Signal> {
 public:
  explicit Signal(Ref<Runtime> runtime);
  ~Signal();
  // Safe in a signal handler. Wakes who polls fd().
  void abort() noexcept;
  void reset() noexcept;
  void set_timeout(std::uint64_t timeout_ns) noexcept { timeout_ns_.store(timeout_ns, std::memory_order_relaxed); }
  bool aborted() const noexcept { return aborted_.load(std::memory_order_acquire) != 0; }
  std::uint64_t timeout_ns() const noexcept { return timeout_ns_.load(std::memory_order_relaxed); }
  // A descriptor that polls readable while the signal is aborted, made when it is first asked for; -1: none to be had.
  int fd() noexcept;
  // Plain memory, as the plugin ABI wants it.
  const std::uint32_t *word() const noexcept { return reinterpret_cast<const std::uint32_t *>(&aborted_); }

 private:
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
                std::atomic<std::uint32_t>::is_always_lock_free);
  Ref<Runtime> runtime_;
  std::atomic<std::uint32_t> aborted_{0};
  std::atomic<std::uint64_t> timeout_ns_{0};
  std::atomic<int> fd_{-1};
  std::mutex fd_mutex_;  // of making it, and of setting it back
};

// A signal as it applies to one call: the timeout counts from here. Works without a signal too.
class CallSignal {
 public:
  explicit CallSignal(Signal *signal) noexcept : signal_(signal) {
    if (!signal) return;
    const std::uint64_t timeout = signal->timeout_ns(), now = loader::monotonic_ns();
    plugin_ = {sizeof(qr_plugin_signal),
               0,
               signal->word(),
               timeout == 0                 ? 0
               : timeout > UINT64_MAX - now ? UINT64_MAX
                                            : now + timeout,
               signal,
               [](void *self) -> std::int32_t { return static_cast<Signal *>(self)->fd(); }};
  }
  const qr_plugin_signal *plugin() const noexcept { return signal_ ? &plugin_ : nullptr; }

  // Whether to go on; `what` names the call and the step.
  Status check(const char *what) const {
    if (!signal_) return {};
    if (signal_->aborted())
      return Status::error(ErrorId::cancelled, format("%s: stopped, its signal was aborted", what));
    if (plugin_.deadline_ns && loader::monotonic_ns() >= plugin_.deadline_ns)
      return Status::error(ErrorId::deadline_exceeded,
                           format("%s: stopped, it took longer than the %.3f s that its signal allows", what,
                                  static_cast<double>(signal_->timeout_ns()) / 1e9));
    return {};
  }

 private:
  Ref<Signal> signal_;  // a call keeps its signal alive
  qr_plugin_signal plugin_ = {};
};

}  // namespace quarry
