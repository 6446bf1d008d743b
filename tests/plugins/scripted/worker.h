// SPDX-License-Identifier: Apache-2.0
// submit and wait of the scripted backend: a thread of an execution's own that runs what was submitted, in order.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "backends/common/plugin_support.h"

namespace quarry::scripted {

class Worker {
 public:
  using Run = Status (*)(qr_execution &, const qr_run_request &);
  Worker(qr_execution &execution, Run run, Allocator &allocator, std::uint64_t depth)
      : execution_(execution), run_(run), allocator_(allocator), places_(depth) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  Result<std::uint64_t> submit(const qr_run_request &request) {
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

  Status wait(std::uint64_t ticket) {
    std::unique_lock lock(mutex_);
    if (ticket != waited_ + 1) return Status::error(ErrorId::internal, "wait: found another ticket than the oldest");
    changed_.wait(lock, [&] { return ended_ >= ticket; });
    ++waited_;
    return std::move(places_[(ticket - 1) % places_.size()].status);
  }

 private:
  struct Place {
    const qr_run_request *request = nullptr;
    Status status;
  };
  void serve() {
    AllocatorScope scope(allocator_);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || ended_ < submitted_; });
      if (stop_) return;
      Place &place = places_[ended_ % places_.size()];
      lock.unlock();
      Status status = run_(execution_, *place.request);
      lock.lock();
      place.status = std::move(status);
      ++ended_;
      changed_.notify_all();
    }
  }

  qr_execution &execution_;
  const Run run_;
  Allocator &allocator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;  // from the first submission on
  bool stop_ = false;
  std::uint64_t submitted_ = 0, ended_ = 0, waited_ = 0;
  Vector<Place> places_;
};

}  // namespace quarry::scripted
