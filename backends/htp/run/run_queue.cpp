// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/run/run_queue.h"

#include <chrono>
#include <new>

namespace quarry::htp {

RunQueue &RunQueue::of_process() noexcept {
  // Never ended: a thread may still run when the process exits.
  alignas(RunQueue) static unsigned char place[sizeof(RunQueue)];
  static RunQueue *const queue = ::new (place) RunQueue;
  return *queue;
}

bool RunQueue::enter(std::uint32_t priority, const plugin::StopToken &stop, bool may_stop) {
  std::unique_lock lock(mutex_);
  if (!busy_) return busy_ = true;
  Waiter self{priority};
  Waiter **place = &first_;
  while (*place && (*place)->priority >= priority) place = &(*place)->next;
  self.next = *place;
  *place = &self;
  while (!self.granted) {
    if (!may_stop) {
      self.wake.wait(lock);
      continue;
    }
    self.wake.wait_for(lock, std::chrono::milliseconds(1));
    if (self.granted || !stop.stopped()) continue;
    for (place = &first_; *place != &self;) place = &(*place)->next;
    *place = self.next;
    return false;
  }
  return true;
}

bool RunQueue::try_enter() noexcept {
  const std::lock_guard lock(mutex_);
  return !busy_ && (busy_ = true);
}

bool RunQueue::is_wanted(std::uint32_t priority) noexcept {
  const std::lock_guard lock(mutex_);
  return first_ && first_->priority >= priority;
}

void RunQueue::leave() noexcept {
  const std::lock_guard lock(mutex_);
  Waiter *const next = first_;
  if (!next) {
    busy_ = false;
    return;
  }
  first_ = next->next;
  next->granted = true;  // the turn goes over: nobody else gets in between
  next->wake.notify_one();
}

}  // namespace quarry::htp
