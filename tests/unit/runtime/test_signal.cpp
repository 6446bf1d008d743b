// SPDX-License-Identifier: Apache-2.0
// Why a call was stopped, also while another thread takes the abort back.
#include <atomic>
#include <thread>

#include "runtime/core/runtime.h"
#include "runtime/core/signal.h"
#include "tests/support/check.h"

using namespace quarry;

namespace {

Ref<Signal> make_signal() {
  return Ref<Signal>::make(
      Ref<Runtime>::make(Runtime::Config{&malloc_allocator(), nullptr, Log(), QR_THREAD_POOL_INIT, {}, {}, true}));
}

}  // namespace

TEST_CASE("an abort that is taken back is no deadline") {
  const Ref<Signal> signal = make_signal();
  for (const std::uint64_t timeout : {Signal::kNoLimit, std::uint64_t{3'600'000'000'000}}) {
    signal->set_timeout(timeout);
    const CallSignal call(signal.get());
    std::atomic<bool> ends{false};
    std::thread other([&] {
      while (!ends.load(std::memory_order_relaxed)) signal->abort(), signal->reset();
    });
    int stops = 0, others = 0;
    for (int i = 0; i < 20'000'000 && stops < 20'000; ++i) {
      const Status found = call.check("run");
      stops += !found.ok();
      others += !found.ok() && found.code() != QR_CANCELLED;
    }
    ends.store(true, std::memory_order_relaxed);
    other.join();
    CHECK_GT(stops, 0);
    CHECK_EQ(others, 0);
  }
}

TEST_CASE("a time that is over is one, and a progress function's word is its own") {
  const Ref<Signal> signal = make_signal();
  signal->set_timeout(0);
  const CallSignal late(signal.get());
  CHECK_EQ(late.check("run").code(), QR_DEADLINE_EXCEEDED);
  signal->abort();
  CHECK_EQ(late.check("run").code(), QR_CANCELLED);
  signal->reset(), signal->stop();
  CHECK_EQ(late.check("run").id(), "QR-C0013");
}
