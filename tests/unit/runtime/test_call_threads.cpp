// SPDX-License-Identifier: Apache-2.0
// Pools of a caller's that break their contract with threads of their own; tests/capi/test_pools.c has the rest.
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "runtime/core/call_threads.h"
#include "tests/support/check.h"

using namespace quarry;

namespace {

Process g_process;

// A pool whose parallel_for is what a test says.
struct Callers {
  template <class Loop>
  explicit Callers(Loop loop) : own(PoolSettings{1, 0, {}}, g_process) {
    functions.worker_count = 4;
    functions.self = this;
    functions.parallel_for = [](void *self, std::uint64_t count, std::uint64_t, qr_parallel_body body, void *context) {
      static_cast<Callers *>(self)->loop_(count, body, context);
    };
    loop_ = loop;
  }
  ThreadPool own;
  qr_thread_pool functions = QR_THREAD_POOL_INIT;
  std::function<void(std::uint64_t, qr_parallel_body, void *)> loop_;
};

// A loop of eight indices; `inside` counts the calls of the body that are under way.
struct Loop {
  std::array<std::atomic<int>, 8> seen{};
  std::atomic<int> inside{0};
  std::atomic<bool> hold{false};
  bool once() const {
    for (const auto &count : seen)
      if (count != 1) return false;
    return true;
  }
  static void body(void *self_, std::uint64_t begin, std::uint64_t end, std::uint32_t) {
    auto &self = *static_cast<Loop *>(self_);
    ++self.inside;
    while (self.hold) std::this_thread::yield();
    for (std::uint64_t i = begin; i < end; ++i) ++self.seen[i];
    --self.inside;
  }
};

void run(const CallThreads &threads, Loop &loop) {
  threads.table()->parallel_for(threads.table()->self, loop.seen.size(), 1, Loop::body, &loop);
}

}  // namespace

TEST_CASE("a good pool") {
  Callers callers([](std::uint64_t count, qr_parallel_body body, void *context) {
    std::thread second([&] { body(context, count / 2, count, 3); });
    body(context, 0, 1, 2);
    body(context, 1, 1, 2);  // nothing
    body(context, 1, count / 2, 2);
    second.join();
  });
  CallThreads threads(callers.functions, callers.own);
  CHECK(threads.are_callers());
  for (int i = 0; i < 100; ++i) {
    Loop loop;
    run(threads, loop);
    CHECK(loop.once());
    CHECK_OK(threads.take_fault());
  }
}

TEST_CASE("no pool of the callers") {
  ThreadPool own(PoolSettings{3, 0, {}}, g_process);
  CallThreads threads(QR_THREAD_POOL_INIT, own);
  CHECK(!threads.are_callers());
  CHECK_EQ(threads.table()->worker_count, 3);
  Loop loop;
  run(threads, loop);
  CHECK(loop.once());
  CHECK_OK(threads.take_fault());
}

TEST_CASE("a loop within a loop stays on its worker") {
  Callers callers([](std::uint64_t count, qr_parallel_body body, void *context) {
    std::thread second([&] { body(context, 1, count, 1); });
    body(context, 0, 1, 0);
    second.join();
  });
  struct Outer {
    CallThreads threads;
    std::atomic<int> calls{0}, wrong{0};
  } outer{CallThreads(callers.functions, callers.own), {}, {}};
  outer.threads.table()->parallel_for(
      outer.threads.table()->self, 2, 1,
      [](void *self, std::uint64_t, std::uint64_t, std::uint32_t worker) {
        struct Inner {
          Outer &outer;
          std::uint32_t worker;
        } inner{*static_cast<Outer *>(self), worker};
        inner.outer.threads.table()->parallel_for(
            inner.outer.threads.table()->self, 5, 1,
            [](void *of, std::uint64_t begin, std::uint64_t end, std::uint32_t here) {
              auto &all = *static_cast<Inner *>(of);
              all.outer.calls += static_cast<int>(end - begin);
              if (here != all.worker) ++all.outer.wrong;
            },
            &inner);
      },
      &outer);
  CHECK_EQ(outer.calls.load(), 10);
  CHECK_EQ(outer.wrong.load(), 0);
  CHECK_OK(outer.threads.take_fault());
}

TEST_CASE("two calls at a time with one worker") {
  Loop loop;
  Callers callers([&](std::uint64_t count, qr_parallel_body body, void *context) {
    loop.hold = true;
    std::thread second([&] { body(context, 0, 4, 1); });
    while (loop.inside == 0) std::this_thread::yield();
    body(context, 4, count, 1);
    loop.hold = false;
    second.join();
  });
  CallThreads threads(callers.functions, callers.own);
  run(threads, loop);
  CHECK_EQ(loop.seen[4].load(), 0);  // the second call was not made
  const Status status = threads.take_fault();
  CHECK_EQ(status.id(), "QR-R0101");
  CHECK_EQ(status.message(),
           "the caller's thread pool: parallel_for called body twice at a time with worker 1, expected different "
           "workers");
  CHECK_OK(threads.take_fault());  // reported once
}

TEST_CASE("nothing runs when a loop has ended") {
  Loop loop;
  std::thread second, opener;
  Callers callers([&](std::uint64_t count, qr_parallel_body body, void *context) {
    loop.hold = true;
    second = std::thread([=] { body(context, 0, count, 1); });
    while (loop.inside == 0) std::this_thread::yield();
    opener = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      loop.hold = false;
    });
  });
  CallThreads threads(callers.functions, callers.own);
  run(threads, loop);
  CHECK_EQ(loop.inside.load(), 0);
  CHECK(loop.once());
  second.join(), opener.join();
  const Status status = threads.take_fault();
  CHECK_EQ(status.id(), "QR-R0101");
  CHECK(status.message().find("while body was still running") != std::string_view::npos);
}

TEST_CASE("more workers than places") {
  Callers callers([](std::uint64_t count, qr_parallel_body body, void *context) {
    for (std::uint64_t i = 0; i < count; ++i) body(context, i, i + 1, static_cast<std::uint32_t>(4999 - i));
  });
  callers.functions.worker_count = 5000;
  CallThreads threads(callers.functions, callers.own);
  Loop loop;
  run(threads, loop);
  CHECK(loop.once());
  CHECK_OK(threads.take_fault());
}
