// SPDX-License-Identifier: Apache-2.0
// qr_signal: abort and timeout of calls.
#pragma once

#include <atomic>

#include "base/stop.h"
#include "loader/host.h"
#include "quarry/backend.h"
#include "quarry/signal.h"
#include "runtime/core/object.h"
#include "runtime/core/wakeup.h"

namespace quarry {

class Runtime;

// Notified when a signal is aborted; see SignalLink.
class SignalFollower {
 public:
  virtual void on_abort() noexcept = 0;  // as Signal::abort: it may be called in a signal handler

 protected:
  ~SignalFollower() = default;
};

class Signal : public Counted<Signal> {
 public:
  static constexpr std::uint64_t kNoLimit = QR_NO_TIMEOUT;

  // With a parent: as qr_signal_derive says.
  explicit Signal(Ref<Runtime> runtime, Signal *parent = nullptr);
  ~Signal();
  // Safe in a signal handler. Wakes who polls fd(), and notifies the followers.
  void abort() noexcept;
  void reset() noexcept;
  // As abort, by the progress function of the call: the status of the call says so.
  void stop() noexcept { abort_as(kByProgress); }
  bool stopped() const noexcept { return aborted_.load(std::memory_order_acquire) == kByProgress; }
  void set_timeout(std::uint64_t timeout_ns) noexcept { timeout_ns_.store(timeout_ns, std::memory_order_relaxed); }
  bool aborted() const noexcept { return aborted_.load(std::memory_order_acquire) != 0; }
  // Of a call that begins now: how long it may take, and until when (0: without limit).
  struct Limit {
    std::uint64_t timeout_ns, deadline_ns;
  };
  Limit limit() const noexcept;
  Runtime &runtime() const noexcept { return *runtime_; }
  // A descriptor that polls readable while the signal is aborted, made when it is first asked for; -1: none to be had.
  // In a child of fork() another one takes its number when it is asked for there: until then it is the parent's.
  int fd() noexcept;
  // Plain memory, as the plugin ABI wants it.
  const std::uint32_t *word() const noexcept { return reinterpret_cast<const std::uint32_t *>(&aborted_); }

 private:
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
                std::atomic<std::uint32_t>::is_always_lock_free);
  static constexpr std::uint32_t kAborted = 1, kByProgress = 2;
  void abort_as(std::uint32_t how) noexcept;
  struct Parent;  // the link to it

  Ref<Runtime> runtime_;
  Process &process_;
  std::atomic<std::uint32_t> aborted_{0};
  std::atomic<std::uint64_t> timeout_ns_{kNoLimit};
  std::atomic<std::uint32_t> entered_;  // the generation of the process that fd_ is of
  std::atomic<int> fd_{-1};

  friend class SignalLink;
  // A slot for a follower. Slots are used again and live as long as the signal, so that everybody walks over them
  // without a lock. Those of a process that this one was forked from stand for threads that are not here: they are left
  // as they are, and stay unused.
  struct FollowerSlot : HeapObject {
    explicit FollowerSlot(std::uint32_t made_in) noexcept : generation(made_in) {}
    const std::uint32_t generation;
    std::atomic<SignalFollower *> follower{nullptr};
    std::atomic<std::uint32_t> inside{0};  // calls of abort() that look at it
    FollowerSlot *next = nullptr;
  };
  FollowerSlot *follow(SignalFollower &follower);
  static void leave(FollowerSlot &place) noexcept;
  std::atomic<FollowerSlot *> places_{nullptr};
  const Limit whole_;  // of all calls together
  Unique<Parent> parent_;
};

// Has a follower notified of the signal's abort, at once where it is aborted already, as long as the link lives. No
// signal: no link.
class SignalLink {
 public:
  SignalLink(Signal *signal, SignalFollower &follower)
      : signal_(signal), place_(signal ? signal->follow(follower) : nullptr) {}
  ~SignalLink() {
    if (place_) Signal::leave(*place_);
  }
  SignalLink(const SignalLink &) = delete;
  SignalLink &operator=(const SignalLink &) = delete;

 private:
  Ref<Signal> signal_;
  Signal::FollowerSlot *place_;
};

// Ends a sleep when a signal is aborted.
class WakingFollower final : public SignalFollower {
 public:
  explicit WakingFollower(Wakeup &wakeup) noexcept : wakeup_(wakeup) {}
  void on_abort() noexcept override { wakeup_.wake(); }

 private:
  Wakeup &wakeup_;
};

// A signal as it applies to one call: the timeout counts from here. Works without a signal too.
class CallSignal {
 public:
  explicit CallSignal(Signal *signal) noexcept : signal_(signal) {
    if (!signal) return;
    const Signal::Limit limit = signal->limit();
    timeout_ns_ = limit.timeout_ns;
    plugin_ = {
        sizeof(qr_plugin_signal), 0,      signal->word(),
        limit.deadline_ns,        signal, [](void *self) -> std::int32_t { return static_cast<Signal *>(self)->fd(); }};
  }
  const qr_plugin_signal *plugin() const noexcept { return signal_ ? &plugin_ : nullptr; }
  Signal *signal() const noexcept { return signal_.get(); }
  std::uint64_t deadline_ns() const noexcept { return plugin_.deadline_ns; }  // 0: none

  // Whether to go on; `what` names the call and the step.
  Status check(const char *what) const { return stopped() ? refusal(what) : Status(); }
  bool stopped() const noexcept {
    return signal_ && (signal_->aborted() || (plugin_.deadline_ns && loader::monotonic_ns() >= plugin_.deadline_ns));
  }

 private:
  Ref<Signal> signal_;  // a call keeps its signal alive
  qr_plugin_signal plugin_ = {};
  std::uint64_t timeout_ns_ = Signal::kNoLimit;
  __attribute__((cold)) Status refusal(const char *what) const;
};

// A call's signal, for who asks stop_asked().
class CallStop final : public StopSource {
 public:
  explicit CallStop(const CallSignal &signal) noexcept : signal_(signal) {}
  bool stopped() const noexcept override { return signal_.stopped(); }
  Status status(std::string_view what) const noexcept override;

 private:
  const CallSignal &signal_;
};

}  // namespace quarry
