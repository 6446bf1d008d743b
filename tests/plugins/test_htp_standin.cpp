// SPDX-License-Identifier: Apache-2.0
// The htp backend on the stand-in for Qualcomm's libraries: what their emulator refuses, devices and libraries in
// trouble.
#include <sys/mman.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backends/htp/qnn/function_table.h"
#include "tests/plugins/standin_fixture.h"

using namespace quarry::test;

namespace {

double ms_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

// What would crash or mix with the real library ends the stand-in's process.
TEST_CASE("the stand-in takes no dead handles, and no object ends before what is in it") {
  const Standin standin;
  const std::string path = std::string(QR_STANDIN_FOLDER) + "/libQnnHtp.so";
  const auto query = reinterpret_cast<quarry::qnn::GetProvidersFn>(
      dlsym(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), "QnnInterface_getProviders"));
  const quarry::qnn::Provider **list = nullptr;
  std::uint32_t count = 0;
  REQUIRE(query(&list, &count) == 0);
  const quarry::qnn::Api &api = list[0]->api;
  for (const int mistake : {0, 1, 2, 3}) {
    const pid_t child = fork();
    if (child == 0) {
      quarry::qnn::Handle backend = nullptr, context = nullptr, graph = nullptr;
      (void)!freopen("/dev/null", "w", stderr);
      api.backendCreate(nullptr, nullptr, &backend);
      api.contextCreate(backend, nullptr, nullptr, &context);
      api.graphCreate(context, "g", nullptr, &graph);
      if (mistake == 1) api.backendFree(backend);
      api.contextFree(context, nullptr);
      if (mistake == 2) api.contextFree(context, nullptr);
      if (mistake == 3) api.graphFinalize(graph, nullptr, nullptr);
      api.backendFree(backend);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CAPTURE(mistake);
    CHECK_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0, mistake == 0 ? 0 : SIGABRT);
  }
}

TEST_CASE("contexts that share, and binaries that are handed over otherwise") {
  const Standin standin;
  qr::Runtime runtime;
  const Pairs shares = {{"enable_htp_spill_fill_buffer", "1"}, {"context.group", "mine"}};
  qr::Session first = session(runtime, shares);
  CHECK(standin.has("  context.custom 2=0,65536"));  // what the metadata says
  standin.begin_log();
  qr::Session second = session(runtime, shares);
  CHECK_FALSE(standin.has("  context.custom 2=0,65536"));  // with the first one's handle
  CHECK_EQ(standin.count("  context.custom 2="), 1u);
  CHECK((run(first) && run(second)));
  qr::Session third = session(runtime, {{"enable_vtcm_backup_buffer_sharing", "1"}});
  CHECK(standin.has("  context.custom 12=0,65536"));
  CHECK(
      says(failure(
               [&] {
                 session(runtime, {{"enable_htp_spill_fill_buffer", "1"}, {"enable_vtcm_backup_buffer_sharing", "1"}});
               },
               QR_INVALID_ARGUMENT),
           {"enable_htp_spill_fill_buffer and enable_vtcm_backup_buffer_sharing"}));
  CHECK(says(failure(
                 [&] {
                   session(runtime, {{"enable_htp_spill_fill_buffer", "1"},
                                     {"context.group", "small"},
                                     {"htp.max_spill_fill_buffer", "100"}});
                 },
                 QR_UNSUPPORTED),
             {"needs 65536 bytes", "made for 100"}));
  standin.begin_log();
  {
    qr::Session provided = session(runtime, {{"htp.data_provider", "1"}});
    CHECK_EQ(standin.count("contextCreateFromBinaryWithCallback kind=2"), 1u);
    CHECK_EQ(standin.lines("  provided"), std::vector<std::string>({"  provided 4096 bytes, equal"}));
    CHECK(run(provided));
    CHECK_EQ(standin.count("  gave back"), 0u);  // what was handed over stays for as long as the context
  }
  CHECK_EQ(standin.lines("  gave back"), std::vector<std::string>({"  gave back 2 pieces"}));
  qr::Session listed = session(runtime, {{"htp_share_resource_optimization", "1"}});
  CHECK_EQ(standin.count("contextCreateFromBinaryListAsync"), 1u);
  CHECK(standin.has("  context.custom 5=1,0"));
  CHECK_EQ(standin.count("  context.custom 10="), 0u);  // the library's own choice
  for (const auto &[type, line] : {std::pair("sequential_without_va", "  context.custom 10=1,0"),
                                   std::pair("concurrent", "  context.custom 10=2,0")}) {
    standin.begin_log();
    session(runtime, {{"htp_share_resource_optimization", "1"}, {"htp.share_resources_type", type}});
    CHECK(standin.has(line));
  }
  CHECK(says(failure(
                 [&] {
                   session(runtime, {{"htp.share_resources_type", "concurrent"}});
                 },
                 QR_INVALID_ARGUMENT),
             {"nothing reads without htp_share_resource_optimization"}));
  qr::Session copied = session(runtime, {{"disable_file_mapped_weights", "1"}});
  CHECK((run(listed) && run(copied)));
}

// What the library reports of a list comes when it likes: a session waits for it, and no longer than its signal allows.
TEST_CASE("a context of a list that is reported after the call") {
  const Standin standin("late_ms=60");
  const Pairs listed = {{"htp_share_resource_optimization", "1"}};
  {
    qr::Runtime runtime;
    qr::Session made = session(runtime, listed);
    CHECK(run(made));
    standin.tell("late_ms=60;fail=contextCreateFromBinary:1010");
    CHECK(says(failure([&] { session(runtime, listed); }, QR_RESOURCE_EXHAUSTED),
               {"reported of the context", "1010 Resource"}));
    standin.tell("late_ms=400");
    standin.begin_log();
    const std::string model = relu_model();
    const qr::Options given = options(runtime, listed);
    const qr::Model opened(runtime, model.data(), model.size());
    qr::Signal signal(runtime);
    signal.set_timeout(std::chrono::milliseconds(150));
    const auto begun = std::chrono::steady_clock::now();
    CHECK_EQ(qr::Session::try_create(opened, &given, &signal).status().code(), QR_DEADLINE_EXCEEDED);
    CHECK_LT(ms_since(begun), 300);
    usleep(500000);  // it comes when nobody wants it any more
  }
  CHECK_EQ(standin.count("contextFree"), 3u);  // the compilation's, the session's, and what came too late
}

TEST_CASE("sessions of a group that are made at once share what the first one has") {
  const Standin standin;
  qr::Runtime runtime;
  const std::string model = relu_model();
  const qr::Model opened(runtime, model.data(), model.size());
  const qr::Options shares = options(runtime, {{"enable_htp_spill_fill_buffer", "1"}, {"context.group", "at once"}});
  standin.tell("slow=contextCreateFromBinary:20000");
  standin.begin_log();
  std::vector<qr::Session> made(4);
  std::vector<std::thread> threads;
  for (qr::Session &one : made) threads.emplace_back([&] { one = qr::Session(opened, &shares); });
  for (std::thread &one : threads) one.join();
  CHECK_EQ(standin.count("  context.custom 2="), 4u);
  CHECK_EQ(standin.count("  context.custom 2=0,"), 1u);  // without another's handle
  for (qr::Session &one : made) CHECK(run(one));
}

TEST_CASE("several shapes in one context; what it will need is known before") {
  const Standin standin;
  qr::Runtime runtime;
  ModelText text(13);
  text.input("x", {1, -1});
  text.node("Relu", {"x"}, {"y"});
  text.output("y", {1, -1});
  const std::string bytes = text.bytes();
  const qr::Options given = options(runtime, {{"shape", "x=1x8;x=1x16"}});
  const qr::Model model(runtime, bytes.data(), bytes.size());
  const std::string path = "/tmp/quarry-standin-" + std::to_string(getpid()) + ".qrm";
  model.compile(path, &given);
  CHECK_EQ(standin.count("graphCreate"), 2u);
  CHECK_EQ(standin.count("contextCreate"), 1u);
  standin.begin_log();
  {
    const qr::Model container(runtime, path);
    const qr::Options htp(runtime, {{"backend", "htp"}});
    const qr_memory_plan plan = qr::Session::plan(container, &htp);
    CHECK_EQ(plan.spill_fill_bytes, 65536u);  // the metadata's
    CHECK_EQ(plan.io_bytes, 2u * 16 * 4);
    CHECK_EQ(standin.count("contextCreateFromBinary"), 0u);
    qr::Session made(container, &htp);
    for (const int n : {8, 16, 8}) {
      float x[16], y[16] = {};
      std::fill_n(x, 16, static_cast<float>(n));
      std::vector<qr::Tensor> in{qr::Tensor::of(x, {1, n})}, out{qr::Tensor::of(y, {1, n})};
      made.run(in, out);
      CHECK_EQ(std::count(y, y + 16, static_cast<float>(n)), n);
    }
  }
  unlink(path.c_str());
  CHECK_EQ(standin.count("contextCreateFromBinary"), 1u);
  CHECK_EQ(standin.count("graphExecute"), 3u);
}

TEST_CASE("sessions that share a context") {
  const Standin standin;
  qr::Runtime runtime;
  const auto shared = [&](const char *stop = "0", const char *priority = "normal") {
    return session(
        runtime,
        {{"ep.share_ep_contexts", "1"}, {"ep.stop_share_ep_contexts", stop}, {"qnn_context_priority", priority}});
  };
  const auto loaded = [&] { return standin.count("contextCreateFromBinary"); };
  {
    qr::Session first = shared();
    qr::Session alone = session(runtime);
    CHECK_EQ(loaded(), 2u);
    qr::Session second = shared();
    CHECK_EQ(loaded(), 2u);
    qr::Session other = shared("0", "high");  // loaded with another configuration
    CHECK_EQ(loaded(), 3u);
    qr::Session last = shared("1");
    CHECK_EQ(loaded(), 3u);
    standin.begin_log();
    first = qr::Session(nullptr);
    CHECK((run(alone) && run(second) && run(other)));
    CHECK_EQ(standin.count("contextFree"), 0u);

    standin.tell("fail=graphExecute:1011:1:1");
    CHECK(says(failure([&] { run(second); }, QR_DEVICE_LOST), {"QR-R0009"}));
    standin.begin_log();
    second.recover();
    CHECK_EQ(standin.count("contextFree"), 3u);
    CHECK_EQ(loaded(), 3u);  // the second's and the last's are one
    CHECK((run(alone) && run(second) && run(other) && run(last)));
  }
  standin.begin_log();
  qr::Session ended = shared("1"), after = shared();
  CHECK_EQ(loaded(), 2u);
  CHECK((run(ended) && run(after)));
  qr::Session with_it = shared();
  CHECK_EQ(loaded(), 2u);
}

// Who would share a context that another one loads waits no longer than its signal allows.
TEST_CASE("a session that waits for another one's context is stopped") {
  const Standin standin;
  qr::Runtime runtime;
  const std::string onnx = relu_model(), path = "/tmp/quarry-standin-shared-" + std::to_string(getpid()) + ".qrm";
  const qr::Options sharing = options(runtime, {{"ep.share_ep_contexts", "1"}});
  qr::Model(runtime, onnx.data(), onnx.size()).compile(path, &sharing);
  const qr::Model container(runtime, path);
  standin.tell("slow=contextCreateFromBinary:2000000");
  standin.begin_log();
  std::thread first([&] { qr::Session made(container, &sharing); });
  while (standin.count("contextCreateFromBinary") == 0) usleep(1000);
  for (const bool by_abort : {false, true}) {
    qr::Signal signal(runtime);
    if (!by_abort) signal.set_timeout(std::chrono::milliseconds(100));
    std::thread later([&] {
      usleep(100000);
      if (by_abort) signal.abort();
    });
    const auto begun = std::chrono::steady_clock::now();
    const qr::Result<qr::Session> made = qr::Session::try_create(container, &sharing, &signal);
    CHECK_EQ(made.status().code(), by_abort ? QR_CANCELLED : QR_DEADLINE_EXCEEDED);
    CHECK_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(800));  // not the other's time
    later.join();
  }
  first.join();
  unlink(path.c_str());
}

TEST_CASE("memory that is shared with the device") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime, {{"enable_htp_shared_memory_allocator", "1"}});
  {
    qr::Memory x(made, 4096), y(made, 4096);
    std::fill_n(static_cast<float *>(x.data()), 8, 3.0f);
    qr::Tensor in(QR_DTYPE_F32, {1, 8}, nullptr), out(QR_DTYPE_F32, {1, 8}, nullptr);
    in.memory = x.get(), out.memory = y.get(), out.memory_offset = 64;
    for (int i = 0; i < 3; ++i) {
      std::vector<qr::Tensor> ins{in}, outs{out};
      made.run(ins, outs);
    }
    CHECK_EQ(static_cast<float *>(y.data())[16 + 7], 3.0f);
    CHECK_EQ(standin.count("graphExecute test in=1,registered"), 3u);
    // Registered once each: by descriptor, and by descriptor and offset.
    CHECK_EQ(standin.lines("memRegister"),
             std::vector<std::string>({"memRegister kind=1 dims=1x8 type=232",
                                       "memRegister custom kind=1 size=32 offset=64 dims=1x8 type=232"}));
    const auto [fd, offset] = y.export_fd();
    qr::Memory again = qr::Memory::import(made, fd, 4096 - 64, 64);
    close(fd);
    CHECK_EQ(offset, 0u);
    std::vector<qr::Tensor> ins{in}, outs{out};
    outs[0].memory = again.get(), outs[0].memory_offset = 32;
    made.run(ins, outs);
    CHECK_EQ(static_cast<float *>(y.data())[(4096 - 64 + 32) / 4], 3.0f);
    CHECK_EQ(standin.count("memDeRegister"), 0u);
  }
  CHECK_EQ(standin.count("memDeRegister"), 3u);
  // Where the library refuses it, as the emulator does, it is an error; without the option the bytes go as they are.
  standin.tell("fail=memRegister:1000");
  qr::Memory x(made, 4096);
  qr::Tensor in(QR_DTYPE_F32, {1, 8}, nullptr);
  in.memory = x.get();
  std::vector<qr::Tensor> ins{in}, outs(1);
  CHECK(says(failure([&] { made.run(ins, outs); }, QR_UNSUPPORTED),
             {"memRegister (enable_htp_shared_memory_allocator=1)", "1000 NotSupported"}));
  qr::Session plain = session(runtime);
  plain.run(ins, outs);
}

TEST_CASE("priorities: what waits runs in their order") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session busy = session(runtime, {}, relu_model(8, "busy"));
  qr::Session low = session(runtime, {{"qnn_context_priority", "low"}}, relu_model(8, "low")),
              normal = session(runtime, {}, relu_model(8, "normal")),
              high = session(runtime, {{"qnn_context_priority", "high"}}, relu_model(8, "high")),
              efficient = session(runtime, {{"qnn_context_priority", "high"}}, relu_model(8, "efficient"));
  efficient.set_option("ep.dynamic.workload_type", "Efficient");
  CHECK(standin.has("  context 1=0"));
  standin.begin_log();
  standin.tell("slow=graphExecute:500000");
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  const auto start = [&](qr::Session &which) {
    threads.emplace_back([&] { wrong += !run(which); });
    usleep(5000);
  };
  start(busy);
  while (standin.count("graphExecute") == 0) usleep(1000);
  standin.tell("");  // the others are there long before that one ends, and take no time
  for (qr::Session *which : {&efficient, &low, &normal, &high}) start(*which);
  for (std::thread &thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
  std::string order;
  for (const std::string &line : standin.lines("graphExecute "))
    order += line.substr(13, line.find(' ', 13) - 13) + " ";
  CHECK_EQ(order, "busy high normal low efficient ");
}

TEST_CASE("eight threads, two sessions: each gets its own results") {
  const Standin standin;
  standin.end_log();
  qr::Runtime runtime;
  qr::Session one = session(runtime), two = session(runtime, {{"qnn_context_priority", "high"}});
  std::vector<std::thread> threads;
  std::vector<qr::Session> clones;
  for (int t = 0; t < 8; ++t) clones.push_back((t % 2 ? one : two).clone());
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      qr::Session &mine = clones[static_cast<std::size_t>(t)];
      for (int i = 0; i < 500; ++i) {
        float x[8], y[8] = {};
        std::fill_n(x, 8, static_cast<float>(1000 * t + i));
        std::vector<qr::Tensor> in{qr::Tensor::of(x, {1, 8})}, out{qr::Tensor::of(y, {1, 8})};
        mine.run(in, out);
        wrong += !std::equal(x, x + 8, y);
      }
    });
  for (std::thread &thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

TEST_CASE("a run that hangs ends by abort and by deadline, where the library has signals") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime);
  standin.tell("hang=graphExecute");
  qr::Signal signal(runtime);
  const auto begin = std::chrono::steady_clock::now();
  std::thread aborts([&] {
    usleep(50000);
    signal.abort();
  });
  CHECK(says(failure([&] { run(made, &signal); }, QR_CANCELLED), {"run"}));
  aborts.join();
  CHECK_EQ(standin.count("signalTrigger"), 1u);
  signal.reset();
  signal.set_timeout(std::chrono::milliseconds(50));
  CHECK(says(failure([&] { run(made, &signal); }, QR_DEADLINE_EXCEEDED), {"run"}));
  CHECK_LT(ms_since(begin), 5000.0);
  standin.tell("");
  CHECK(run(made));
}

TEST_CASE("a compilation that hangs ends by abort, where the library has signals") {
  const Standin standin("hang=graphFinalize");
  qr::Runtime runtime;
  const std::string text = relu_model();
  const qr::Model model(runtime, text.data(), text.size());
  const qr::Options given = options(runtime);
  qr::Signal signal(runtime);
  signal.set_timeout(std::chrono::milliseconds(100));
  CHECK(says(failure([&] { model.compile("/tmp/quarry-standin-never.qrm", &given, &signal); }, QR_DEADLINE_EXCEEDED),
             {"compile"}));
}

TEST_CASE("a load that hangs ends by abort and by deadline, where the library has signals") {
  const Standin standin;
  qr::Runtime runtime;
  const std::string text = relu_model(), path = "/tmp/quarry-standin-load-" + std::to_string(getpid()) + ".qrm";
  const qr::Options given = options(runtime);
  qr::Model(runtime, text.data(), text.size()).compile(path.c_str(), &given);
  const qr::Model model(runtime, path.c_str());
  const std::size_t before = standin.count("contextCreateFromBinaryWithSignal");
  standin.tell("hang=contextCreateFromBinary");
  qr::Signal signal(runtime);
  signal.set_timeout(std::chrono::milliseconds(50));
  const auto begin = std::chrono::steady_clock::now();
  CHECK(says(failure([&] { qr::Session(model, &given, &signal); }, QR_DEADLINE_EXCEEDED), {"load"}));
  CHECK_LT(ms_since(begin), 5000.0);
  CHECK_EQ(standin.count("contextCreateFromBinaryWithSignal"), before + 1);
  CHECK_EQ(standin.count("signalTrigger"), 1u);
  standin.tell("");
  qr::Session made(model, &given);  // without a signal by the other call
  CHECK_EQ(standin.count("contextCreateFromBinaryWithSignal"), before + 1);
  CHECK(run(made));
  std::remove(path.c_str());
}

TEST_CASE("without signals a run ends when the library does, and those that wait end at once") {
  const Standin standin("fail=signalCreate:1000;slow=graphExecute:200000");
  qr::Runtime runtime;
  qr::Session made = session(runtime), other = session(runtime);
  qr::Signal signal(runtime);
  signal.set_timeout(std::chrono::milliseconds(20));
  const auto begin = std::chrono::steady_clock::now();
  CHECK(says(failure([&] { run(made, &signal); }, QR_DEADLINE_EXCEEDED), {"run"}));
  CHECK_GE(ms_since(begin), 200.0);
  std::thread busy([&] { run(made); });
  usleep(50000);
  qr::Signal short_one(runtime);
  short_one.set_timeout(std::chrono::milliseconds(20));
  const auto waited = std::chrono::steady_clock::now();
  CHECK(says(failure([&] { run(other, &short_one); }, QR_DEADLINE_EXCEEDED), {"run"}));
  CHECK_LT(ms_since(waited), 120.0);
  busy.join();
}

TEST_CASE("a lost device: reported as such, and brought back with its sessions") {
  for (const char *error : {"1011", "1007"}) {
    CAPTURE(error);
    const Standin standin;
    qr::Runtime runtime;
    qr::Session made = session(runtime, {{"htp_performance_mode", "balanced"}}), other = session(runtime);
    CHECK(run(made));
    standin.tell(std::string("fail=graphExecute:") + error + ":1:1");
    CHECK(says(failure([&] { run(made); }, QR_DEVICE_LOST), {"graphExecute", error, "qr_session_recover"}));
    CHECK(says(failure([&] { run(other); }, QR_DEVICE_LOST), {"QR-R0009"}));
    standin.begin_log();
    made.recover();
    CHECK_EQ(standin.count("contextFree"), 2u);
    CHECK_EQ(standin.count("deviceCreate"), 1u);
    CHECK_EQ(standin.count("contextCreateFromBinary"), 2u);
    CHECK((run(made) && run(other)));
    CHECK_EQ(standin.count("createPowerConfigId"), 1u);
  }
}

TEST_CASE("a recovery that fails leaves the device lost") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime);
  standin.tell("fail=graphExecute:1011:1:1");
  failure([&] { run(made); }, QR_DEVICE_LOST);
  for (const char *call : {"deviceCreate:14001", "contextCreateFromBinary:5000"}) {
    standin.tell(std::string("fail=") + call);
    CHECK(says(failure([&] { made.recover(); }, QR_DEVICE_LOST), {"the device is still lost", "error"}));
    failure([&] { run(made); }, QR_DEVICE_LOST);
  }
  standin.tell("");
  made.recover();
  CHECK(run(made));
}

#ifdef __x86_64__
TEST_CASE("the emulator has one VTCM: sessions of another size are refused by name") {
  const Standin standin;
  qr::Runtime runtime;
  const std::string model = relu_model();
  const qr::Model opened(runtime, model.data(), model.size());
  const qr::Options small = options(runtime, {{"soc_model", "SM8350"}});
  const std::string target = "/tmp/quarry-standin-" + std::to_string(getpid()) + ".qrm";
  const auto compile = [&] { opened.compile(target, &small); };
  {
    qr::Session first = session(runtime);
    const auto says_why = [](const std::string &text, const char *what) {
      return says(text, {"sessions for SM8650 (57, v75) open", what, "SM8350 (30, v68)", "8 MB", "4", "child"});
    };
    CHECK(says_why(failure([&] { qr::Session(opened, &small); }, QR_BUSY), "a compilation for"));
    CHECK(says_why(failure(compile, QR_BUSY), "a compilation for"));
    CHECK_FALSE(opened.check_nodes(small).empty());
    qr::Session same_size = session(runtime, {{"soc_model", "SM8750"}});
    CHECK((run(first) && run(same_size)));
    first = qr::Session();
    CHECK(says(failure(compile, QR_BUSY), {"sessions for"}));
  }
  compile();
  CHECK_EQ(unlink(target.c_str()), 0);
  qr::Session second(opened, &small);
  CHECK(run(second));
  CHECK(says(failure([&] { session(runtime); }, QR_BUSY), {"SM8350 (30, v68) open", "SM8650"}));
}
#endif

TEST_CASE("bytes of a bool are 0 and 1 on the device") {
  const Standin standin;
  qr::Runtime runtime;
  ModelText text(13);
  text.input("x", {1, 8}, onnx::TensorProto::BOOL);
  text.node("Not", {"x"}, {"y"});
  text.output("y", {1, 8}, onnx::TensorProto::BOOL);
  qr::Session made = session(runtime, {}, text.bytes());
  const std::uint8_t x[8] = {0, 1, 2, 255, 128, 1, 0, 7}, expected[8] = {0, 1, 1, 1, 1, 1, 0, 1};
  std::uint8_t y[8] = {};
  std::vector<qr::Tensor> in{qr::Tensor(QR_DTYPE_BOOL, {1, 8}, const_cast<std::uint8_t *>(x))},
      out{qr::Tensor(QR_DTYPE_BOOL, {1, 8}, y)};
  made.run(in, out);
  CHECK(std::equal(y, y + 8, expected));
}

TEST_CASE("libraries of other versions, and with holes") {
  const auto refused = [](const char *script, std::initializer_list<const char *> parts) {
    CAPTURE(script);
    const Standin standin(script);
    qr::Runtime runtime;
    CHECK(says(failure([&] { session(runtime); }, QR_UNAVAILABLE), parts));
  };
  refused("core=2.17.0", {"QNN interface 2.17.0", "expected 2.18"});
  refused("core=3.0.0", {"QNN interface 3.0.0"});
  refused("htp=4.9.0", {"HTP interface 4.9.0", "expected 5.x"});
  refused("backend=4", {"QNN backend 4", "expected backend 6, HTP"});
  refused("null=graphExecute", {"a table without functions that are needed"});
  // A short table: what lies behind it is not called, and the option that needs it says so.
  const Standin old("core=2.18.0;slots=62");
  qr::Runtime runtime;
  qr::Session made = session(runtime);
  CHECK(run(made));
  CHECK(says(failure(
                 [&] {
                   session(runtime, {{"htp.data_provider", "1"}});
                 },
                 QR_UNAVAILABLE),
             {"no contextCreateFromBinaryWithCallback", "core 2.18.0"}));
  // Both layouts of the device's configuration.
  const Standin narrow("htp=5.46.0");
  qr::Runtime another;
  session(another, {{"htp.signed_pd", "1"}});
  CHECK((narrow.has("  device.soc=57") && narrow.has("  device.signed_pd=1")));
}

TEST_CASE("measured runs: the library's names and units") {
  const Standin standin;
  qr::Runtime runtime;
  for (const auto &[level, word] : {std::pair{"basic", "profileCreate level=1"},
                                    {"detailed", "profileCreate level=2"},
                                    {"linting", "profileCreate level=7001"},
                                    {"optrace", "profileSetConfig 2=1"}}) {
    CAPTURE(level);
    const std::string path = "/tmp/quarry-standin-" + std::to_string(getpid()) + ".csv";
    const bool traces = std::string_view(level) == "optrace";
    {
      qr::Session made = session(
          runtime, {{"profiling_level", level}, {"profiling_file_path", path}, {"htp.optrace", traces ? "1" : "0"}});
      standin.begin_log();
      CHECK(run(made));
    }
    std::ifstream file(path);
    const std::string csv{std::istreambuf_iterator<char>(file), {}};
    unlink(path.c_str());
    CHECK(says(csv, {"graphExecute", "Number of HVX threads used=4 count", "Accelerator (execute) time=20 us",
                     "QNN (execute) time=30 us"}));
    CHECK_EQ(standin.count(word), 1u);
    const bool has_nodes = std::string_view(level) != "basic";
    const bool lints = std::string_view(level) == "linting";
    // At linting the main thread's waits stand before what it does.
    const char *const node =
        lints ? ",the_relu,node,Relu,0,0,device_cycles,5,105,100," : ",the_relu,node,Relu,0,0,device_cycles,0,100,100,";
    CHECK_EQ(csv.find(node) != std::string::npos, has_nodes);
    CHECK_EQ(csv.find("resources=HMX, DMA") != std::string::npos, lints);
    CHECK_EQ(csv.find("Overlap time with=another:OpId_8, Output OpId_3") != std::string::npos, lints);
    CHECK_EQ(csv.find("Accelerator (critical path execute) time (cycles)=1000 cycles") != std::string::npos, lints);
    CHECK_EQ(csv.find("Wait (Scheduler) time=5 cycles; Overlap time=6 cycles") != std::string::npos, lints);
  }
}

TEST_CASE("objects of a trace are files, where there is a folder for them") {
  const Standin standin;
  qr::Runtime runtime;
  const std::string folder = "/tmp/quarry-standin-traces-" + std::to_string(getpid()), path = folder + "/run.csv";
  std::filesystem::create_directory(folder);
  const auto measured = [&](const std::string &to) {
    {
      qr::Session made = session(runtime, {{"profiling_level", "optrace"},
                                           {"profiling_file_path", path},
                                           {"htp.optrace", "1"},
                                           {"htp.optrace_dir", to}});
      CHECK(run(made));
    }
    std::ifstream file(path);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const std::string csv = measured(folder);
  const std::size_t at = csv.find("Trace=" + folder + "/graphExecute-");
  REQUIRE(at != csv.npos);
  std::ifstream file(csv.substr(at + 6, csv.find(".bin", at) + 4 - at - 6));
  CHECK_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "a trace");
  CHECK_EQ(standin.count("profileGetExtendedEventData version=1"), 1u);
  standin.tell("fail=profileGetExtendedEventData:12000");
  CHECK(measured(folder).find("Trace=12000") != std::string::npos);
  standin.tell("");
  CHECK(measured("/nowhere/at/all").find("Trace=htp.optrace_dir: ") != std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_CASE("200 times made, run and ended: memory stays") {
  const Standin standin;
  standin.end_log();
  qr::Runtime runtime;
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    long all = 0, pages = 0;
    file >> all >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  [[maybe_unused]] long before = 0;
  for (int i = 0; i < 200; ++i) {
    qr::Session made = session(runtime, {{"htp_performance_mode", "balanced"}});
    CHECK(run(made));
    if (i == 40) before = resident();
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep what was freed
  CHECK_LT(resident() - before, 1 << 20);
#endif
}

TEST_CASE("what a run costs beside the library's own work") {
  const Standin standin;
  standin.end_log();
  qr::Runtime runtime;
  qr::Session made = session(runtime);
  float x[8] = {}, y[8] = {};
  std::vector<qr::Tensor> in{qr::Tensor::of(x, {1, 8})}, out{qr::Tensor::of(y, {1, 8})};
  // The stand-in called directly, for comparison.
  const std::string library = std::string(QR_STANDIN_FOLDER) + "/libQnnHtp.so";
  const auto query = reinterpret_cast<quarry::qnn::GetProvidersFn>(
      dlsym(dlopen(library.c_str(), RTLD_NOW), "QnnInterface_getProviders"));
  const quarry::qnn::Provider **providers = nullptr;
  std::uint32_t count = 0;
  REQUIRE_EQ(query(&providers, &count), 0u);
  const quarry::qnn::Api &api = providers[0]->api;
  quarry::qnn::Handle backend = nullptr, context = nullptr, graph = nullptr;
  REQUIRE_EQ(api.backendCreate(nullptr, nullptr, &backend), 0u);
  REQUIRE_EQ(api.contextCreate(backend, nullptr, nullptr, &context), 0u);
  REQUIRE_EQ(api.graphCreate(context, "direct", nullptr, &graph), 0u);
  std::uint32_t dims[2] = {1, 8};
  quarry::qnn::Tensor tensors[2] = {};
  for (int i = 0; i < 2; ++i) {
    tensors[i].version = 1;
    tensors[i].v1.name = i ? "y" : "x", tensors[i].v1.rank = 2, tensors[i].v1.dims = dims;
    tensors[i].v1.type = i ? quarry::qnn::TensorType::AppRead : quarry::qnn::TensorType::AppWrite;
    tensors[i].v1.dtype = quarry::qnn::DataType::F32;
    REQUIRE_EQ(api.tensorCreateGraphTensor(graph, &tensors[i]), 0u);
    tensors[i].v1.buf = {i ? y : x, sizeof x};
  }
  REQUIRE_EQ(api.graphFinalize(graph, nullptr, nullptr), 0u);
  const auto best = [&](auto &&body) {
    double least = 1e9;
    for (int round = 0; round < 50; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < 200; ++i) body();
      least = std::min(least, ms_since(begin) * 1000 / 200);
    }
    return least;
  };
  const double ours = best([&] { made.run(in, out); });
  const double direct =
      best([&] { REQUIRE_EQ(api.graphExecute(graph, &tensors[0], 1, &tensors[1], 1, nullptr, nullptr), 0u); });
  MESSAGE("us a run: ", ours, ", of which the stand-in's own call takes ", direct);
  CHECK_EQ(api.contextFree(context, nullptr), 0u);
  CHECK_EQ(api.backendFree(backend), 0u);
}
