// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads.h"

#include <sched.h>
#include <signal.h>

#include <algorithm>

namespace quarry {
namespace {

// The pool and worker whose body runs on this thread.
struct Inside {
  ThreadPool *pool;
  std::uint32_t worker;
};
constinit thread_local Inside t_inside{nullptr, 0};

// Several chunks per worker, so that one that is held up does not hold up all.
constexpr std::uint64_t kChunksPerWorker = 4;

}  // namespace

std::uint32_t usable_processors() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<std::uint32_t>(std::max(1, CPU_COUNT(&set)));
  const long online = sysconf(_SC_NPROCESSORS_ONLN);  // more processors than cpu_set_t has bits
  return online > 0 ? static_cast<std::uint32_t>(online) : 1;
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::uint32_t i = 0; i < started_; ++i) pthread_join(threads_[i].thread, nullptr);
}

void ThreadPool::start() noexcept {
  start_tried_ = true;
  try {
    threads_.resize(workers_ - 1);
  } catch (const std::bad_alloc &) {
    return;  // the caller does all the work
  }
  // Signals are the application's: its own threads take them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (Worker &worker : threads_) {
    worker.pool = this;
    worker.index = started_ + 1;
    if (pthread_create(&worker.thread, nullptr, enter, &worker) != 0) break;
    pthread_setname_np(worker.thread, "quarry-worker");
    ++started_;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void *ThreadPool::enter(void *argument) {
  const Worker &self = *static_cast<Worker *>(argument);
  ThreadPool &pool = *self.pool;
  const std::uint32_t index = self.index;
  std::uint64_t seen = 0;
  std::unique_lock lock(pool.mutex_);
  for (;;) {
    pool.wake_.wait(lock, [&] { return pool.stop_ || pool.round_ != seen; });
    if (pool.stop_) return nullptr;
    seen = pool.round_;
    lock.unlock();
    pool.work(index);
    lock.lock();
    if (--pool.busy_ == 0) pool.done_.notify_one();
  }
}

void ThreadPool::work(std::uint32_t worker) noexcept {
  const Inside before = t_inside;
  t_inside = {this, worker};
  for (;;) {
    const std::uint64_t begin = next_.fetch_add(chunk_, std::memory_order_relaxed);
    if (begin >= count_) break;
    body_(context_, begin, chunk_ < count_ - begin ? begin + chunk_ : count_, worker);
  }
  t_inside = before;
}

void ThreadPool::parallel_for(std::uint64_t count, std::uint64_t grain, qr_parallel_body body, void *context) noexcept {
  if (count == 0) return;
  if (grain == 0) grain = 1;
  if (t_inside.pool == this || workers_ == 1 || count <= grain) {
    body(context, 0, count, t_inside.pool == this ? t_inside.worker : 0);
    return;
  }
  if (!start_tried_) start();
  const std::uint64_t share = count / (static_cast<std::uint64_t>(started_ + 1) * kChunksPerWorker);
  {
    std::lock_guard lock(mutex_);
    body_ = body;
    context_ = context;
    count_ = count;
    chunk_ = std::max(grain, share);
    next_.store(0, std::memory_order_relaxed);
    busy_ = started_;
    ++round_;
  }
  if (started_ > 0) wake_.notify_all();
  work(0);
  if (started_ == 0) return;
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return busy_ == 0; });
}

qr_host_threads host_threads(const qr_thread_pool &callers, ThreadPool &own) noexcept {
  if (callers.parallel_for) return {sizeof(qr_host_threads), std::max(1u, callers.worker_count), callers.self, callers.parallel_for};
  return {sizeof(qr_host_threads), own.workers(), &own,
          [](void *self, std::uint64_t count, std::uint64_t grain, qr_parallel_body body, void *context) {
            static_cast<ThreadPool *>(self)->parallel_for(count, grain, body, context);
          }};
}

}  // namespace quarry
