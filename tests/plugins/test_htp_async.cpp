// SPDX-License-Identifier: Apache-2.0
// Submitted runs of the htp backend on the library's own threads, which the emulator does not have: on the stand-in.
#include <poll.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/plugins/standin_fixture.h"

using namespace quarry::test;

namespace {

double ms_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

// A run of the session, with its own data.
struct Submitted {
  float x[8], y[8] = {};
  std::vector<qr::Tensor> in{qr::Tensor::of(x, {1, 8})}, out{qr::Tensor::of(y, {1, 8})};
  std::uint64_t ticket = 0;
  explicit Submitted(float first) { std::fill_n(x, 8, first); }
  Submitted(const Submitted &) = delete;
  Submitted &operator=(const Submitted &) = delete;
  void begin(qr::Session &session, const qr_submit_options *how = nullptr) { ticket = session.submit(in, out, how); }
  bool right() const { return equals(x, y); }
};

std::string order(const Standin &standin) {
  std::string names;
  for (const std::string &line : standin.lines("graphExecute "))
    if (line.find("->") == line.npos) names += line.substr(13, line.find(' ', 13) - 13) + " ";
  return names;
}

void wait_for(const Standin &standin, const char *line, std::size_t count) {
  while (standin.count(line) < count) usleep(1000);
}

}  // namespace

TEST_CASE("several runs are in the library at a time, and each gets its result") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime, {{"queue_depth", "4"}});
  standin.tell("slow=graphExecute:300000");
  const auto begin = std::chrono::steady_clock::now();
  Submitted runs[4] = {Submitted(1), Submitted(2), Submitted(3), Submitted(4)};
  for (Submitted &each : runs) each.begin(made);
  CHECK_LT(ms_since(begin), 250.0);  // nobody waited for any
  CHECK_EQ(standin.count("graphExecuteAsync"), 4u);
  pollfd ended{made.completion_fd(), POLLIN, 0};
  CHECK_EQ(poll(&ended, 1, 10000), 1);
  for (Submitted &each : runs) {
    made.wait(each.ticket);
    CHECK(each.right());
  }
  CHECK_LT(ms_since(begin), 1000.0);  // the stand-in has a thread for each: not 1200
  standin.tell("");
  for (int round = 0; round < 50; ++round) {
    for (Submitted &each : runs) std::fill_n(each.y, 8, 0.0f), each.begin(made);
    for (Submitted &each : runs) made.wait(each.ticket), CHECK(each.right());
  }
  CHECK(run(made));  // and one that is waited for
}

TEST_CASE("64-bit integers have 32 bits there, in each of several runs") {
  const Standin standin;
  qr::Runtime runtime;
  ModelText text(13);
  text.input("x", {1, 4}, 7);
  text.node("Add", {"x", "one"}, {"y"});
  text.constant<std::int64_t>("one", 7, {1, 4}, {1, 1, 1, 1});
  text.output("y", {1, 4}, 7);
  qr::Session made = session(runtime, {}, text.bytes());
  std::int64_t x[2][4] = {{1, -2, 3, -4}, {5, 6, -7, 8}}, y[2][4] = {};
  std::vector<qr::Tensor> in[2], out[2];
  std::uint64_t tickets[2];
  for (int i = 0; i < 2; ++i) {
    in[i].push_back(qr::Tensor::of(x[i], {1, 4})), out[i].push_back(qr::Tensor::of(y[i], {1, 4}));
    tickets[i] = made.submit(in[i], out[i]);
  }
  for (int i = 0; i < 2; ++i) {
    made.wait(tickets[i]);
    CHECK(std::equal(x[i], x[i] + 4, y[i]));
  }
  x[0][2] = std::int64_t{1} << 40;
  const std::uint64_t refused = made.submit(in[0], out[0]);
  CHECK(says(failure([&] { made.wait(refused); }, QR_INVALID_ARGUMENT), {"1099511627776", "element 2", "32 bits"}));
}

TEST_CASE("a library that refuses asynchronous runs: who waits does them") {
  const Standin standin("fail=graphExecuteAsync:1000");
  qr::Runtime runtime;
  qr::Session made = session(runtime);
  for (int round = 0; round < 3; ++round) {
    Submitted one(1), two(2);
    one.begin(made), two.begin(made);
    made.wait(one.ticket), made.wait(two.ticket);
    CHECK((one.right() && two.right()));
  }
  CHECK_EQ(standin.count("graphExecuteAsync ->"), 1u);  // it is asked once
  CHECK_EQ(standin.count("graphExecute "), 6u);
  // Any other error is the run's.
  standin.tell("fail=graphExecuteAsync:6004");
  qr::Runtime another;
  qr::Session refused = session(another);
  Submitted one(1);
  one.begin(refused);
  CHECK(says(failure([&] { refused.wait(one.ticket); }, QR_INTERNAL), {"graphExecuteAsync", "6004"}));
}

TEST_CASE("aborts and deadlines of runs in the library, and of those behind them") {
  const Standin standin("hang=graphExecute");
  qr::Runtime runtime;
  qr::Session made = session(runtime), other = session(runtime);
  qr_submit_options how = QR_SUBMIT_OPTIONS_INIT;
  qr::Signal signal(runtime);
  how.signal = signal.get();
  const auto begin = std::chrono::steady_clock::now();
  Submitted first(1), second(2), third(3);
  first.begin(made, &how), second.begin(made);
  third.begin(other);  // not in the library before those have ended
  wait_for(standin, "graphExecute ", 2);
  signal.abort();
  CHECK(says(failure([&] { made.wait(first.ticket); }, QR_CANCELLED), {"run"}));
  other.abort(third.ticket);
  CHECK(says(failure([&] { other.wait(third.ticket); }, QR_CANCELLED), {"run"}));
  made.abort();
  CHECK(says(failure([&] { made.wait(second.ticket); }, QR_CANCELLED), {"run"}));
  CHECK_EQ(standin.count("graphExecute "), 2u);
  qr::Signal late(runtime);
  late.set_timeout(std::chrono::milliseconds(50));
  how.signal = late.get();
  first.begin(made, &how);
  CHECK(says(failure([&] { made.wait(first.ticket); }, QR_DEADLINE_EXCEEDED), {"run"}));
  CHECK_LT(ms_since(begin), 5000.0);
  standin.tell("");
  second.begin(made), made.wait(second.ticket);
  CHECK(second.right());
}

TEST_CASE("submitted runs keep the order of the priorities") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session busy = session(runtime, {{"queue_depth", "3"}}, relu_model(8, "busy")),
              high = session(runtime, {{"qnn_context_priority", "high"}}, relu_model(8, "high")),
              low = session(runtime, {{"qnn_context_priority", "low"}}, relu_model(8, "low"));
  standin.begin_log();
  standin.tell("slow=graphExecute:400000");
  Submitted first(1), second(2), third(3), fourth(4);
  first.begin(busy);
  wait_for(standin, "graphExecute ", 1);
  standin.tell("");
  std::thread waits_low([&] { CHECK(run(low)); });
  usleep(50000);
  second.begin(busy);  // nobody of more waits: it goes with the first
  wait_for(standin, "graphExecute ", 2);
  standin.tell("slow=graphExecute:150000");
  third.begin(high);  // waits for its turn
  usleep(50000);
  fourth.begin(busy);  // and this one comes behind it
  for (Submitted *each : {&first, &second, &fourth}) busy.wait(each->ticket), CHECK(each->right());
  high.wait(third.ticket);
  CHECK(third.right());
  waits_low.join();
  CHECK_EQ(order(standin), "busy busy high busy low ");
}

TEST_CASE("a callback that runs another session does not wait for the runs behind it") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime, {}, relu_model(8, "made")), other = session(runtime);
  struct Told {
    qr::Session *other;
    bool right = false;
    int calls = 0;
  } told{&other};
  qr_submit_options how = QR_SUBMIT_OPTIONS_INIT;
  how.self = &told;
  how.done = [](void *self, std::uint64_t, qr_status *status) {
    auto &to = *static_cast<Told *>(self);
    qr_status_destroy(status);
    if (to.calls++ == 0) to.right = run(*to.other);
  };
  Submitted one(1), two(2);
  one.begin(made, &how), two.begin(made, &how);
  made.wait(one.ticket), made.wait(two.ticket);
  CHECK((told.right && told.calls == 2 && one.right() && two.right()));
}

TEST_CASE("power votes: lowered when the last of several runs has ended") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime, {{"htp_performance_mode", "balanced"}, {"queue_depth", "3"}});
  standin.begin_log();
  standin.tell("slow=graphExecute:50000");
  Submitted first(1), second(2);
  first.begin(made);
  wait_for(standin, "graphExecute ", 1);
  standin.tell("slow=graphExecute:500000");
  second.begin(made);
  made.wait(first.ticket);
  CHECK_EQ(standin.count("vote dcvs=1/1"), 0u);  // the second is in the library
  made.wait(second.ticket);
  CHECK((first.right() && second.right()));
  CHECK_EQ(standin.count("vote dcvs=1/0 mode=10 sleep_latency=1/1000"), 1u);
  CHECK_EQ(standin.count("vote dcvs=1/1"), 1u);  // relaxed, once
}

TEST_CASE("a measured run, asynchronous") {
  const Standin standin;
  qr::Runtime runtime;
  const std::string path = "/tmp/quarry-standin-async-" + std::to_string(getpid()) + ".csv";
  {
    qr::Session made = session(runtime, {{"profiling_level", "detailed"}, {"profiling_file_path", path}});
    Submitted one(1);
    one.begin(made), made.wait(one.ticket);
    CHECK(one.right());
    CHECK_EQ(standin.count("graphExecuteAsync"), 1u);
  }
  std::ifstream file(path);
  const std::string csv{std::istreambuf_iterator<char>(file), {}};
  unlink(path.c_str());
  CHECK(says(csv, {"graphExecute", "Accelerator (execute) time=20 us"}));
}

TEST_CASE("a device that is lost with several runs in the library: all get the error, and one recovery is enough") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime);
  standin.tell("fail=graphExecute:1011:1:0;slow=graphExecute:100000");
  Submitted first(1), second(2);
  first.begin(made), second.begin(made);
  CHECK(says(failure([&] { made.wait(first.ticket); }, QR_DEVICE_LOST), {"graphExecuteAsync", "1011"}));
  CHECK_FALSE(made.try_wait(second.ticket).ok());
  standin.tell("");
  made.recover();
  first.begin(made), made.wait(first.ticket);
  CHECK(first.right());
}

TEST_CASE("a device that is lost with runs in the library, behind them and in the queue") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime, {{"queue_depth", "3"}, {"htp_performance_mode", "balanced"}}),
              other = session(runtime, {{"qnn_context_priority", "high"}});
  standin.tell("fail=graphExecute:1011:1:1;slow=graphExecute:200000");
  Submitted first(1), second(2), queued(3);
  first.begin(made);
  wait_for(standin, "graphExecute ", 1);
  queued.begin(other);  // takes the turn when that one has ended
  usleep(20000);
  second.begin(made);
  CHECK(says(failure([&] { made.wait(first.ticket); }, QR_DEVICE_LOST), {"graphExecuteAsync", "1011", "recover"}));
  CHECK(says(failure([&] { run(other); }, QR_DEVICE_LOST), {"QR-R0009"}));
  (void)other.try_wait(), (void)made.try_wait();
  standin.tell("");
  standin.begin_log();
  made.recover();
  CHECK_EQ(standin.count("contextCreateFromBinary"), 2u);
  for (qr::Session *each : {&made, &other}) {
    first.begin(*each), each->wait(first.ticket);
    CHECK(first.right());
  }
}

TEST_CASE("recovery that waits for a run ends in time, and can be asked for again") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session lost = session(runtime, {{"qnn_context_priority", "high"}}, relu_model(8, "lost")),
              busy = session(runtime, {}, relu_model(8, "busy"));
  standin.tell("fail=graphExecute:1007:1:1;slow=graphExecute:700000");
  bool right = false;
  std::thread loses([&] { failure([&] { run(lost); }, QR_DEVICE_LOST); });
  wait_for(standin, "graphExecute ", 1);
  std::thread holds([&] { right = run(busy); });  // in the library as soon as the other has failed
  loses.join();
  wait_for(standin, "graphExecute ", 2);
  qr::Signal limit(runtime);
  limit.set_timeout(std::chrono::milliseconds(50));
  const auto begin = std::chrono::steady_clock::now();
  CHECK(says(failure([&] { lost.recover(&limit); }, QR_DEADLINE_EXCEEDED), {"recover"}));
  CHECK_LE((std::chrono::steady_clock::now() - begin).count(), 300'000'000);
  holds.join();
  CHECK(right);
  standin.tell("");
  lost.recover();
  CHECK(run(lost));
  CHECK(run(busy));
}

TEST_CASE("recovery while others wait in the queue: none is in the library meanwhile, and they get the error") {
  for (const bool submits : {false, true}) {
    CAPTURE(submits);
    const Standin standin;
    qr::Runtime runtime;
    qr::Session lost = session(runtime, {{"qnn_context_priority", "high"}}, relu_model(8, "lost")),
                busy = session(runtime, {}, relu_model(8, "busy")),
                waits = session(runtime, {{"qnn_context_priority", "low"}}, relu_model(8, "waits"));
    // While `lost` is in the library `busy` and `waits` come into the queue. It meets the loss and is recovered, for
    // which it waits until `busy` is through; `waits` is still there then, with handles of before.
    standin.begin_log();
    standin.tell("fail=graphExecute:1007:1:1;slow=graphExecute:300000");
    std::string why_lost, why_waiting;
    bool right = false;
    std::thread loses([&] {
      why_lost = failure([&] { run(lost); }, QR_DEVICE_LOST);
      lost.recover();
    });
    wait_for(standin, "graphExecute ", 1);
    std::thread holds([&] { right = run(busy); });
    usleep(20000);
    Submitted queued(1);
    if (submits) queued.begin(waits);
    std::thread waiting(
        [&] { why_waiting = failure([&] { submits ? waits.wait(queued.ticket) : void(run(waits)); }, QR_BUSY); });
    for (std::thread *thread : {&loses, &holds, &waiting}) thread->join();
    CHECK((right && says(why_lost, {"1007"})));
    CHECK(says(why_waiting, {"the device was lost and recovered while it waited", "run again"}));
    CHECK_EQ(order(standin), "lost busy ");
    CHECK_EQ(standin.count("contextCreateFromBinary"), 3u);
    standin.tell("");
    CHECK((run(lost) && run(waits) && run(busy)));
  }
}
