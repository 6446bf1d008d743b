// SPDX-License-Identifier: Apache-2.0
// The threads of sessions: a pool of a session's own, one that several sessions share, or the caller's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/alloc.h"
#include "base/os/thread.h"
#include "base/status.h"
#include "quarry/backend.h"
#include "quarry/runtime.h"
#include "runtime/core/process.h"

namespace quarry {

// A range of processors, both ends included, that one thread may run on.
struct ProcessorRange {
  std::uint32_t first, last;
  friend bool operator==(const ProcessorRange &, const ProcessorRange &) = default;
};

// The text of the option thread_affinity: "1,3" or "0-3,4-7". Processors that there are not, or that the process may
// not use, are errors.
Result<Vector<ProcessorRange>> parse_affinity(std::string_view text);

struct PoolSettings {
  std::uint32_t workers = 0;        // the calling thread included; 0: one per usable processor
  std::uint32_t spin_us = 0;        // how long an idle thread looks for the next loop of a run before it sleeps
  Vector<ProcessorRange> affinity;  // of the threads beside the caller, taken in turn; empty: not pinned
};

// Several callers at a time may run loops; each loop is worked on by its caller and by the pool's threads that are
// free. The threads start at the first loop that is worth sharing. Nobody waits for a thread that has not begun to
// work: where the system refuses threads, has no processor for them, or they are busy with another loop, the caller
// does the work.
// After fork() the pool has no threads in the child and starts new ones there when they are needed.
class ThreadPool : public HeapObject {
 public:
  ThreadPool(PoolSettings settings, Process &process);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  std::uint32_t workers() const noexcept { return workers_; }
  std::uint32_t started() const noexcept { return started_.load(std::memory_order_relaxed); }
  const PoolSettings &settings() const noexcept { return settings_; }

  // Calls body(context, begin, end, worker) so that [0, count) is covered once; each call gets at least `grain` indices
  // where there are that many left. The caller is worker 0, no two calls at a time have the same worker. Called from
  // inside a body it runs there, on that worker.
  void parallel_for(std::uint64_t count, std::uint64_t grain, qr_parallel_body body, void *context) noexcept;

  // Idle threads spin, for as long as the settings allow, only while a run is under way.
  class RunScope {
   public:
    explicit RunScope(ThreadPool *pool) noexcept : pool_(pool) {
      if (!pool_) return;
      pool_->enter_process();
      pool_->runs_.fetch_add(1, std::memory_order_relaxed);
    }
    ~RunScope() {
      if (pool_) pool_->runs_.fetch_sub(1, std::memory_order_relaxed);
    }
    RunScope(const RunScope &) = delete;
    RunScope &operator=(const RunScope &) = delete;

   private:
    ThreadPool *pool_;
  };

 private:
  // A loop under way. `state` counts the threads inside, beside two bits: kOpen while threads may join, kWaiting while
  // the caller sleeps until they have left. 0: the slot is free. The plain members are written by the caller before it
  // sets kOpen, and read by threads that have joined.
  // Each worker has a share of the chunks, the same part of the indices in every loop: what it wrote in the last one is
  // in its own cache. Who has done its share takes from the others'.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> next{0};  // chunk
    std::uint64_t end = 0;
  };
  struct alignas(64) Loop {
    std::atomic<std::uint32_t> state{0};
    qr_parallel_body body = nullptr;
    void *context = nullptr;
    std::uint64_t count = 0, chunk = 1, share_count = 0;
    Vector<Share> shares;  // of the caller, and of each thread beside it
  };
  struct Worker {
    ThreadPool *pool;
    std::uint32_t index;
    os::Thread thread;
  };
  static constexpr std::uint32_t kLoops = 16;  // at a time; a caller that finds no slot works alone
  static constexpr std::uint32_t kTaken = 1u << 29, kWaiting = 1u << 30, kOpen = 1u << 31, kInside = kTaken - 1;

  enum class Start : std::uint8_t { NotTried, UnderWay, Tried };

  static void *enter(void *worker);
  void enter_process() noexcept;
  void begin_anew() noexcept;
  void start() noexcept;
  void serve(std::uint32_t worker) noexcept;
  bool idle() noexcept;
  bool spin_until_open() const noexcept;
  bool help(std::uint32_t place, std::uint32_t worker) noexcept;
  void work(std::uint32_t place, std::uint32_t worker) noexcept;
  void wake(std::uint64_t helpers) noexcept;
  void wait_until_left(Loop &loop) noexcept;

  const PoolSettings settings_;
  const std::uint32_t workers_;
  Process &process_;
  std::atomic<std::uint32_t> entered_;  // the generation of the process that the threads are in
  std::atomic<Start> start_{Start::NotTried};
  std::atomic<std::uint32_t> started_{0};  // threads beside the callers
  Vector<Worker> threads_;

  // A bit for each loop that has chunks left: what idle threads look at.
  alignas(64) std::atomic<std::uint32_t> open_{0};
  alignas(64) std::atomic<std::uint32_t> runs_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  Loop loops_[kLoops];

  std::mutex mutex_;  // of sleeping, waking and starting
  std::condition_variable wake_, left_;
};

// Pools that sessions of a runtime share, by name (the option thread_pool). A pool lives as long as a session uses it.
class SharedPools {
 public:
  explicit SharedPools(Process &process) noexcept : process_(process), mutex_(process) {}
  // The pool of that name; made with the settings where there is none. Fails where it has other settings. Without a
  // name: a new one.
  Result<std::shared_ptr<ThreadPool>> pool_for(std::string_view name, PoolSettings settings);

 private:
  struct Entry {
    String name;
    std::weak_ptr<ThreadPool> pool;
  };
  Process &process_;
  ProcessMutex mutex_;
  Vector<Entry> entries_;
};

// A pool of ours as the plugin ABI wants it.
qr_host_threads host_threads(ThreadPool &pool) noexcept;

}  // namespace quarry
