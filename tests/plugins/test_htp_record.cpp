// SPDX-License-Identifier: Apache-2.0
// Records of calls (option htp.record) and their replay, on the stand-in for Qualcomm's libraries: what the emulator
// refuses (runs on the library's threads, lists, shared memory), and records that are damaged. A process has one
// record, so the cases go on in each other's.
#include <cstring>
#include <random>

#include <quarry/replay.h>

#include "backends/htp/record/format.h"
#include "base/hash.h"
#include "tests/plugins/standin_fixture.h"

using namespace quarry::test;
namespace record = quarry::record;

namespace {

std::string record_path() { return "/tmp/quarry-record-" + std::to_string(getpid()) + ".qrec"; }

std::string read_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::string written(const std::string &bytes) {
  const std::string path = "/tmp/quarry-record-" + std::to_string(getpid()) + ".changed";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// The report of a replay, and how many calls were others.
struct Replayed {
  explicit Replayed(const std::string &path = record_path(), std::uint32_t flags = 0) {
    qr_replay_options options = QR_REPLAY_OPTIONS_INIT;
    options.flags = flags;
    char *report = nullptr;
    qr::check(qr_replay({path.data(), path.size()}, &options, nullptr, &report, &differing));
    const qr::Text taken(report);
    text = taken.get();
  }
  bool has(const std::string &part) const { return text.find(part) != std::string::npos; }
  std::string text;
  std::uint64_t differing = 0;
};

qr::Session recorded(qr::Runtime &runtime, Pairs pairs = {}) {
  static const std::string path = record_path();
  pairs.emplace_back("htp.record", path);
  return session(runtime, pairs);
}

}  // namespace

TEST_CASE("a record's calls are made again, and give the same") {
  const Standin standin;
  {
    qr::Runtime runtime;
    qr::Session made = recorded(runtime, {{"htp_performance_mode", "burst"}, {"profiling_level", "detailed"}});
    qr::Profile profile(runtime);
    CHECK(run(made, nullptr, &profile));
    CHECK(run(made));
    const auto all = standin.lines();
    CHECK(standin.count("graphExecute") >= 2);
  }
  const Replayed alike;
  CHECK_EQ(alike.differing, 0u);
  CHECK(alike.has("\"runs\": 2"));
  CHECK(alike.has("\"unfinished\": null"));
  CHECK(alike.has("\"left_out\": 0"));
  INFO(alike.text);
}

TEST_CASE("a call that failed says the same error again, and another library's is named") {
  const Standin standin("fail=graphFinalize:1002");
  {
    qr::Runtime runtime;
    (void)failure([&] { recorded(runtime); }, QR_INTERNAL);
  }
  standin.tell("fail=graphFinalize:1002:2");  // the first was of a session that was made
  const Replayed alike;
  CHECK_EQ(alike.differing, 0u);
  CHECK(alike.has("1002 Memory"));
  CHECK(alike.has("\"failed_alike\": 1"));
  standin.tell("");
  const Replayed other;
  CHECK_EQ(other.differing, 1u);
  CHECK(other.has("\"function\": \"graphFinalize\""));
  CHECK(other.has("it returned success, recorded 1002 Memory"));
  standin.tell("fail=graphExecute:1003:2");
  const Replayed worse;
  CHECK_EQ(worse.differing, 2u);
  CHECK(worse.has("it returned 1003 System: the operating system refused, recorded success"));
}

TEST_CASE("runs on the library's threads, contexts of a list and parts of a binary") {
  const Standin standin;
  const std::string section = "/tmp/quarry-record-section-" + std::to_string(getpid()), list = section + ".txt";
  {
    qr::Runtime runtime;
    qr::Session queued = recorded(runtime, {{"queue_depth", "2"}});
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {};
    std::vector<qr::Tensor> in{qr::Tensor::of(x, {1, 8})}, out{qr::Tensor::of(y, {1, 8})};
    queued.wait(queued.submit(in, out));
    CHECK(equals(x, y));
    qr::Session listed = recorded(runtime, {{"htp_share_resource_optimization", "1"}});
    CHECK(run(listed));
    qr::Session provided = recorded(runtime, {{"htp.data_provider", "1"}});
    CHECK(run(provided));
    std::ofstream(section) << "some weights";
    std::ofstream(list) << "test;" + section;
    qr::Session updated = recorded(runtime, {{"htp.lora_sections", list}, {"htp.compatibility", "strict"}});
    CHECK(run(updated));
  }
  standin.tell("fail=graphFinalize:1002:2:1");
  const Replayed alike;
  CHECK_EQ(alike.differing, 0u);
  CHECK(alike.has("\"runs\": 6"));
  CHECK_EQ(standin.count("contextApplyBinarySection test section=1 version=1 memory=0 'some weights'"), 2u);
  CHECK_EQ(standin.count("contextValidateBinary"), 2u);
  unlink(section.c_str()), unlink(list.c_str());
  CHECK(standin.count("graphExecuteAsync") == 2);
  CHECK(standin.count("contextCreateFromBinaryListAsync") == 2);
}

TEST_CASE("memory that is shared is in the record, and a replay has it as plain memory") {
  const Standin standin;
  {
    qr::Runtime runtime;
    qr::Session made = recorded(runtime, {{"enable_htp_shared_memory_allocator", "1"}});
    qr::Memory x(made, 4096), y(made, 4096);
    std::fill_n(static_cast<float *>(x.data()), 8, 3.0f);
    qr::Tensor in(QR_DTYPE_F32, {1, 8}, nullptr), out(QR_DTYPE_F32, {1, 8}, nullptr);
    in.memory = x.get(), out.memory = y.get(), out.memory_offset = 64;
    std::vector<qr::Tensor> ins{in}, outs{out};
    made.run(ins, outs);
  }
  standin.begin_log();
  standin.tell("fail=graphFinalize:1002:2:1");
  const Replayed alike;
  CHECK_EQ(alike.differing, 0u);
  CHECK(alike.has("\"runs\": 7"));
  INFO(alike.text);
  CHECK(alike.has("its tensors lie in plain memory here"));
  CHECK_EQ(standin.count("memRegister"), 0u);
  CHECK_EQ(standin.count("graphExecute test in=1,registered"), 0u);
}

TEST_CASE("a process has one record, and other files stay") {
  const Standin standin;
  qr::Runtime runtime;
  CHECK(says(failure(
                 [&] {
                   session(runtime, {{"htp.record", "/tmp/another.qrec"}});
                 },
                 QR_INVALID_ARGUMENT),
             {"htp.record", "expected one for a process"}));
  CHECK(says(failure(
                 [&] {
                   recorded(runtime, {{"htp.record_weights", "0"}});
                 },
                 QR_INVALID_ARGUMENT),
             {"htp.record_weights=0", "name the same file"}));
}

TEST_CASE("no calls are made to list them, and who stops a replay is asked between them") {
  const Standin standin;
  qr::Runtime runtime;
  const Replayed listed(record_path(), QR_REPLAY_LIST);
  CHECK(listed.has("\"replayed\": null"));
  CHECK(listed.has("\"function\": \"contextGetBinary\""));
  CHECK_EQ(standin.lines(), std::vector<std::string>());
  qr::Signal signal(runtime);
  signal.abort();
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  call.signal = signal.get();
  char *report = nullptr;
  const std::string path = record_path();
  CHECK(says(failure(
                 [&] {
                   qr::check(qr_replay({path.data(), path.size()}, nullptr, &call, &report, nullptr));
                 },
                 QR_CANCELLED),
             {"stopped by its signal"}));
  qr_replay_options options = QR_REPLAY_OPTIONS_INIT;
  options.flags = 64;
  CHECK(says(failure(
                 [&] {
                   qr::check(qr_replay({path.data(), path.size()}, &options, nullptr, &report, nullptr));
                 },
                 QR_INVALID_ARGUMENT),
             {"qr_replay_options.flags"}));
}

TEST_CASE("records that are damaged, cut off or of another version") {
  const Standin standin;
  const std::string whole = read_file(record_path());
  REQUIRE(whole.size() > 1000);
  const auto replays = [](const std::string &bytes) { return Replayed(written(bytes), QR_REPLAY_LIST); };
  const auto refused = [&](const std::string &bytes, qr_code code) { return failure([&] { replays(bytes); }, code); };
  CHECK(says(refused("onnx", QR_CORRUPT), {"found no record of calls", "option htp.record"}));
  CHECK(says(refused(whole.substr(0, 30), QR_CORRUPT), {"head that ends too early"}));
  std::string changed = whole;
  changed[8] = 2;
  CHECK(says(refused(changed, QR_INCOMPATIBLE), {"found a record of version 2, expected 1"}));
  std::mt19937 draw(7);
  for (int i = 0; i < 200; ++i) {
    changed = whole;
    changed[12 + draw() % (whole.size() - 12)] ^= static_cast<char>(1 + draw() % 255);
    // A size that is larger than the file is an end in the midst of an entry.
    try {
      const Replayed cut = replays(changed);
      CHECK_FALSE(cut.has("\"cut_at\": 0"));
    } catch (const qr::Error &error) {
      CHECK_EQ(error.code(), QR_CORRUPT);
    }
  }
  // Cut off: what is before the end is read.
  for (int i = 0; i < 50; ++i) {
    const std::size_t end = sizeof(record::Head) + 1 + draw() % (whole.size() - sizeof(record::Head) - 1);
    (void)replays(whole.substr(0, end));
  }
  const Replayed cut = replays(whole.substr(0, whole.size() - 3));
  CHECK_FALSE(cut.has("\"cut_at\": 0"));
  // Contents that are damaged under a right sum: whatever is read, nothing is looked at outside its entry.
  for (int i = 0; i < 2000; ++i) {
    changed = whole;
    std::size_t at = sizeof(record::Head);
    record::EntryHead head;
    for (std::size_t skip = draw() % 200;; --skip) {
      std::memcpy(&head, &changed[at], sizeof head);
      if (skip == 0 || at + sizeof head + head.size >= changed.size()) break;
      at += sizeof head + head.size;
    }
    if (head.size == 0) continue;
    for (std::uint32_t k = 0; k < 1 + draw() % 4; ++k)
      changed[at + sizeof head + draw() % head.size] ^= static_cast<char>(1 + draw() % 255);
    quarry::Hasher64 hasher;
    hasher.add(&changed[at], offsetof(record::EntryHead, sum));
    hasher.add(&changed[at + sizeof head], head.size);
    head.sum = hasher.sum();
    std::memcpy(&changed[at], &head, sizeof head);
    try {
      (void)replays(changed);
    } catch (const qr::Error &error) {
      CHECK_EQ(error.code(), QR_CORRUPT);
    }
  }
  unlink(written("").c_str());
  unlink(record_path().c_str());
}
