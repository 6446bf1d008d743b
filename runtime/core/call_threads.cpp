// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/call_threads.h"

#include <algorithm>

#include "base/os/thread.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2")  // what every loop of every run goes through
#endif

namespace quarry {
namespace {

// So many workers have a slot of their own; of more, some share one.
constexpr std::uint32_t kMostPlaces = 1024;

// Whose loop runs on this thread, and as which worker.
struct Inside {
  const CallThreads *threads;
  std::uint32_t worker;
};
constinit thread_local Inside t_inside{nullptr, 0};

// A number that has nothing to do with its neighbours'.
constexpr std::uint64_t scatter(std::uint64_t index) noexcept {
  std::uint64_t x = index + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

CallThreads::CallThreads(const qr_thread_pool &callers, ThreadPool &own)
    : callers_(callers),
      table_(callers.parallel_for
                 ? qr_host_threads{sizeof(qr_host_threads), std::max(1u, callers.worker_count), this, parallel_for}
                 : host_threads(own)),
      workers_(callers.parallel_for ? std::min(table_.worker_count, kMostPlaces) : 0) {}

void CallThreads::parallel_for(void *self, std::uint64_t count, std::uint64_t grain, qr_parallel_body body,
                               void *context) {
  static_cast<CallThreads *>(self)->loop(count, grain, body, context);
}

void CallThreads::run_here(std::uint64_t count, std::uint32_t worker, qr_parallel_body body, void *context) noexcept {
  const Inside before = t_inside;
  t_inside = {this, worker};
  body(context, 0, count, worker);
  t_inside = before;
}

void CallThreads::loop(std::uint64_t count, std::uint64_t grain, qr_parallel_body body, void *context) noexcept {
  if (count == 0) return;
  if (t_inside.threads == this) return run_here(count, t_inside.worker, body, context);
  if (fault_.load(std::memory_order_relaxed) != Fault::None) return run_here(count, 0, body, context);
  body_ = body;
  context_ = context;
  count_ = count;
  open_.store(true, std::memory_order_seq_cst);
  callers_.parallel_for(callers_.self, count, grain, enter, this);
  // Whoever comes now either sees the loop closed, or is seen inside.
  open_.store(false, std::memory_order_seq_cst);
  wait_until_left();
  std::uint64_t indices = 0, scattered = 0;
  for (const Worker &worker : workers_) {
    indices += worker.indices.load(std::memory_order_relaxed);
    scattered += worker.scattered.load(std::memory_order_relaxed);
  }
  if (indices - indices_ != count || scattered - scattered_ != scatter(count) - scatter(0))
    tell(Fault::Coverage, indices - indices_, count);
  indices_ = indices;
  scattered_ = scattered;
}

void CallThreads::wait_until_left() noexcept {
  for (const Worker &worker : workers_)
    while (worker.inside.load(std::memory_order_seq_cst) != 0) {
      tell(Fault::StillRunning, 0, 0);
      os::yield_thread();
    }
}

void CallThreads::enter(void *self_, std::uint64_t begin, std::uint64_t end, std::uint32_t number) {
  CallThreads &self = *static_cast<CallThreads *>(self_);
  const std::uint32_t most = self.table_.worker_count;
  if (number >= most) return self.tell(Fault::Worker, number, most);
  Worker &worker = self.workers_[number % self.workers_.size()];
  const std::uint32_t others = worker.inside.fetch_add(1, std::memory_order_seq_cst);
  if (!self.open_.load(std::memory_order_seq_cst)) {
    self.tell(Fault::Late, begin, end);
  } else if (others != 0 && most == self.workers_.size()) {
    self.tell(Fault::SameWorker, number, 0);
  } else if (begin > end || end > self.count_) {
    self.tell(Fault::Range, begin, end);
  } else if (begin < end) {
    const Inside before = t_inside;
    t_inside = {&self, number};
    self.body_(self.context_, begin, end, number);
    t_inside = before;
    worker.indices.fetch_add(end - begin, std::memory_order_relaxed);
    worker.scattered.fetch_add(scatter(end) - scatter(begin), std::memory_order_relaxed);
  }
  worker.inside.fetch_sub(1, std::memory_order_release);
}

void CallThreads::tell(Fault fault, std::uint64_t found, std::uint64_t expected) noexcept {
  Fault none = Fault::None;
  if (!fault_.compare_exchange_strong(none, Fault::Telling, std::memory_order_relaxed)) return;
  found_.store(found, std::memory_order_relaxed);
  expected_.store(expected, std::memory_order_relaxed);
  fault_.store(fault, std::memory_order_release);
}

Status CallThreads::take_fault() {
  const Fault fault = fault_.load(std::memory_order_acquire);
  if (fault == Fault::None || fault == Fault::Telling)
    return {};  // Telling: somebody comes late; the next call says it
  const std::uint64_t found = found_.load(std::memory_order_relaxed),
                      expected = expected_.load(std::memory_order_relaxed);
  String what;
  switch (fault) {
    case Fault::Worker: what = format("called body with worker %llu, expected one under %llu", found, expected); break;
    case Fault::SameWorker:
      what = format("called body twice at a time with worker %llu, expected different workers", found);
      break;
    case Fault::Range:
      what = format("called body for [%llu, %llu), expected a part of [0, count)", found, expected);
      break;
    case Fault::Late:
      what = format("called body for [%llu, %llu) after parallel_for had returned, expected all calls before", found,
                    expected);
      break;
    case Fault::StillRunning: what = "returned while body was still running, expected that all calls had ended"; break;
    default:
      what = found == expected
                 ? format("left out some of %llu indices and gave others twice, expected each once", expected)
                 : format("gave %llu indices to body, expected each of %llu once", found, expected);
  }
  fault_.store(Fault::None, std::memory_order_release);
  return Status::errorf(ErrorId::thread_pool_broken, "the caller's thread pool: parallel_for %s", what);
}

}  // namespace quarry
