// SPDX-License-Identifier: Apache-2.0
// Generations of processes, and locks whose holder did not come along. Children of fork() are in tests/capi/test_fork.c
// too; these start no thread after it, so they run under the thread sanitizer.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/core/process.h"
#include "tests/support/check.h"

using namespace quarry;

namespace {

// The exit status of a child that runs `body`.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(body());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("generations") {
  Process process;
  CHECK_EQ(process.generation(), 1);
  CHECK_EQ(in_child([&] {
             const auto first = static_cast<int>(process.generation());
             return first * 10 + in_child([&] { return static_cast<int>(process.generation()); });
           }),
           23);
  CHECK_EQ(process.generation(), 1);
}

TEST_CASE("objects are reset once in each process") {
  Process process;
  std::atomic<std::uint32_t> entered{process.generation()};
  int resets = 0;
  const auto use = [&] { process.enter(entered, [&] { ++resets; }); };
  use();
  CHECK_EQ(resets, 0);
  CHECK_EQ(in_child([&] {
             use();
             use();
             return resets;
           }),
           1);
}

TEST_CASE("threads have the system's number, in a child too") {
  Process process, other;
  const auto is_mine = [&] { return process.thread_id() == static_cast<std::uint32_t>(gettid()); };
  CHECK(is_mine());
  CHECK_EQ(other.thread_id(), process.thread_id());
  CHECK(is_mine());
  std::thread([&] { CHECK(is_mine()); }).join();
  CHECK_EQ(in_child([&] { return is_mine() && in_child([&] { return is_mine() ? 0 : 1; }) == 0 ? 0 : 1; }), 0);
}

TEST_CASE("a number of another process is not this one's") {
  Process process;
  const std::uint32_t first = process.generation();
  CHECK(process.is(first));
  // Also before anybody in the child has asked for its own number.
  CHECK_EQ(in_child([&] { return !process.is(first) && process.is(process.generation()) ? 0 : 1; }), 0);
  CHECK(process.is(first));
}

TEST_CASE("a mutex excludes") {
  Process process;
  ProcessMutex mutex(process);
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 2000; ++j) {
        const ProcessLock lock(mutex);
        if (lock.held()) ++count;
      }
    });
  for (std::thread &thread : threads) thread.join();
  CHECK_EQ(count, 8000);
}

TEST_CASE("a lock whose holder is not there") {
  Process process;
  ProcessMutex mutex(process);
  std::atomic<bool> held{false}, done{false};
  std::thread holder([&] {
    const ProcessLock lock(mutex);
    held = true;
    while (!done) std::this_thread::yield();
  });
  while (!held) std::this_thread::yield();
  CHECK_EQ(in_child([&] {
             const ProcessLock lock(mutex);
             return lock.held() || lock.status("things").id() != "QR-C0201" ? 1 : 0;
           }),
           0);
  done = true;
  holder.join();
  const ProcessLock lock(mutex);  // in the parent it was let go
  CHECK_OK(lock.status("things"));
}
