// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/threads.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "base/clock.h"
#include "base/text.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2")  // the library is built for size; what every run goes through is built for speed
#endif

namespace quarry {
namespace {

// The pool and worker whose body runs on this thread.
struct Inside {
  ThreadPool *pool;
  std::uint32_t worker;
};
constinit thread_local Inside t_inside{nullptr, 0};

// Several chunks per worker, so that one that is held up does not hold up all.
constexpr std::uint64_t kChunksPerWorker = 8;

inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` does nothing on most cores
#endif
}

// Looks until `done` says so or the time is over; whether it was done. Between looks the processor is not offered to
// others: on a busy machine a thread that yields comes last, while one that soon sleeps is woken first.
template <class Done>
bool spin(std::uint64_t limit_ns, Done &&done) noexcept {
  constexpr int kLooksPerClock = 16;
  const std::uint64_t begin = now_ns();
  for (;;) {
    for (int look = 0; look < kLooksPerClock; ++look) {
      if (done()) return true;
      pause();
    }
    if (now_ns() - begin >= limit_ns) return false;
  }
}

os::ProcessorSet set_of(ProcessorRange range) noexcept {
  os::ProcessorSet set;
  for (std::uint32_t i = range.first; i <= range.last && i < os::kMostProcessors; ++i) set[i] = true;
  return set;
}

}  // namespace

Result<Vector<ProcessorRange>> parse_affinity(std::string_view text) {
  Vector<ProcessorRange> ranges;
  const auto bad = [&](std::string_view item, const char *expected) {
    return Status::errorf(ErrorId::bad_option_value, "option thread_affinity: found \"%s\", expected %s",
                          printable(item), expected)
        .with("option", "thread_affinity");
  };
  const os::ProcessorSet usable = os::usable_processor_set();
  const bool known = usable.any();
  for (std::size_t at = 0; !text.empty() && at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, end - at);
    ProcessorRange range{};
    auto [rest, error] = std::from_chars(item.data(), item.data() + item.size(), range.first);
    range.last = range.first;
    if (error == std::errc() && rest != item.data() + item.size() && *rest == '-') {
      const auto second = std::from_chars(rest + 1, item.data() + item.size(), range.last);
      rest = second.ptr, error = second.ec;
    }
    if (error != std::errc() || rest != item.data() + item.size() || range.last < range.first)
      return bad(item, "processors with commas between, each a number or a range like 0-3");
    if (range.last >= os::kMostProcessors) return bad(item, format("processors under %u", os::kMostProcessors).c_str());
    for (std::uint32_t processor = range.first; known && processor <= range.last; ++processor)
      if (!usable[processor]) return bad(item, "processors that this process may use");
    ranges.push_back(range);
    at = end + 1;
  }
  return ranges;
}

// ---- the pool's threads -------------------------------------------------------------------------

ThreadPool::ThreadPool(PoolSettings settings, Process &process)
    : settings_(std::move(settings)),
      workers_(settings_.workers ? settings_.workers : os::usable_processors()),
      process_(process),
      entered_(process.generation()) {}

ThreadPool::~ThreadPool() {
  enter_process();
  {
    std::lock_guard lock(mutex_);
    stop_.store(true, std::memory_order_seq_cst);
  }
  wake_.notify_all();
  for (std::uint32_t i = 0; i < started(); ++i) os::join_thread(threads_[i].thread);
}

void ThreadPool::enter_process() noexcept {
  process_.enter(entered_, [this] { begin_anew(); });
}

// In a child of fork(): the threads are not there, and what they and their callers were doing will not be ended by
// anybody. Locks and condition variables that they held or waited on can be neither freed nor used: they are made anew
// where they are.
void ThreadPool::begin_anew() noexcept {
  ::new (&mutex_) std::mutex;
  ::new (&wake_) std::condition_variable;
  ::new (&left_) std::condition_variable;
  open_.store(0, std::memory_order_relaxed);
  runs_.store(0, std::memory_order_relaxed);
  sleepers_.store(0, std::memory_order_relaxed);
  started_.store(0, std::memory_order_relaxed);
  const bool half_made = start_.load(std::memory_order_relaxed) == Start::UnderWay;
  for (Loop &loop : loops_) {
    loop.state.store(0, std::memory_order_relaxed);
    if (half_made) ::new (&loop.shares) Vector<Share>;  // what they held is lost
  }
  if (half_made) ::new (&threads_) Vector<Worker>;
  start_.store(Start::NotTried, std::memory_order_relaxed);
}

void ThreadPool::start() noexcept {
  std::lock_guard lock(mutex_);
  if (start_.load(std::memory_order_relaxed) == Start::Tried) return;
  start_.store(Start::UnderWay, std::memory_order_relaxed);
  std::uint32_t started = 0;
  try {
    for (Loop &loop : loops_) loop.shares = Vector<Share>(workers_);
    threads_.resize(workers_ - 1);
    for (Worker &worker : threads_) {
      worker.pool = this;
      worker.index = started + 1;
      if (!os::start_thread(&worker.thread, "quarry-worker", enter, &worker)) break;
      if (!settings_.affinity.empty())
        os::pin_thread(worker.thread, set_of(settings_.affinity[started % settings_.affinity.size()]));
      ++started;
    }
  } catch (const std::bad_alloc &) {
    // The callers do all the work.
  }
  started_.store(started, std::memory_order_relaxed);
  start_.store(Start::Tried, std::memory_order_release);
}

void *ThreadPool::enter(void *argument) {
  const Worker &self = *static_cast<Worker *>(argument);
  self.pool->serve(self.index);
  return nullptr;
}

void ThreadPool::serve(std::uint32_t worker) noexcept {
  do {
    // Threads begin their search at different loops, so that they spread over them.
    while (const std::uint32_t open = open_.load(std::memory_order_acquire)) {
      const int turn = static_cast<int>(worker % kLoops);
      const std::uint32_t turned = (open >> turn | open << (kLoops - turn)) & ((1u << kLoops) - 1);
      const std::uint32_t place = (static_cast<std::uint32_t>(std::countr_zero(turned)) + worker) % kLoops;
      if (!help(place, worker)) pause();  // its caller is about to close it
    }
  } while (idle());
}

// Spins, then sleeps, until there is a loop; false: the pool ends.
bool ThreadPool::idle() noexcept {
  if (settings_.spin_us > 0 && spin_until_open()) return !stop_.load(std::memory_order_relaxed);
  std::unique_lock lock(mutex_);
  // A caller opens its loop and then looks for sleepers; here it is the other way round. In the one order of both, one
  // sees the other.
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  wake_.wait(lock, [&] { return open_.load(std::memory_order_seq_cst) != 0 || stop_.load(std::memory_order_relaxed); });
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return !stop_.load(std::memory_order_relaxed);
}

bool ThreadPool::spin_until_open() const noexcept {
  bool found = false;
  spin(std::uint64_t{settings_.spin_us} * 1000, [&] {
    found = open_.load(std::memory_order_relaxed) != 0;
    return found || runs_.load(std::memory_order_relaxed) == 0 || stop_.load(std::memory_order_relaxed);
  });
  return found;
}

// ---- a loop -------------------------------------------------------------------------------------

bool ThreadPool::help(std::uint32_t place, std::uint32_t worker) noexcept {
  Loop &loop = loops_[place];
  std::uint32_t state = loop.state.load(std::memory_order_relaxed);
  do {
    if (!(state & kOpen)) return false;
  } while (!loop.state.compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed));
  work(place, worker);
  const std::uint32_t before = loop.state.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & kInside) == 1 && (before & kWaiting)) {
    std::lock_guard lock(mutex_);  // the caller sleeps, or is on its way and holds the lock
    left_.notify_all();
  }
  return true;
}

void ThreadPool::work(std::uint32_t place, std::uint32_t worker) noexcept {
  Loop &loop = loops_[place];
  const Inside before = t_inside;
  t_inside = {this, worker};
  const std::uint64_t chunk = loop.chunk, count = loop.count;
  const std::uint64_t shares = loop.share_count;
  for (std::uint64_t i = 0; i < shares; ++i) {
    Share &share = loop.shares[(worker + i) % shares];
    while (share.next.load(std::memory_order_relaxed) < share.end) {
      const std::uint64_t mine = share.next.fetch_add(1, std::memory_order_relaxed);
      if (mine >= share.end) break;
      const std::uint64_t begin = mine * chunk;
      loop.body(loop.context, begin, chunk < count - begin ? begin + chunk : count, worker);
    }
  }
  open_.fetch_and(~(1u << place), std::memory_order_relaxed);  // nobody need look here any more
  t_inside = before;
}

void ThreadPool::wake(std::uint64_t helpers) noexcept {
  const std::uint32_t sleepers = sleepers_.load(std::memory_order_seq_cst);
  if (sleepers == 0) return;
  {
    std::lock_guard lock(mutex_);  // a thread between its look and its sleep holds it
  }
  if (helpers >= sleepers) return wake_.notify_all();
  for (std::uint64_t i = 0; i < helpers; ++i) wake_.notify_one();
}

void ThreadPool::wait_until_left(Loop &loop) noexcept {
  const auto empty = [&] { return (loop.state.load(std::memory_order_acquire) & kInside) == 0; };
  if (empty() || (settings_.spin_us > 0 && spin(std::uint64_t{settings_.spin_us} * 1000, empty))) return;
  std::unique_lock lock(mutex_);
  if ((loop.state.fetch_or(kWaiting, std::memory_order_acq_rel) & kInside) == 0) return;
  left_.wait(lock, empty);
}

void ThreadPool::parallel_for(std::uint64_t count, std::uint64_t grain, qr_parallel_body body, void *context) noexcept {
  if (count == 0) return;
  if (grain == 0) grain = 1;
  if (t_inside.pool == this || workers_ == 1 || count <= grain)
    return body(context, 0, count, t_inside.pool == this ? t_inside.worker : 0);
  enter_process();
  if (start_.load(std::memory_order_acquire) != Start::Tried) start();

  const std::uint32_t helpers = started();
  const std::uint64_t chunk = std::max(grain, count / (std::uint64_t{helpers + 1} * kChunksPerWorker));
  std::uint32_t place = helpers == 0 ? kLoops : 0;
  for (; place < kLoops; ++place) {
    std::uint32_t free = 0;
    if (loops_[place].state.load(std::memory_order_relaxed) == 0 &&
        loops_[place].state.compare_exchange_strong(free, kTaken, std::memory_order_acquire, std::memory_order_relaxed))
      break;
  }
  if (place == kLoops) {  // alone, in one piece
    const Inside before = t_inside;
    t_inside = {this, 0};
    body(context, 0, count, 0);
    t_inside = before;
    return;
  }
  Loop &loop = loops_[place];
  loop.body = body;
  loop.context = context;
  loop.count = count;
  loop.chunk = chunk;
  const std::uint64_t chunks = count / chunk + (count % chunk != 0),
                      shares = std::min<std::uint64_t>(chunks, loop.shares.size());
  loop.share_count = shares;
  for (std::uint64_t i = 0; i < shares; ++i) {
    loop.shares[i].next.store(chunks / shares * i + std::min(i, chunks % shares), std::memory_order_relaxed);
    loop.shares[i].end = chunks / shares * (i + 1) + std::min(i + 1, chunks % shares);
  }
  loop.state.store(kTaken | kOpen, std::memory_order_release);
  open_.fetch_or(1u << place, std::memory_order_seq_cst);
  wake(std::min<std::uint64_t>(chunks - 1, helpers));
  work(place, 0);
  loop.state.fetch_and(~kOpen, std::memory_order_relaxed);
  wait_until_left(loop);
  loop.state.store(0, std::memory_order_release);
}

// ---- pools of several sessions ------------------------------------------------------------------

Result<std::shared_ptr<ThreadPool>> SharedPools::pool_for(std::string_view name, PoolSettings settings) {
  if (name.empty()) return quarry::make_shared<ThreadPool>(std::move(settings), process_);
  const ProcessLock lock(mutex_);
  QR_RETURN_IF_ERROR(lock.status("the runtime's pools of threads"));
  std::erase_if(entries_, [](const Entry &entry) { return entry.pool.expired(); });
  if (settings.workers == 0) settings.workers = os::usable_processors();
  for (const Entry &entry : entries_) {
    if (entry.name != name) continue;
    std::shared_ptr<ThreadPool> pool = entry.pool.lock();
    if (!pool) continue;
    const PoolSettings &has = pool->settings();
    if (has.workers == settings.workers && has.spin_us == settings.spin_us && has.affinity == settings.affinity)
      return pool;
    return Status::hinted(ErrorId::option_conflict,
                          "give all sessions of a pool the same threads, thread_spin_us and thread_affinity",
                          "option thread_pool: the pool %s was made by a session with %u threads, thread_spin_us "
                          "%u and %zu entries "
                          "of thread_affinity, found %u, %u and %zu, or other processors",
                          printable(name).c_str(), has.workers, has.spin_us, has.affinity.size(), settings.workers,
                          settings.spin_us, settings.affinity.size())
        .with("option", "thread_pool");
  }
  auto pool = quarry::make_shared<ThreadPool>(std::move(settings), process_);
  entries_.push_back({String(name), pool});
  return pool;
}

qr_host_threads host_threads(ThreadPool &pool) noexcept {
  return {sizeof(qr_host_threads), pool.workers(), &pool,
          [](void *self, std::uint64_t count, std::uint64_t grain, qr_parallel_body body, void *context) {
            static_cast<ThreadPool *>(self)->parallel_for(count, grain, body, context);
          }};
}

}  // namespace quarry
