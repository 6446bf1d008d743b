// SPDX-License-Identifier: Apache-2.0
// Runs of all sessions of the process, one after the other. The library runs one graph at a time whatever it is asked,
// in no order that it states; here the one of the highest priority is next, of equal ones the first that came.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "backends/common/plugin_support.h"

namespace quarry::htp {

class RunQueue {
 public:
  static RunQueue &of_process() noexcept;

  // Waits for the turn; false: stopped before it came.
  bool enter(std::uint32_t priority, const plugin::StopToken &stop, bool may_stop);
  void leave() noexcept;
  // The turn if nobody has it or waits for it.
  bool try_enter() noexcept;
  // Whether somebody waits who comes before another run of this priority.
  bool is_wanted(std::uint32_t priority) noexcept;

  // The turn, for as long as it lives.
  class Turn {
   public:
    Turn(RunQueue &queue, std::uint32_t priority, const plugin::StopToken &stop, bool may_stop)
        : queue_(queue), has_(queue.enter(priority, stop, may_stop)) {}
    ~Turn() {
      if (has_) queue_.leave();
    }
    Turn(const Turn &) = delete;
    Turn &operator=(const Turn &) = delete;
    bool ok() const noexcept { return has_; }

   private:
    RunQueue &queue_;
    bool has_;
  };

 private:
  struct Waiter {
    std::uint32_t priority;
    bool granted = false;
    std::condition_variable wake = {};
    Waiter *next = nullptr;
  };
  std::mutex mutex_;
  bool busy_ = false;
  Waiter *first_ = nullptr;  // in the order of their turns
};

}  // namespace quarry::htp
