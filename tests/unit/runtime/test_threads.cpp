// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <vector>

#include "runtime/core/threads.h"
#include "tests/support/check.h"

using namespace quarry;

namespace {

Process g_process;

// Counts how often each index was visited and whether two calls ever ran at once under one worker's number.
struct Visits {
  Visits(std::uint64_t count, std::uint32_t workers) : seen(count), inside(workers) {}
  std::vector<std::atomic<int>> seen;
  std::vector<std::atomic<int>> inside;
  std::atomic<bool> wrong{false};
  std::uint64_t smallest = UINT64_MAX;
  static void body(void *self_, std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
    auto &self = *static_cast<Visits *>(self_);
    if (begin >= end || end > self.seen.size() || worker >= self.inside.size() ||
        self.inside[worker].fetch_add(1) != 0) {
      self.wrong = true;
      return;
    }
    for (std::uint64_t i = begin; i < end; ++i) ++self.seen[i];
    --self.inside[worker];
  }
  bool all_once() const {
    for (const auto &count : seen)
      if (count != 1) return false;
    return !wrong;
  }
};

}  // namespace

TEST_CASE("covers every index once") {
  for (const std::uint32_t workers : {1u, 2u, 5u}) {
    ThreadPool pool(PoolSettings{workers, 0, {}}, g_process);
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{1000}})
      for (const std::uint64_t grain :
           {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, std::uint64_t{999}, UINT64_MAX}) {
        Visits visits(count, workers);
        pool.parallel_for(count, grain, Visits::body, &visits);
        CHECK(visits.all_once());
      }
  }
}

TEST_CASE("starts no thread before it is needed") {
  ThreadPool pool(PoolSettings{4, 0, {}}, g_process);
  Visits few(8, 4);
  pool.parallel_for(8, 8, Visits::body, &few);
  CHECK_EQ(pool.started(), 0);
  Visits many(1000, 4);
  pool.parallel_for(1000, 1, Visits::body, &many);
  CHECK_EQ(pool.started(), 3);
}

TEST_CASE("many loops") {
  ThreadPool pool(PoolSettings{3, 0, {}}, g_process);
  std::atomic<std::uint64_t> sum{0};
  for (int i = 0; i < 2000; ++i)
    pool.parallel_for(
        64, 1,
        [](void *total, std::uint64_t begin, std::uint64_t end, std::uint32_t) {
          *static_cast<std::atomic<std::uint64_t> *>(total) += end - begin;
        },
        &sum);
  CHECK_EQ(sum.load(), 2000u * 64u);
}

TEST_CASE("nested loops run on their worker") {
  struct Outer {
    ThreadPool pool{PoolSettings{3, 0, {}}, g_process};
    std::atomic<int> inner{0};
    std::atomic<bool> wrong{false};
  } outer;
  outer.pool.parallel_for(
      12, 1,
      [](void *self_, std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
        auto &self = *static_cast<Outer *>(self_);
        struct Inner {
          Outer &outer;
          std::uint32_t worker;
        } inner{self, worker};
        for (std::uint64_t i = begin; i < end; ++i)
          self.pool.parallel_for(
              10, 1,
              [](void *self2_, std::uint64_t b, std::uint64_t e, std::uint32_t w) {
                auto &self2 = *static_cast<Inner *>(self2_);
                if (w != self2.worker) self2.outer.wrong = true;
                self2.outer.inner += static_cast<int>(e - b);
              },
              &inner);
      },
      &outer);
  CHECK_EQ(outer.inner.load(), 120);
  CHECK(!outer.wrong);
}

TEST_CASE("as the plugin ABI wants it") {
  ThreadPool pool(PoolSettings{2, 0, {}}, g_process);
  const qr_host_threads threads = host_threads(pool);
  CHECK_EQ(threads.worker_count, 2);
  Visits visits(10, 2);
  threads.parallel_for(threads.self, 10, 1, Visits::body, &visits);
  CHECK(visits.all_once());
  CHECK(os::usable_processors() >= 1);
}
