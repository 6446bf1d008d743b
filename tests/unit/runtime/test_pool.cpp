// SPDX-License-Identifier: Apache-2.0
// Pools with several callers, spinning, affinity and names; test_threads.cpp has the single loop.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "runtime/core/threads.h"
#include "tests/support/check.h"

using namespace quarry;

namespace {

using Clock = std::chrono::steady_clock;

Process g_process;

// A loop that checks its own coverage, and that no worker's number is used twice at a time.
struct Loop {
  explicit Loop(std::uint32_t workers) : inside(workers) {}
  std::vector<std::atomic<int>> inside;
  std::atomic<std::uint64_t> covered{0};
  std::atomic<bool> wrong{false};
  static void body(void *self_, std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
    auto &self = *static_cast<Loop *>(self_);
    if (worker >= self.inside.size() || self.inside[worker].fetch_add(1) != 0) self.wrong = true;
    for (std::uint64_t i = begin; i < end; ++i) self.covered.fetch_add(i + 1, std::memory_order_relaxed);
    self.inside[worker].fetch_sub(1);
  }
};

std::vector<std::uint32_t> usable() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<std::uint32_t> out;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return out;
  for (std::uint32_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) out.push_back(i);
  return out;
}

}  // namespace

TEST_CASE("several callers share a pool") {
  for (const std::uint32_t workers : {2u, 4u})
    for (const std::uint32_t spin_us : {0u, 30u}) {
      ThreadPool pool(PoolSettings{workers, spin_us, {}}, g_process);
      std::atomic<int> failures{0};
      std::vector<std::thread> callers;
      for (int c = 0; c < 20; ++c)  // more than there are places for loops
        callers.emplace_back([&] {
          const ThreadPool::RunScope scope(&pool);
          for (std::uint64_t count = 1; count <= 200; ++count) {
            Loop loop(workers);
            pool.parallel_for(count, 1, Loop::body, &loop);
            if (loop.covered != count * (count + 1) / 2 || loop.wrong) ++failures;
          }
        });
      for (std::thread &caller : callers) caller.join();
      CHECK_EQ(failures.load(), 0);
      CHECK_EQ(pool.started(), workers - 1);
    }
}

TEST_CASE("pools of every size end at any moment") {
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool(PoolSettings{1 + static_cast<std::uint32_t>(i % 6), static_cast<std::uint32_t>(i % 3) * 20, {}},
                    g_process);
    Loop loop(pool.workers());
    const ThreadPool::RunScope scope(i % 2 ? &pool : nullptr);
    pool.parallel_for(64, 1, Loop::body, &loop);
    CHECK_EQ(loop.covered.load(), 64u * 65u / 2);
  }
  const ThreadPool unused(PoolSettings{8, 50, {}}, g_process);
  CHECK_EQ(unused.started(), 0);
}

// Waits until every thread of a pool works on the same loop.
TEST_CASE("all threads take part") {
  ThreadPool pool(PoolSettings{3, 0, {}}, g_process);
  struct Meeting {
    std::atomic<int> here{0};
  } meeting;
  pool.parallel_for(
      3, 1,
      [](void *self, std::uint64_t, std::uint64_t, std::uint32_t) {
        auto &all = static_cast<Meeting *>(self)->here;
        ++all;
        for (const auto limit = Clock::now() + std::chrono::seconds(20); all < 3 && Clock::now() < limit;)
          std::this_thread::yield();
      },
      &meeting);
  CHECK_EQ(meeting.here.load(), 3);
}

// Each begins with its own part of the indices, and what is left of a part whose thread is held up is done by the
// others.
TEST_CASE("workers have shares and take from others") {
  ThreadPool pool(PoolSettings{2, 0, {}}, g_process);
  struct Seen {
    std::atomic<std::uint64_t> first[2] = {~std::uint64_t{0}, ~std::uint64_t{0}};
    std::atomic<std::uint64_t> done{0};
    std::atomic<int> here{0};
  } seen;
  pool.parallel_for(
      16, 1,
      [](void *self_, std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
        auto &self = *static_cast<Seen *>(self_);
        if (std::uint64_t none = ~std::uint64_t{0}; self.first[worker].compare_exchange_strong(none, begin)) {
          ++self.here;
          // The second thread is held up in its first chunk until all others are done.
          for (const auto limit = Clock::now() + std::chrono::seconds(20);
               (self.here < 2 || (worker == 1 && self.done < 15)) && Clock::now() < limit;)
            std::this_thread::yield();
        }
        self.done += end - begin;
      },
      &seen);
  CHECK_EQ(seen.first[0].load(), 0u);
  CHECK_EQ(seen.first[1].load(), 8u);
  CHECK_EQ(seen.done.load(), 16u);
}

TEST_CASE("affinity text") {
  const std::vector<std::uint32_t> processors = usable();
  REQUIRE(!processors.empty());
  const std::string first = std::to_string(processors[0]), last = std::to_string(processors.back());
  CHECK(parse_affinity("")->empty());
  auto one = parse_affinity(first + "," + last);
  REQUIRE_OK(one);
  CHECK_EQ(one->size(), 2);
  CHECK((*one)[1] == (ProcessorRange{processors.back(), processors.back()}));
  auto range = parse_affinity(first + "-" + first);
  REQUIRE_OK(range);
  CHECK((*range)[0] == (ProcessorRange{processors[0], processors[0]}));
  for (const char *bad : {",", "1,", "a", "-", "1-", "3-1", "0-0x", " 0", "99999", "1000", "0--1"})
    CHECK_EQ(parse_affinity(bad).status().id(), "QR-C0102");
}

TEST_CASE("threads stay on their processors") {
  const std::vector<std::uint32_t> processors = usable();
  REQUIRE(!processors.empty());
  const std::uint32_t wanted = processors.back();
  ThreadPool pool(PoolSettings{3, 0, {{wanted, wanted}}}, g_process);
  struct Seen {
    std::uint32_t wanted;
    std::atomic<int> helpers{0}, elsewhere{0}, here{0};
  } seen{wanted, {}, {}, {}};
  pool.parallel_for(
      3, 1,
      [](void *self_, std::uint64_t, std::uint64_t, std::uint32_t worker) {
        auto &self = *static_cast<Seen *>(self_);
        if (worker > 0) {
          cpu_set_t set;
          CPU_ZERO(&set);
          // The pool pins a thread right after starting it: it may be here before.
          for (const auto limit = Clock::now() + std::chrono::seconds(20); Clock::now() < limit;
               std::this_thread::yield())
            if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1) break;
          ++self.helpers;
          if (CPU_COUNT(&set) != 1 || !CPU_ISSET(self.wanted, &set)) ++self.elsewhere;
        }
        ++self.here;
        for (const auto limit = Clock::now() + std::chrono::seconds(20); self.here < 3 && Clock::now() < limit;)
          std::this_thread::yield();
      },
      &seen);
  CHECK_EQ(seen.helpers.load(), 2);
  CHECK_EQ(seen.elsewhere.load(), 0);
  cpu_set_t set;
  CPU_ZERO(&set);
  // The caller's own is untouched.
  CHECK((sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == static_cast<int>(processors.size())));
}

TEST_CASE("named pools") {
  SharedPools pools(g_process);
  auto a = pools.pool_for("a", PoolSettings{2, 10, {}}), again = pools.pool_for("a", PoolSettings{2, 10, {}});
  auto b = pools.pool_for("b", PoolSettings{3, 0, {}}), none = pools.pool_for("", PoolSettings{2, 10, {}});
  REQUIRE_OK(a);
  REQUIRE_OK(again);
  REQUIRE_OK(b);
  REQUIRE_OK(none);
  CHECK(a.value() == again.value());
  CHECK((a.value() != b.value() && a.value() != none.value()));
  for (const PoolSettings &other : {PoolSettings{3, 10, {}}, PoolSettings{2, 11, {}}, PoolSettings{2, 10, {{0, 0}}}}) {
    CHECK_EQ(pools.pool_for("a", other).status().id(), "QR-C0103");
  }
  a.value().reset();
  again.value().reset();
  auto fresh = pools.pool_for("a", PoolSettings{5, 0, {}});  // nobody used it any more
  REQUIRE_OK(fresh);
  CHECK_EQ(fresh.value()->workers(), 5);
}
