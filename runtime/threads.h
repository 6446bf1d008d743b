// SPDX-License-Identifier: Apache-2.0
// The threads of a session: its own pool, or the caller's.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/alloc.h"
#include "quarry/backend.h"
#include "quarry/runtime.h"

namespace quarry {

// The processors that this process may use.
std::uint32_t usable_processors() noexcept;

// A pool for one caller at a time. Its threads start at the first loop that is worth sharing; the caller is worker 0. Where the system
// refuses a thread the others do its work.
class ThreadPool : public HeapObject {
 public:
  explicit ThreadPool(std::uint32_t workers) noexcept : workers_(workers ? workers : 1) {}
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  std::uint32_t workers() const noexcept { return workers_; }
  std::uint32_t started() const noexcept { return started_; }

  // Calls body(context, begin, end, worker) so that [0, count) is covered once; each call gets at least `grain` indices where there are
  // that many left. Called from inside a body it runs there, on that worker.
  void parallel_for(std::uint64_t count, std::uint64_t grain, qr_parallel_body body, void *context) noexcept;

 private:
  struct Worker {
    ThreadPool *pool;
    std::uint32_t index;
    pthread_t thread;
  };
  static void *enter(void *worker);
  void start() noexcept;
  void work(std::uint32_t worker) noexcept;

  const std::uint32_t workers_;
  std::uint32_t started_ = 0;  // threads beside the caller
  bool start_tried_ = false;
  Vector<Worker> threads_;

  // The loop under way.
  qr_parallel_body body_ = nullptr;
  void *context_ = nullptr;
  std::uint64_t count_ = 0, chunk_ = 1;
  std::atomic<std::uint64_t> next_{0};

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::uint64_t round_ = 0;    // number of the loop under way
  std::uint32_t busy_ = 0;     // threads still in it
  bool stop_ = false;
};

// Threads for a call into a plugin: the caller's pool if there is one, else our own.
qr_host_threads host_threads(const qr_thread_pool &callers, ThreadPool &own) noexcept;

}  // namespace quarry
