// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/signal.h"

#include "base/os/event.h"
#include "base/os/thread.h"
#include "runtime/core/runtime.h"

namespace quarry {

struct Signal::Parent final : HeapObject, SignalFollower {
  Parent(Signal &parent, Signal &child) : child_(child), link_(&parent, *this) {}
  void on_abort() noexcept override { child_.abort(); }

 private:
  Signal &child_;
  const SignalLink link_;
};

Signal::Signal(Ref<Runtime> runtime, Signal *parent)
    : runtime_(std::move(runtime)),
      process_(runtime_->process()),
      entered_(process_.generation()),
      whole_(parent ? parent->limit() : Limit{kNoLimit, 0}) {
  if (parent) parent_ = make_unique<Parent>(*parent, *this);
}

Signal::~Signal() {
  parent_.reset();
  if (const int fd = fd_.load(std::memory_order_relaxed); fd >= 0) os::close_event(fd);
  for (FollowerSlot *place = places_.load(std::memory_order_relaxed); place;) delete std::exchange(place, place->next);
}

Signal::Limit Signal::limit() const noexcept {
  const std::uint64_t now = loader::monotonic_ns(), timeout = timeout_ns_.load(std::memory_order_relaxed);
  const Limit each{timeout, timeout >= UINT64_MAX - now ? 0 : now + timeout};
  return whole_.deadline_ns == 0 || (each.deadline_ns != 0 && each.deadline_ns < whole_.deadline_ns) ? each : whole_;
}

void Signal::abort() noexcept { abort_as(kAborted); }

// The fences: either this sees the descriptor of fd(), or fd() sees that the signal is aborted.
void Signal::abort_as(std::uint32_t how) noexcept {
  aborted_.store(how, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (const int fd = fd_.load(std::memory_order_seq_cst);
      fd >= 0 && process_.is(entered_.load(std::memory_order_acquire)))
    os::raise_event(fd);
  for (FollowerSlot *place = places_.load(std::memory_order_seq_cst); place; place = place->next) {
    if (!process_.is(place->generation)) continue;
    place->inside.fetch_add(1, std::memory_order_seq_cst);
    if (SignalFollower *follower = place->follower.load(std::memory_order_seq_cst)) follower->on_abort();
    place->inside.fetch_sub(1, std::memory_order_release);
  }
}

Signal::FollowerSlot *Signal::follow(SignalFollower &follower) {
  const std::uint32_t here = process_.generation();
  FollowerSlot *place = places_.load(std::memory_order_acquire);
  for (; place; place = place->next) {
    SignalFollower *nobody = nullptr;
    if (place->generation == here &&
        place->follower.compare_exchange_strong(nobody, &follower, std::memory_order_seq_cst))
      break;
  }
  if (!place) {
    place = new FollowerSlot(here);
    place->follower.store(&follower, std::memory_order_relaxed);
    place->next = places_.load(std::memory_order_relaxed);
    while (!places_.compare_exchange_weak(place->next, place, std::memory_order_seq_cst)) {
    }
  }
  // Whoever aborted before it could see the follower did not notify it.
  if (aborted_.load(std::memory_order_seq_cst)) follower.on_abort();
  return place;
}

// An abort() either sees that the follower has left, or is seen inside and waited for.
void Signal::leave(FollowerSlot &place) noexcept {
  place.follower.store(nullptr, std::memory_order_seq_cst);
  while (place.inside.load(std::memory_order_seq_cst) != 0) os::yield_thread();
}

void Signal::reset() noexcept {
  aborted_.store(0, std::memory_order_release);
  if (const int fd = fd_.load(std::memory_order_acquire);
      fd >= 0 && process_.is(entered_.load(std::memory_order_acquire)))
    os::lower_event(fd);
}

Status CallSignal::refusal(const char *what) const {
  if (signal_->stopped())
    return Status::errorf(ErrorId::stopped_by_progress, "%s: stopped, its progress function said so", what);
  // An abort may have been taken back since it was seen: only a time that is over is one.
  if (signal_->aborted() || deadline_ns() == 0 || loader::monotonic_ns() < deadline_ns())
    return Status::errorf(ErrorId::cancelled, "%s: stopped, its signal was aborted", what);
  return Status::errorf(ErrorId::deadline_exceeded,
                        "%s: stopped, it took longer than the %.3f s that its signal allows", what,
                        static_cast<double>(timeout_ns_) / 1e9);
}

Status CallStop::status(std::string_view what) const noexcept {
  try {
    return signal_.check(String(what).c_str());
  } catch (const std::bad_alloc &) {
    return Status::out_of_memory();
  }
}

int Signal::fd() noexcept {
  bool fresh = false;
  process_.enter(entered_, [&] {
    const int inherited = fd_.load(std::memory_order_relaxed);
    fresh = inherited >= 0 && os::renew_event(inherited);
    if (!fresh) fd_.store(-1, std::memory_order_relaxed);
  });
  int fd = fd_.load(std::memory_order_acquire);
  if (fd < 0) {
    const int made = os::make_event(false);
    if (made < 0) return -1;
    if (fd_.compare_exchange_strong(fd, made, std::memory_order_seq_cst)) {
      fd = made;
      fresh = true;
    } else {
      os::close_event(made);  // another thread was here first
    }
  }
  // Whoever aborted before it could see the descriptor did not raise it.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (fresh && aborted_.load(std::memory_order_seq_cst)) os::raise_event(fd);
  return fd;
}

}  // namespace quarry
