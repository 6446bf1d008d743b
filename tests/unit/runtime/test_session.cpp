// SPDX-License-Identifier: Apache-2.0
// Sessions from a model in memory and from the container made of it, on cpu: shape buckets, rooms for outputs, memory,
// reports. Expected values are worked out by hand: y = x + 10.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "quarry/quarry.hpp"
#include "tests/support/check.h"
#include "tests/unit/runtime/fake_prepare.h"

namespace {

using Pairs = std::initializer_list<std::pair<std::string_view, std::string_view>>;

std::string error_of(qr_status *status) {
  if (!status) return "success";
  const qr::Error error(status);
  return error.id() + ": " + error.message();
}

template <class Call>
std::string thrown(Call call) {
  try {
    call();
  } catch (const qr::Error &error) {
    return error.what();
  }
  return "success";
}

struct Logged {
  std::string lines;
  static void write(void *self, qr_log_level, std::uint32_t, qr_string, qr_string message) {
    static_cast<Logged *>(self)->lines += std::string(message.data, message.size) + "\n";
  }
};

qr::Runtime make_runtime(Logged *log = nullptr) {
  qr_log_sink sink = QR_LOG_SINK_INIT;
  sink.level = QR_LOG_INFO;
  sink.self = log;
  sink.write = Logged::write;
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  if (log) options.log = &sink;
  return qr::Runtime(options);
}

std::string scratch(const char *name) { return "test_session_" + std::to_string(getpid()) + "_" + name; }

const std::vector<float> kSix = {0, 1, 2, 0, 4, 5};
const std::vector<float> kSixPlusTen = {10, 11, 12, 10, 14, 15};

std::vector<float> floats(const qr::Tensor &tensor) {
  const float *data = tensor.data<float>();
  return data ? std::vector<float>(data, data + tensor.size_bytes / 4) : std::vector<float>();
}

}  // namespace

TEST_CASE("from the model") {
  const qr::Runtime runtime = make_runtime();
  const qr::Model model(runtime, kFakeOnnx, sizeof kFakeOnnx);
  CHECK_EQ(model.input_count(), 1);
  CHECK_EQ(model.input(0).dims[0], QR_DIM_UNKNOWN);
  qr_string name;
  qr::check(qr_model_input_dim_name(model.get(), 0, 1, &name));
  CHECK_EQ(qr::from_c(name), "columns");
  CHECK(model.inspect().find("\"producer\": \"fake\"") != std::string::npos);

  CHECK_EQ(thrown([&] { qr::Session session(model); }), "QR-O0008: input x: its dimension rows is symbolic");
  const qr::Options options(runtime, {{"shape", "x=2x3"}});
  qr::Session session(model, &options);
  CHECK_EQ(session.input(0).dims[1], 3);
  CHECK_EQ(session.input(0).size_bytes, 24);
  CHECK_EQ(session.output(1).dims[1], QR_DIM_UNKNOWN);
  const auto results = session.run({qr::Tensor::of(kSix.data(), {2, 3})});
  CHECK(floats(results[0]) == kSixPlusTen);
  CHECK((results[1].shape() == std::vector<std::int64_t>{2, 4}));
  const std::int64_t indices[] = {0, 0, 1, 1, 1, 2, 1, 2};
  CHECK(
      (results[1].data<std::int64_t>() && std::memcmp(results[1].data<std::int64_t>(), indices, sizeof indices) == 0));
}

TEST_CASE("everything is freed") {
  {
    qr::Runtime runtime = make_runtime();
    qr::Model model(runtime, kFakeOnnx, sizeof kFakeOnnx);
    qr::Options options(runtime, {{"shape", "x=2x3"}});
    qr::Session session(model, &options), clone = session.clone();
    { const qr::Runtime gone = std::move(runtime); }  // the parents first
    { const qr::Model gone = std::move(model); }
    { const qr::Session gone = std::move(session); }
    CHECK(floats(clone.run({qr::Tensor::of(kSix.data(), {2, 3})})[0]) == kSixPlusTen);
  }
  CHECK_EQ(fake_prepare_alive(), 0);
}

TEST_CASE("shape buckets") {
  const qr::Runtime runtime = make_runtime();
  const qr::Model model(runtime, kFakeOnnx, sizeof kFakeOnnx);
  qr::Options options(runtime, {{"shape", "x=2x3"}, {"shape", "x=1x3;x=4x3"}});
  const std::string path = scratch("buckets.qrm");
  model.compile(path, &options);
  const qr::Model container(runtime, path);
  CHECK_EQ(container.input(0).dims[0], QR_DIM_UNKNOWN);
  CHECK_EQ(container.input(0).dims[1], 3);
  container.verify();
  qr::Session sessions[] = {qr::Session(model, &options), qr::Session(container)};
  for (qr::Session &session : sessions) {
    for (const std::int64_t rows : {1, 4, 2, 4}) {
      const std::vector<float> x(static_cast<std::size_t>(rows) * 3, 1.0f);
      const auto results = session.run({qr::Tensor::of(x.data(), {rows, 3})});
      CHECK((results[0].shape() == std::vector<std::int64_t>{rows, 3}));
      CHECK(floats(results[0]) == std::vector<float>(x.size(), 11.0f));
    }
    const std::vector<float> x(9);
    CHECK_EQ(thrown([&] {
               session.run({qr::Tensor::of(x.data(), {3, 3})});
             }),
             "QR-R0003: input x: found [3,3], expected [2,3] or [1,3] or [4,3]");
  }
  unlink(path.c_str());
}

TEST_CASE("what a run refuses") {
  const qr::Runtime runtime = make_runtime();
  const qr::Model model(runtime, kFakeOnnx, sizeof kFakeOnnx);
  const qr::Options options(runtime, {{"shape", "x=2x3"}});
  qr::Session session(model, &options), other(model, &options);
  qr::Tensor x = qr::Tensor::of(kSix.data(), {2, 3}), y;
  qr_tensor *outputs[] = {&y, nullptr};
  const auto run = [&] {
    const qr_tensor *inputs[] = {&x};
    return error_of(qr_session_run(session.get(), nullptr, inputs, 1, outputs, 2));
  };
  CHECK_EQ(run(), "success");
  x.dtype = QR_DTYPE_F64;
  CHECK_EQ(run(), "QR-R0002: input x: found f64 (data type 11), expected f32");
  x = qr::Tensor::of(kSix.data(), {3, 2});
  CHECK_EQ(run(), "QR-R0003: input x: found [3,2], expected [2,3]");
  x = qr::Tensor::of(kSix.data(), {2, 3});
  x.size_bytes = 20;
  CHECK_EQ(run(), "QR-R0003: input x: size_bytes is 20, expected 24 for f32 [2,3]");
  x.size_bytes = 0;  // not reported
  CHECK_EQ(run(), "success");
  x.const_data = nullptr;
  CHECK_EQ(run(), "QR-R0004: input x: neither data nor memory is set, expected 24 bytes of f32 [2,3]");
  x = qr::Tensor::of(kSix.data(), {2, 3});

  float few[5];
  y = qr::Tensor();
  y.qr_tensor::data = few;
  y.size_bytes = sizeof few;
  CHECK_EQ(run(), "QR-R0005: output y: found room for 20 bytes, expected at least 24 for f32 [2,3]");
  CHECK_EQ(y.rank, 0);  // outputs are untouched
  std::vector<float> both = kSix;
  x = y = qr::Tensor::of(both, {2, 3});
  CHECK_EQ(run(), "QR-R0006: input x: its data lie where this run writes output y, expected memory of its own");

  // Memory is the device's: that of another session serves, that of another runtime does not.
  const qr::Runtime elsewhere = make_runtime();
  const qr::Model same(elsewhere, kFakeOnnx, sizeof kFakeOnnx);
  const qr::Options shape(elsewhere, {{"shape", "x=2x3"}});
  const qr::Session stranger(same, &shape);
  const qr::Memory foreign(stranger, 64), shared(other, 64), own(session, 64);
  y = qr::Tensor();
  y.memory = foreign.get();
  CHECK_EQ(
      run(),
      "QR-R0006: output y: found memory of device 0 of backend cpu in another runtime, expected device 0 of backend "
      "cpu in this one");
  y = qr::Tensor();
  y.memory = shared.get();
  CHECK_EQ(run(), "success");
  y = qr::Tensor();
  y.memory = own.get();
  y.memory_offset = 48;
  CHECK_EQ(run(), "QR-R0005: output y: found room for 16 bytes, expected at least 24 for f32 [2,3]");
  y.memory_offset = 32;
  CHECK_EQ(run(), "success");
  CHECK(std::memcmp(static_cast<char *>(own.data()) + 32, kSixPlusTen.data(), 24) == 0);
  y.qr_tensor::data = few;
  CHECK_EQ(run(), "QR-R0006: output y: both data and memory are set, expected one of them");

  x.struct_size = 4;
  CHECK_EQ(run(), "QR-C0003: qr_session_run: qr_tensor inputs[0].struct_size is 4, expected at least 120");
  CHECK_EQ(error_of(qr_session_run(session.get(), nullptr, nullptr, 0, outputs, 2)),
           "QR-R0001: qr_session_run: found 0 inputs, expected 1");
  const qr_tensor *inputs[] = {nullptr};
  CHECK_EQ(error_of(qr_session_run(session.get(), nullptr, inputs, 1, outputs, 1)),
           "QR-R0011: qr_session_run: found 1 outputs, expected 2");
  CHECK_EQ(error_of(qr_session_run(session.get(), nullptr, inputs, 1, outputs, 2)),
           "QR-C0002: qr_session_run: inputs[0] is NULL, expected a pointer");
}

TEST_CASE("output rooms") {
  const qr::Runtime runtime = make_runtime();
  const qr::Model model(runtime, kFakeOnnx, sizeof kFakeOnnx);
  const qr::Options options(runtime, {{"shape", "x=2x3;x=4x3"}});
  qr::Session session(model, &options);
  const std::vector<float> twelve(12, 1.0f);
  const qr::Tensor small = qr::Tensor::of(kSix.data(), {2, 3}), large = qr::Tensor::of(twelve.data(), {4, 3});
  // The session's own memory comes back with the next run, which may need more of it.
  std::vector<qr::Tensor> outputs(2);
  session.run({small}, outputs);
  session.run({large}, outputs);
  CHECK(floats(outputs[0]) == std::vector<float>(12, 11.0f));
  session.run({small}, outputs);
  CHECK(floats(outputs[0]) == kSixPlusTen);
  // Room of the caller's, more than is needed; and for an output whose shape the run finds out.
  float y[12];
  std::int64_t found[24];
  outputs[0] = qr::Tensor::of(y, {12});
  outputs[1] = qr::Tensor::of(found, {24});
  session.run({small}, outputs);
  CHECK((outputs[0].qr_tensor::data == y && outputs[0].size_bytes == 24 && y[5] == 15.0f));
  CHECK((outputs[1].qr_tensor::data == found && outputs[1].size_bytes == 64 && found[5] == 2));
  outputs[0] = qr::Tensor::of(y, {12});
  outputs[1] = qr::Tensor::of(found, {3});
  CHECK_EQ(thrown([&] { session.run({small}, outputs); }),
           "QR-R0005: output nonzero: found room for 24 bytes, expected at least 64 for i64 [2,4]");
}

TEST_CASE("containers") {
  Logged log;
  const qr::Runtime runtime = make_runtime(&log);
  const qr::Model model(runtime, kFakeOnnx, sizeof kFakeOnnx);
  const std::string path = scratch("kept.qrm"), bare = scratch("bare.qrm"), again = scratch("again.qrm");
  const qr::Options options(runtime, {{"shape", "x=2x3"}, {"metadata.author", "me"}});
  model.compile(path, &options);
  const qr::Options slim(runtime, {{"shape", "x=2x3"}, {"container.keep_graph", "0"}});
  model.compile(bare, &slim);

  const qr::Model kept(runtime, path), stripped(runtime, bare);
  // What the model says of itself comes along, as far as a container can hold it; the caller's word counts more.
  CHECK(kept.inspect().find("\"author\": \"me\"") != std::string::npos);
  CHECK(kept.inspect().find("\"names\": \"{0: 'a'}\"") != std::string::npos);
  CHECK(kept.inspect().find("\"source\": \"fake 1.0\"") != std::string::npos);
  CHECK(stripped.inspect().find("\"author\": \"somebody\"") != std::string::npos);
  for (const char *part : {"metadata \"\" is left out of the container: its key is empty",
                           "metadata \"names\" is left out of the container: its key stands twice",
                           "is left out of the container: it is not UTF-8"})
    CHECK(log.lines.find(part) != std::string::npos);
  CHECK(kept.inspect().find("\"Add\": 1") != std::string::npos);
  qr::Session session(kept);
  CHECK(floats(session.run({qr::Tensor::of(kSix.data(), {2, 3})})[0]) == kSixPlusTen);
  CHECK(floats(qr::Session(stripped).run({qr::Tensor::of(kSix.data(), {2, 3})})[0]) == kSixPlusTen);
  kept.compile(again);  // from the kept graph
  CHECK(qr::Model(runtime, again).inspect().find("\"source\": \"fake 1.0\"") != std::string::npos);
  CHECK(qr::Model(runtime, again).inspect().find("\"author\": \"me\"") != std::string::npos);
  CHECK(floats(qr::Session(qr::Model(runtime, again)).run({qr::Tensor::of(kSix.data(), {2, 3})})[0]) == kSixPlusTen);
  CHECK(thrown([&] { stripped.compile(again); }).find("QR-M0010") == 0);
  CHECK(thrown([&] { qr::Session(kept, &options); }).find("QR-C0103: option shape: ") == 0);
  qr_compatibility grade = 0;
  char *reason = nullptr;
  qr::check(qr_model_compatibility(kept.get(), nullptr, nullptr, &grade, &reason));
  CHECK_EQ(grade, QR_COMPATIBILITY_OPTIMAL);
  const qr::Text told(reason);
  CHECK(log.lines.find("on backend cpu") != std::string::npos);

  char *json = nullptr;
  qr::check(qr_session_report(session.get(), &json));
  const std::string report = qr::Text(json).str();
  for (const char *part :
       {"\"backend\": \"cpu\"", "\"source\": \"container\"", "\"grade\": \"optimal\"", "\"nodes\": 2"})
    CHECK(report.find(part) != std::string::npos);
  for (const std::string &file : {path, bare, again}) unlink(file.c_str());
}

// A container serves every backend that takes its graph, not only the one that it was compiled for.
TEST_CASE("containers of another backend") {
  const qr::Runtime runtime = make_runtime();
  const qr::Model model(runtime, kFakeOnnx, sizeof kFakeOnnx);
  const std::string path = scratch("reference.qrm"), bare = scratch("reference_bare.qrm");
  qr::Options options(runtime, {{"shape", "x=2x3"}, {"backend", "cpu-reference"}});
  model.compile(path, &options);
  options.set("container.keep_graph", "0");
  model.compile(bare, &options);
  const qr::Model kept(runtime, path), stripped(runtime, bare);
  for (const char *when : {"wait", "background"}) {
    const qr::Options on_cpu(runtime, {{"backend", "cpu"}, {"context.recompile", when}});
    qr::Session session(kept, &on_cpu);
    CHECK(floats(session.run({qr::Tensor::of(kSix.data(), {2, 3})})[0]) == kSixPlusTen);
    CHECK(session.report().find("\"source\": \"recompiled\"") != std::string::npos);
  }
  const qr::Options never(runtime, {{"backend", "cpu"}, {"context.recompile", "never"}}),
      plain(runtime, {{"backend", "cpu"}});
  CHECK(thrown([&] { qr::Session(kept, &never); }).find("QR-M0009: ") == 0);
  CHECK(thrown([&] { qr::Session(stripped, &plain); }).find("QR-M0009: ") == 0);
  const auto [grade, reason] = kept.compatibility(plain);
  CHECK_EQ(grade, QR_COMPATIBILITY_RECOMPILE);
  CHECK_EQ(reason, "the container has no context of backend cpu, but its portable graph");
  for (const std::string &file : {path, bare}) unlink(file.c_str());
}

TEST_CASE("how weights are stored is asked of the container") {
  const qr::Runtime runtime = make_runtime();
  const qr::Model model(runtime, kFakeOnnx, sizeof kFakeOnnx);
  const std::string path = scratch("weights.qrm");
  const qr::Options half(runtime, {{"shape", "x=2x3"}, {"cpu.weights", "f16"}}),
      exact(runtime, {{"cpu.weights", "exact"}}),
      never(runtime, {{"cpu.weights", "exact"}, {"context.recompile", "never"}});
  model.compile(path, &half);
  const qr::Model container(runtime, path);
  const auto weights = [](const qr::Session &session, const char *word) {
    return session.report().find(std::string("\"cpu.weights\": \"") + word + "\"") != std::string::npos;
  };
  const qr::Session as_it_is(container);
  CHECK((weights(as_it_is, "f16") && !weights(as_it_is, "exact")));
  const qr::Session again(container, &exact);
  CHECK((weights(again, "exact") && !weights(again, "f16")));
  CHECK(again.report().find("\"source\": \"recompiled\"") != std::string::npos);
  const std::string refused = thrown([&] { qr::Session(container, &never); });
  CHECK(refused.find("QR-M0012: ") == 0);
  CHECK(refused.find("cpu.weights: compiled with \"f16\", asked for \"exact\"") != std::string::npos);
  unlink(path.c_str());
}

TEST_CASE("options for other backends") {
  Logged log;
  const qr::Runtime runtime = make_runtime(&log);
  const qr::Model model(runtime, kFakeOnnx, sizeof kFakeOnnx);
  const qr::Options options(runtime, {{"shape", "x=2x3"}, {"htp_performance_mode", "burst"}});
  qr::Session session(model, &options);
  CHECK(log.lines.find("option htp_performance_mode is not one of backend cpu: it has no effect") != std::string::npos);
  session.set_option("ep.dynamic.workload_type", "Efficient");
  CHECK_EQ(thrown([&] { session.set_option("threads", "2"); }),
           "QR-C0104: option threads: it cannot change while the session lives");
  CHECK(thrown([&] { session.set_option("thread", "2"); }).find("QR-C0101") == 0);
  char *json = nullptr;
  qr::check(qr_session_report(session.get(), &json));
  const std::string report = qr::Text(json).str();
  CHECK(report.find("\"ignored_options\": {\n    \"htp_performance_mode\": \"burst\",\n    "
                    "\"ep.dynamic.workload_type\": \"Efficient\"") != std::string::npos);
}

TEST_CASE("kept contexts and profiles") {
  const std::string path = scratch("ctx.qrm"), csv = scratch("profile.csv");
  const qr::Runtime runtime = make_runtime();
  const qr::Model model(runtime, kFakeOnnx, sizeof kFakeOnnx);
  qr::Options options(runtime, {{"shape", "x=2x3"}, {"ep.context_enable", "1"}});
  CHECK(thrown([&] { qr::Session(model, &options); }).find("QR-C0103: option ep.context_file_path: ") == 0);
  options.set("ep.context_file_path", path).set("profiling_level", "detailed").set("profiling_file_path", csv);
  {
    qr::Session session(model, &options);
    session.run({qr::Tensor::of(kSix.data(), {2, 3})});
  }
  CHECK_EQ(access(path.c_str(), R_OK), 0);
  CHECK_EQ(access(csv.c_str(), R_OK), 0);
  qr::Session session{qr::Model(runtime, path)};
  qr::Profile profile(runtime);
  session.run({qr::Tensor::of(kSix.data(), {2, 3})}, nullptr, &profile);
  CHECK(profile.size() >= 1);
  CHECK_EQ(qr::from_c(profile[0].kind), "run");
  CHECK(profile.export_as("chrome").find("traceEvents") != std::string::npos);
  CHECK(thrown([&] { profile.export_as("xml"); }).find("QR-C0007") == 0);
  for (const std::string &file : {path, csv}) unlink(file.c_str());
}

TEST_CASE("signals") {
  const qr::Runtime runtime = make_runtime();
  const qr::Model model(runtime, kFakeOnnx, sizeof kFakeOnnx);
  const qr::Options options(runtime, {{"shape", "x=2x3"}});
  qr::Signal signal(runtime);
  signal.abort();
  CHECK(thrown([&] { qr::Session(model, &options, &signal); }).find("QR-C0011") == 0);
  signal.reset();
  qr::Session session(model, &options, &signal);
  signal.set_timeout(std::chrono::nanoseconds(1));
  CHECK(thrown([&] { session.run({qr::Tensor::of(kSix.data(), {2, 3})}, &signal); }).find("QR-C0012") == 0);
  signal.set_timeout(qr::Signal::no_limit);
  CHECK(floats(session.run({qr::Tensor::of(kSix.data(), {2, 3})}, &signal)[0]) == kSixPlusTen);
}

TEST_CASE("files that are no models") {
  const qr::Runtime runtime = make_runtime();
  CHECK_EQ(
      thrown([&] { qr::Model(runtime, "PK\3\4", 4); }),
      "QR-F0006: the model in memory: neither an .onnx model nor a .qrm container, its 4 bytes begin with 50 4b 03 04");
  CHECK(thrown([&] { qr::Model(runtime, "", std::uint64_t{0}); }).find("QR-F0006: the model in memory: it is empty") ==
        0);
  CHECK(thrown([&] { qr::Model(runtime, "/nowhere.onnx"); }).find("QR-F0001") == 0);
}
