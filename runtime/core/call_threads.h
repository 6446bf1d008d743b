// SPDX-License-Identifier: Apache-2.0
// The threads that a call into a plugin may use: ours, or the caller's, whose contract is checked.
#pragma once

#include "runtime/core/threads.h"

namespace quarry {

// For one call at a time. A pool of the caller's that breaks its contract (qr_thread_pool in runtime.h) does no harm
// to memory: a call of the loop's body that cannot be right is not made, none is left running when the loop ends, and
// from the first fault on the loops run on the calling thread alone.
class CallThreads {
 public:
  CallThreads(const qr_thread_pool &callers, ThreadPool &own);
  CallThreads(const CallThreads &) = delete;
  CallThreads &operator=(const CallThreads &) = delete;

  const qr_host_threads *table() const noexcept { return &table_; }
  bool are_callers() const noexcept { return callers_.parallel_for != nullptr; }
  // After a call: what the caller's pool did wrong since this was asked last.
  Status take_fault();

 private:
  enum class Fault : std::uint32_t { None, Telling, Worker, SameWorker, Range, Late, StillRunning, Coverage };
  // What the calls of one worker have covered in all loops so far. To know that each index was in exactly one range it
  // is enough to add up, over all ranges, scatter(end) - scatter(begin): neighbours cancel.
  struct alignas(64) Worker {
    std::atomic<std::uint32_t> inside{0};
    std::atomic<std::uint64_t> indices{0}, scattered{0};
  };

  static void parallel_for(void *self, std::uint64_t count, std::uint64_t grain, qr_parallel_body body, void *context);
  static void enter(void *self, std::uint64_t begin, std::uint64_t end, std::uint32_t worker);
  void loop(std::uint64_t count, std::uint64_t grain, qr_parallel_body body, void *context) noexcept;
  void run_here(std::uint64_t count, std::uint32_t worker, qr_parallel_body body, void *context) noexcept;
  void wait_until_left() noexcept;
  void tell(Fault fault, std::uint64_t found, std::uint64_t expected) noexcept;

  const qr_thread_pool callers_;
  qr_host_threads table_;
  // The loop under way. The plain members are written before it opens.
  std::atomic<bool> open_{false};
  qr_parallel_body body_ = nullptr;
  void *context_ = nullptr;
  std::uint64_t count_ = 0;
  std::uint64_t indices_ = 0, scattered_ = 0;  // what the workers' add up to
  Vector<Worker> workers_;                     // none where the threads are ours

  std::atomic<Fault> fault_{Fault::None};  // the first since it was taken
  std::atomic<std::uint64_t> found_{0}, expected_{0};
};

}  // namespace quarry
