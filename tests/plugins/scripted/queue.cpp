// SPDX-License-Identifier: Apache-2.0
#include "tests/plugins/scripted/queue.h"

#include <unistd.h>

#include <new>

#include "tests/plugins/scripted/objects.h"

namespace quarry::scripted {

using plugin::guard;

RunQueue::~RunQueue() {
  // In a child of fork() the thread is not there, and what it sleeps on would wait for it: it is made anew.
  if (process_ != getpid()) {
    if (thread_.joinable()) thread_.detach();
    ::new (&changed_) std::condition_variable;
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<std::uint64_t> RunQueue::submit(const qr_run_request &request) {
  {
    const std::lock_guard lock(mutex_);
    if (submitted_ - waited_ >= places_.size())
      return Status::error(ErrorId::internal, "submit: found more runs under way than queue_depth");
    places_[submitted_ % places_.size()].request = &request;
    ++submitted_;
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  changed_.notify_all();
  return std::uint64_t{submitted_};
}

Status RunQueue::wait(std::uint64_t ticket) {
  std::unique_lock lock(mutex_);
  if (ticket != waited_ + 1) return Status::error(ErrorId::internal, "wait: found another ticket than the oldest");
  changed_.wait(lock, [&] { return ended_ >= ticket; });
  ++waited_;
  return std::move(places_[(ticket - 1) % places_.size()].status);
}

void RunQueue::serve() {
  AllocatorScope scope(allocator_);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || ended_ < submitted_; });
    if (stop_) return;
    RunSlot &place = places_[ended_ % places_.size()];
    lock.unlock();
    Status status = run_(execution_, *place.request);
    lock.lock();
    place.status = std::move(status);
    ++ended_;
    changed_.notify_all();
  }
}

qr_plugin_code execution_submit(qr_execution *execution, const qr_run_request *request, std::uint64_t *out_ticket,
                                const qr_error_sink *errors) {
  return guard(execution->context->backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(*out_ticket, execution->queue->submit(*request));
    return {};
  });
}

qr_plugin_code execution_wait(qr_execution *execution, std::uint64_t ticket, const qr_error_sink *errors) {
  return guard(execution->context->backend->allocator, errors, [&] { return execution->queue->wait(ticket); });
}

}  // namespace quarry::scripted
