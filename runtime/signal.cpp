// SPDX-License-Identifier: Apache-2.0
#include "runtime/signal.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/runtime.h"

namespace quarry {

Signal::Signal(Ref<Runtime> runtime) : runtime_(std::move(runtime)) {}

Signal::~Signal() {
  if (const int fd = fd_.load(std::memory_order_relaxed); fd >= 0) close(fd);
  for (Place *place = places_.load(std::memory_order_relaxed); place;) delete std::exchange(place, place->next);
}

namespace {

void raise(int fd) noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);  // a full counter is readable already
}

}  // namespace

void Signal::abort() noexcept {
  aborted_.store(1, std::memory_order_seq_cst);
  if (const int fd = fd_.load(std::memory_order_seq_cst); fd >= 0) raise(fd);
  for (Place *place = places_.load(std::memory_order_seq_cst); place; place = place->next) {
    place->inside.fetch_add(1, std::memory_order_seq_cst);
    if (SignalFollower *follower = place->follower.load(std::memory_order_seq_cst)) follower->on_abort();
    place->inside.fetch_sub(1, std::memory_order_release);
  }
}

Signal::Place *Signal::follow(SignalFollower &follower) {
  Place *place;
  {
    const std::lock_guard lock(mutex_);
    place = places_.load(std::memory_order_relaxed);
    while (place && place->follower.load(std::memory_order_relaxed)) place = place->next;
    if (place) {
      place->follower.store(&follower, std::memory_order_seq_cst);
    } else {
      place = new Place;
      place->follower.store(&follower, std::memory_order_relaxed);
      place->next = places_.load(std::memory_order_relaxed);
      places_.store(place, std::memory_order_seq_cst);
    }
  }
  // Whoever aborted before it could see the follower did not tell it.
  if (aborted_.load(std::memory_order_seq_cst)) follower.on_abort();
  return place;
}

// An abort() either sees that the follower has left, or is seen inside and waited for.
void Signal::leave(Place &place) noexcept {
  place.follower.store(nullptr, std::memory_order_seq_cst);
  while (place.inside.load(std::memory_order_seq_cst) != 0) sched_yield();
}

void Signal::reset() noexcept {
  const std::lock_guard lock(mutex_);
  aborted_.store(0, std::memory_order_release);
  if (const int fd = fd_.load(std::memory_order_relaxed); fd >= 0) {
    std::uint64_t count;
    [[maybe_unused]] const ssize_t taken = read(fd, &count, sizeof count);
  }
}

int Signal::fd() noexcept {
  const std::lock_guard lock(mutex_);
  int fd = fd_.load(std::memory_order_relaxed);
  if (fd >= 0) return fd;
  fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return -1;
  fd_.store(fd, std::memory_order_seq_cst);
  // Whoever aborted before it could see the descriptor did not raise it.
  if (aborted_.load(std::memory_order_seq_cst)) raise(fd);
  return fd;
}

}  // namespace quarry
