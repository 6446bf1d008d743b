// SPDX-License-Identifier: Apache-2.0
// Ranges of shapes on the gpu backend: one session runs every shape, right beside the backend cpu, with weights in the
// device's memory once. And what a driver does to the process that it is opened in.
#include <csignal>

#include "tests/plugins/gpu_fixture.h"

using namespace quarry::test;

namespace {

using Floats = std::vector<float>;
constexpr std::int64_t kWidth = 48;

// Attention of one head over n rows, and a projection: f32[n, 48] of f32[n, 48].
std::string attention() {
  ModelText text(13);
  text.input("x", {-1, kWidth});
  const auto weights = [&](const char *name, std::size_t step) {
    Floats values(kWidth * kWidth);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * step % 23) / 46 - 0.25f;
    text.floats(name, {kWidth, kWidth}, values);
  };
  weights("wq", 7), weights("wk", 11), weights("wv", 13), weights("wo", 17);
  text.node("MatMul", {"x", "wq"}, {"q"});
  text.node("MatMul", {"x", "wk"}, {"k"});
  text.node("MatMul", {"x", "wv"}, {"v"});
  text.node("Transpose", {"k"}, {"kt"});
  text.node("MatMul", {"q", "kt"}, {"s"});
  text.node("Softmax", {"s"}, {"p"});
  text.node("MatMul", {"p", "v"}, {"o"});
  text.node("MatMul", {"o", "wo"}, {"y"});
  text.output("y", {-1, kWidth});
  return text.bytes();
}

Floats rows(std::int64_t count) {
  Floats x(static_cast<std::size_t>(count * kWidth));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 29 % 31) / 31 - 0.5f;
  return x;
}

Floats ran(qr::Session &session, std::int64_t count) {
  Floats x = rows(count), y(x.size(), -1);
  std::vector<qr::Tensor> in{qr::Tensor::of(x.data(), {count, kWidth})}, out{qr::Tensor::of(y.data(), {count, kWidth})};
  session.run(in, out);
  CHECK_EQ(out[0].dims[0], count);
  return y;
}

// By kernels of another backend.
Floats wanted(qr::Runtime &runtime, std::int64_t count) {
  qr::Options options(runtime);
  options.set("backend", "cpu"), options.set("shape", "n=" + std::to_string(count));
  const std::string model = attention();
  qr::Session made(qr::Model(runtime, model.data(), model.size()), &options);
  return ran(made, count);
}

bool near(const Floats &a, const Floats &b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= 1e-4f)) return false;
  return true;
}

// A number of the report, as "weights_bytes" of "plans".
std::string plans_of(const qr::Session &session) {
  const std::string report = session.report();
  const std::size_t begin = report.find("\"plans\": {");
  return begin == std::string::npos ? std::string() : report.substr(begin, report.find('}', begin) - begin);
}
std::string number(const std::string &text, const std::string &key) {
  const std::size_t at = text.find("\"" + key + "\": ");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + key.size() + 4;
  return text.substr(begin, text.find_first_not_of("0123456789", begin) - begin);
}

}  // namespace

// The first case of this program: a driver sets its handlers once.
TEST_CASE("the program's handlers of signals stay, whatever the driver sets") {
  struct sigaction mine {
  }, now{};
  mine.sa_sigaction = [](int, siginfo_t *, void *) {};
  mine.sa_flags = SA_SIGINFO | SA_RESTART;
  constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM, SIGUSR2};
  for (const int number : kSignals) REQUIRE_EQ(sigaction(number, &mine, nullptr), 0);
  if (has_device()) {
    qr::Runtime runtime;
    qr::Session made = session(runtime, attention(), {{"shape", "n=1..300"}});
    CHECK(near(ran(made, 5), wanted(runtime, 5)));
  }
  mine.sa_handler = SIG_DFL, mine.sa_flags = 0;
  for (const int number : kSignals) {
    REQUIRE_EQ(sigaction(number, &mine, &now), 0);
    CHECK_NE(now.sa_flags & SA_SIGINFO, 0);
    CHECK_EQ(now.sa_flags & SA_RESTART, SA_RESTART);
  }
}

TEST_CASE("every length of a range, in one session: right, weights once, plans kept") {
  if (!has_device()) return;
  const Layer layer;
  {
    qr::Runtime runtime;
    qr::Session made = session(runtime, attention(), {{"shape", "n=1..300"}, {"shape.plans", "2"}});
    std::string weights;
    for (const std::int64_t count : {5, 64, 1, 300, 33}) {
      CHECK(near(ran(made, count), wanted(runtime, count)));
      const std::string plans = plans_of(made);
      if (weights.empty()) weights = number(plans, "weights_bytes");
      CHECK_EQ(number(plans, "weights_bytes"), weights);
    }
    CHECK_GE(std::stoul("0" + weights), 4ul * kWidth * kWidth * 4);
    const std::string plans = plans_of(made);
    CHECK_EQ(number(plans, "most") + number(plans, "kept") + number(plans, "made") + number(plans, "dropped"), "2253");
    const long builds = layer.count("sources");
    CHECK(near(ran(made, 300), wanted(runtime, 300)));
    CHECK_EQ(layer.count("sources"), builds);
    CHECK(says(failure([&] { ran(made, 301); }, QR_INVALID_ARGUMENT), {"301", "1..300"}));
  }
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("shapes of a range are planned ahead where that is asked for, and a container has the weights") {
  if (!has_device()) return;
  const Layer layer;
  const std::string path = "/tmp/quarry-gpu-range-" + std::to_string(getpid()) + ".qrm";
  {
    qr::Runtime runtime;
    qr::Options options(runtime);
    options.set("backend", "gpu"), options.set("shape", "n=1..100");
    const std::string model = attention();
    qr::Model(runtime, model.data(), model.size()).compile(path, &options);
    qr::Options opening(runtime);
    opening.set("backend", "gpu"), opening.set("shape.prepare", "7,40");
    qr::Session made(qr::Model(runtime, path), &opening);
    const long builds = layer.count("sources");
    CHECK_GE(builds, 2);
    for (const std::int64_t count : {7, 40}) CHECK(near(ran(made, count), wanted(runtime, count)));
    CHECK_EQ(layer.count("sources"), builds);
    CHECK(near(ran(made, 8), wanted(runtime, 8)));
  }
  unlink(path.c_str());
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("plans of a range are made anew after a lost device, and each failure of the driver leaves nothing") {
  if (!has_device()) return;
  const Layer layer;
  {
    qr::Runtime runtime;
    qr::Session made = session(runtime, attention(), {{"shape", "n=1..100"}});
    CHECK(near(ran(made, 20), wanted(runtime, 20)));
    layer.tell("fail=Finish:-2");
    failure([&] { ran(made, 20); }, QR_DEVICE_LOST);
    layer.tell("");
    made.recover();
    CHECK(near(ran(made, 20), wanted(runtime, 20)));
    CHECK(near(ran(made, 21), wanted(runtime, 21)));
    for (const char *const call : {"CreateBuffer", "BuildProgram", "CreateKernel", "EnqueueWriteBuffer"}) {
      layer.tell("fail=" + std::string(call) + ":-5");
      CHECK_FALSE(failure([&] { ran(made, 50); }, QR_RESOURCE_EXHAUSTED).empty());
      layer.tell("");
      CHECK(near(ran(made, 20), wanted(runtime, 20)));
    }
    CHECK(near(ran(made, 50), wanted(runtime, 50)));
  }
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("a node of a range that the backend has not is refused by name when it is compiled") {
  if (!has_device()) return;
  const Layer layer;
  qr::Runtime runtime;
  ModelText text(13);
  text.input("x", {-1, 4});
  text.node("Relu", {"x"}, {"r"});
  text.node("NonZero", {"r"}, {"y"})->set_name("the_late_one");
  text.output("y", {2, -1}, 7);
  const std::string model = text.bytes();
  CHECK(says(failure(
                 [&] {
                   session(runtime, model, {{"shape", "n=1..9"}});
                 },
                 QR_UNSUPPORTED),
             {"the_late_one", "gpu.tail"}));
}
