// SPDX-License-Identifier: Apache-2.0
// The htp backend on Qualcomm's library, from many threads and many times. Run by tests/integration/check_htp_run.py,
// which has the library's folder in QUARRY_QNN_PATH.
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "tests/plugins/standin_fixture.h"

using namespace quarry::test;

namespace {

// y = x * x / 1000, whose square f16 does not hold from 256 on.
std::string square_model() {
  ModelText text(13);
  text.input("x", {1, 8});
  text.node("Mul", {"x", "x"}, {"square"})->set_name("square");
  text.node("Mul", {"square", "small"}, {"y"})->set_name("down");
  text.floats("small", {1, 8}, std::vector<float>(8, 0.001f));
  text.output("y", {1, 8});
  return text.bytes();
}

}  // namespace

TEST_CASE("eight threads, two sessions of different priority: right results") {
  qr::Runtime runtime;
  qr::Session one = session(runtime), two = session(runtime, {{"qnn_context_priority", "high"}});
  std::vector<std::thread> threads;
  std::vector<qr::Session> clones;
  for (int t = 0; t < 8; ++t) clones.push_back((t % 2 ? one : two).clone());
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        float x[8], y[8] = {};
        std::fill_n(x, 8, static_cast<float>(100 * t + i));
        std::vector<qr::Tensor> in{qr::Tensor::of(x, {1, 8})}, out{qr::Tensor::of(y, {1, 8})};
        clones[static_cast<std::size_t>(t)].run(in, out);
        wrong += !equals(x, y);
      }
    });
  for (std::thread &thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

TEST_CASE("200 times made, run and ended: memory stays") {
  qr::Runtime runtime;
  const std::string text = relu_model();
  const qr::Options given = options(runtime);
  const std::string path = "/tmp/quarry-htp-real-" + std::to_string(getpid()) + ".qrm";
  qr::Model(runtime, text.data(), text.size()).compile(path, &given);
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    long all = 0, pages = 0;
    file >> all >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  const qr::Model model(runtime, path);
  long before = 0;
  for (int i = 0; i < 200; ++i) {
    qr::Session made(model, &given);
    CHECK(run(made));
    if (i == 40) before = resident();
  }
  unlink(path.c_str());
  MESSAGE("grown from the 41st to the 200th by ", (resident() - before) / 1024, " KB");
  CHECK_LT(resident() - before, 4 << 20);
}

// The seed's way: models of EPContext nodes that name graphs of one binary, which is loaded once.
TEST_CASE("two models of one binary share its context") {
  const std::string folder = "/tmp/quarry-htp-shared-" + std::to_string(getpid());
  REQUIRE(mkdir(folder.c_str(), 0700) == 0);
  qr::Runtime runtime;
  ModelText text(13);
  text.input("x", {1, -1});
  text.node("Relu", {"x"}, {"y"});
  text.output("y", {1, -1});
  const std::string bytes = text.bytes();
  const qr::Options writes = options(runtime, {{"shape", "x=1x8;x=1x16"},
                                               {"ep.context_enable", "1"},
                                               {"ep.context_embed_mode", "0"},
                                               {"ep.context_file_path", folder + "/m.onnx"}});
  { const qr::Session made(qr::Model(runtime, bytes.data(), bytes.size()), &writes); }
  const auto open = [&](const char *name, const char *shares, std::size_t *loads) {
    const qr::Options given = options(
        runtime, {{"htp.foreign_context", "trust"}, {"ep.share_ep_contexts", shares}, {"profiling_level", "basic"}});
    const qr::Model model(runtime, folder + name);
    const qr::Profile profile(runtime);
    qr_call_options call = QR_CALL_OPTIONS_INIT;
    call.profile = profile.get();
    qr_session *made = nullptr;
    const qr::Status status(qr_session_create(model.get(), given.get(), &call, &made));
    CAPTURE(status.message());
    REQUIRE(status.ok());
    *loads = 0;
    for (std::uint64_t i = 0; i < profile.size(); ++i)
      *loads += qr::from_c(profile[i].name) == "contextCreateFromBinary";
    return qr::Session(made);
  };
  const auto right = [](qr::Session &made, std::int64_t n) {
    float x[16], y[16] = {};
    for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(i - 3);
    std::vector<qr::Tensor> in{qr::Tensor::of(x, {1, n})}, out{qr::Tensor::of(y, {1, n})};
    made.run(in, out);
    return std::equal(y, y + n, x, [](float a, float b) { return std::abs(a - std::max(b, 0.0f)) <= 0.02f; });
  };
  std::size_t loads = 0;
  qr::Session first = open("/m_1.onnx", "1", &loads);
  CHECK_EQ(loads, 1u);
  qr::Session second = open("/m_2.onnx", "1", &loads);
  CHECK_EQ(loads, 0u);
  qr::Session alone = open("/m_2.onnx", "0", &loads);
  CHECK_EQ(loads, 1u);
  std::atomic<int> wrong{0};
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) wrong += !right(second, 16);
  });
  for (int i = 0; i < 20; ++i) wrong += !right(first, 8);
  other.join();
  first = qr::Session(nullptr);  // in any order
  CHECK((wrong == 0 && right(second, 16) && right(alone, 16)));
  second = qr::Session(nullptr);
  qr::Session again = open("/m_1.onnx", "1", &loads);
  CHECK_EQ(loads, 1u);
  CHECK(right(again, 8));
  for (const char *name : {"/m_1.onnx", "/m_2.onnx", "/m_htp.bin"}) CHECK_EQ(unlink((folder + name).c_str()), 0);
  rmdir(folder.c_str());
}

TEST_CASE("memory of the session's device, and what the emulator says of sharing it") {
  qr::Runtime runtime;
  for (const bool shares : {false, true}) {
    qr::Session made = session(runtime, {{"enable_htp_shared_memory_allocator", shares ? "1" : "0"}});
    qr::Memory x(made, 4096), y(made, 4096);
    std::fill_n(static_cast<float *>(x.data()), 8, 3.0f);
    std::vector<qr::Tensor> in{qr::Tensor(QR_DTYPE_F32, {1, 8}, nullptr)},
        out{qr::Tensor(QR_DTYPE_F32, {1, 8}, nullptr)};
    in[0].memory = x.get(), out[0].memory = y.get();
    if (shares) {
      CHECK(says(failure([&] { made.run(in, out); }, QR_UNSUPPORTED), {"memRegister", "1000 NotSupported"}));
    } else {
      made.run(in, out);
      CHECK(equals(static_cast<float *>(x.data()), static_cast<float *>(y.data())));
    }
  }
}

TEST_CASE("submitted runs: the emulator refuses asynchronous ones, which who waits does then") {
  qr::Runtime runtime;
  qr::Session made = session(runtime, {{"queue_depth", "4"}});
  for (int round = 0; round < 3; ++round) {
    float x[4][8], y[4][8] = {};
    std::vector<qr::Tensor> in[4], out[4];
    std::uint64_t tickets[4];
    for (int i = 0; i < 4; ++i) {
      std::fill_n(x[i], 8, static_cast<float>(10 * round + i));
      in[i].push_back(qr::Tensor::of(x[i], {1, 8})), out[i].push_back(qr::Tensor::of(y[i], {1, 8}));
      tickets[i] = made.submit(in[i], out[i]);
    }
    for (int i = 0; i < 4; ++i) {
      made.wait(tickets[i]);
      CHECK(equals(x[i], y[i]));
    }
  }
}

TEST_CASE("what f16 does not hold: its largest number where that is asked for, and a bf16 where the SoC has them") {
  qr::Runtime runtime;
  float x[8] = {1, 10, 100, 200, 250, 1000, 30000, -40000}, y[8] = {};
  std::vector<qr::Tensor> in{qr::Tensor::of(x, {1, 8})}, out{qr::Tensor::of(y, {1, 8})};
  session(runtime, {}, square_model()).run(in, out);
  CHECK_GT(y[7], 100.0f);  // nonsense or infinity, as the SoC has it
  for (const char *soc : {"SM8350", "SM8650", "SM8750"}) {
    CAPTURE(soc);
    session(runtime, {{"soc_model", soc}, {"enable_htp_fp16_clamp_overflow", "1"}}, square_model()).run(in, out);
    for (int i = 0; i < 8; ++i) {
      const float expected = std::min(x[i] * x[i], 65504.0f) / 1000;
      CHECK_LE(std::abs(y[i] - expected), expected / 200);
    }
  }
  session(runtime, {{"soc_model", "SC8480XP"}, {"htp_bf16_enable", "1"}}, square_model()).run(in, out);
  for (int i = 0; i < 8; ++i) CHECK_LE(std::abs(y[i] - x[i] * x[i] / 1000), x[i] * x[i] / 50000);
}
