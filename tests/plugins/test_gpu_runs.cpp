// SPDX-License-Identifier: Apache-2.0
// Runs of the gpu backend that are submitted, and of models with data-dependent shapes.
#include <atomic>
#include <functional>

#include "tests/plugins/gpu_fixture.h"

using namespace quarry::test;

namespace {

// One run of small_model under way.
struct Job {
  std::vector<float> x = std::vector<float>(64), y = std::vector<float>(32);
  std::vector<qr::Tensor> in, out;
  std::uint64_t ticket = 0;
  explicit Job(float first) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = first + static_cast<float>(i % 5);
    in.push_back(qr::Tensor::of(x.data(), {4, 16}));
    out.push_back(qr::Tensor::of(y.data(), {4, 8}));
  }
};

// As small_model, and then y = tanh(y + 0.125) for `times` times, each a kernel, for the outputs of all are read.
std::string long_model(int times) {
  ModelText text(13);
  text.input("x", {4, 16});
  text.floats("c", {}, {0.125f});
  std::string before = "x";
  for (int i = 0; i < times; ++i) {
    const std::string n = std::to_string(i);
    text.node("Add", {before, "c"}, {"a" + n});
    text.node("Tanh", {"a" + n}, {"t" + n});
    text.node("Softmax", {"t" + n}, {"s" + n});
    before = "s" + n;
  }
  text.node("Identity", {before}, {"y"});
  text.output("y", {4, 16});
  return text.bytes();
}

using Floats = std::vector<float>;
Floats ran(qr::Session &session, const Floats &x, std::vector<std::int64_t> dims, std::size_t room) {
  Floats y(room, -1);
  std::vector<qr::Tensor> in{qr::Tensor(QR_DTYPE_F32, dims, const_cast<float *>(x.data()))},
      out{qr::Tensor::of(y.data(), {static_cast<std::int64_t>(room)})};
  in[0].size_bytes = x.size() * sizeof(float);
  session.run(in, out);
  std::size_t count = 1;
  for (std::uint32_t d = 0; d < out[0].rank; ++d) count *= static_cast<std::size_t>(out[0].dims[d]);
  y.resize(count);
  return y;
}

}  // namespace

TEST_CASE("submitted runs are under way together, and each is right") {
  if (!has_device()) return;
  const Layer layer;
  {
    qr::Runtime runtime;
    const std::string path = "/tmp/quarry-gpu-runs-" + std::to_string(getpid()) + ".csv";
    for (const char *const level : {"off", "linting"}) {
      qr::Session made = session(runtime, small_model(),
                                 {{"queue_depth", "4"}, {"profiling_level", level}, {"profiling_file_path", path}});
      CHECK(run(made, 1));
      const long finishes = layer.count("Finish");
      std::vector<Job> jobs;
      for (int i = 0; i < 4; ++i) jobs.emplace_back(static_cast<float>(i));
      for (int round = 0; round < 3; ++round) {
        for (Job &job : jobs) job.ticket = made.submit(job.in, job.out);
        for (Job &job : jobs) {
          made.wait(job.ticket);
          CHECK(is_right(job.x.data(), job.y.data()));
          std::fill(job.y.begin(), job.y.end(), -1.0f);
        }
      }
      // The end of each is reported by an event of its own, and nobody waits for the whole queue.
      CHECK_EQ(layer.count("Finish"), finishes);
      CHECK_EQ(layer.count("EnqueueMarkerWithWaitList"), std::string(level) == "off" ? 12 : 24);
      CHECK(run(made, 3));
    }
    unlink(path.c_str());
  }
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("submitted runs of many kernels: results as of plain runs, abort between batches") {
  if (!has_device()) return;
  const Layer layer;
  {
    qr::Runtime runtime;
    const std::string model = long_model(30);
    qr::Session made = session(runtime, model, {{"queue_depth", "3"}});
    Floats x(64);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) / 7;
    const Floats wanted = ran(made, x, {4, 16}, 64);
    std::vector<Floats> results(3, Floats(64));
    std::vector<std::vector<qr::Tensor>> in(3), out(3);
    for (std::size_t i = 0; i < 3; ++i) {
      in[i].push_back(qr::Tensor::of(x.data(), {4, 16}));
      out[i].push_back(qr::Tensor::of(results[i].data(), {4, 16}));
    }
    for (int round = 0; round < 4; ++round) {
      std::uint64_t tickets[3];
      for (std::size_t i = 0; i < 3; ++i) tickets[i] = made.submit(in[i], out[i]);
      for (std::size_t i = 0; i < 3; ++i) {
        made.wait(tickets[i]);
        CHECK_EQ(results[i], wanted);
        std::fill(results[i].begin(), results[i].end(), -1.0f);
      }
    }
    layer.tell("slow=20000");  // else all may have ended before the abort
    std::uint64_t tickets[3];
    for (std::size_t i = 0; i < 3; ++i) tickets[i] = made.submit(in[i], out[i]);
    made.abort(tickets[2]);
    made.wait(tickets[0]);
    made.wait(tickets[1]);
    CHECK_EQ(results[1], wanted);
    failure([&] { made.wait(tickets[2]); }, QR_CANCELLED);
    layer.tell("");
    CHECK_EQ(ran(made, x, {4, 16}, 64), wanted);
  }
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("a submitted run ends in time, and so does who waits for one") {
  if (!has_device()) return;
  const Layer layer;
  {
    qr::Runtime runtime;
    qr::Session made = session(runtime, long_model(60), {{"queue_depth", "2"}});
    Floats x(64, 0.5f), y(64);
    const Floats wanted = ran(made, x, {4, 16}, 64);
    std::vector<qr::Tensor> in{qr::Tensor::of(x.data(), {4, 16})}, out{qr::Tensor::of(y.data(), {4, 16})};
    const auto ms_of = [](auto &&body) {
      const auto begin = std::chrono::steady_clock::now();
      body();
      return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    };
    layer.tell("slow=20000");  // a whole run takes more than a second
    qr::Signal limit(runtime);
    limit.set_timeout(std::chrono::milliseconds(50));
    qr_submit_options how = QR_SUBMIT_OPTIONS_INIT;
    how.signal = limit.get();
    std::uint64_t ticket = 0;
    CHECK_LE(ms_of([&] { ticket = made.submit(in, out, &how); }), 500);
    CHECK_LE(ms_of([&] { failure([&] { made.wait(ticket); }, QR_DEADLINE_EXCEEDED); }), 700);
    ticket = made.submit(in, out);
    qr::Signal patience(runtime);
    patience.set_timeout(std::chrono::milliseconds(50));
    bool ended = true;
    CHECK_LE(ms_of([&] { CHECK_EQ(made.try_wait(ticket, &patience, &ended).code(), QR_DEADLINE_EXCEEDED); }), 500);
    CHECK_FALSE(ended);
    made.abort(ticket);
    CHECK_LE(ms_of([&] { failure([&] { made.wait(ticket); }, QR_CANCELLED); }), 700);
    layer.tell("");
    CHECK_EQ(ran(made, x, {4, 16}, 64), wanted);
  }
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("a submitted run that fails is an outcome, and so is a lost device; both leave nothing") {
  if (!has_device()) return;
  const Layer layer;
  {
    qr::Runtime runtime;
    qr::Session made = session(runtime, small_model(), {{"queue_depth", "2"}});
    CHECK(run(made, 1));
    for (const auto &[script, code] : {std::pair{"fail=EnqueueNDRangeKernel:-5", QR_RESOURCE_EXHAUSTED},
                                       std::pair{"fail=EnqueueMarkerWithWaitList:-6", QR_RESOURCE_EXHAUSTED},
                                       std::pair{"fail=EnqueueReadBuffer:-5", QR_RESOURCE_EXHAUSTED}}) {
      CAPTURE(std::string(script));
      layer.tell(script);
      Job job(1);
      job.ticket = made.submit(job.in, job.out);
      failure([&] { made.wait(job.ticket); }, code);
      layer.tell("");
      CHECK(run(made, 2));
    }
    layer.tell("fail=WaitForEvents:-14");
    Job first(1), second(2);
    first.ticket = made.submit(first.in, first.out);
    // The first may have failed before the second is handed over, which is then refused at once.
    failure([&] { made.wait(made.submit(second.in, second.out)); }, QR_DEVICE_LOST);
    CHECK(says(failure([&] { made.wait(first.ticket); }, QR_DEVICE_LOST), {"clWaitForEvents", "a run's end"}));
    layer.tell("");
    made.recover();
    CHECK(run(made, 3));
    Job third(4);
    third.ticket = made.submit(third.in, third.out);
    made.wait(third.ticket);
  }
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("registered memory in submitted runs") {
  if (!has_device()) return;
  const Layer layer;
  {
    qr::Runtime runtime;
    qr::Session made = session(runtime, small_model(), {{"queue_depth", "4"}});
    CHECK(run(made, 1));
    qr::Memory memory(made, 64 * 1024);
    for (const std::uint64_t step : {std::uint64_t{4096}, std::uint64_t{1028}}) {
      std::vector<std::vector<qr::Tensor>> in(4), out(4);
      std::uint64_t tickets[4];
      const auto place = [&](std::uint64_t at) {
        return reinterpret_cast<float *>(static_cast<char *>(memory.data()) + at);
      };
      for (std::uint64_t t = 0; t < 4; ++t) {
        qr::Tensor x(QR_DTYPE_F32, {4, 16}, nullptr), y(QR_DTYPE_F32, {4, 8}, nullptr);
        x.memory = y.memory = memory.get();
        x.memory_offset = 2 * t * step, y.memory_offset = (2 * t + 1) * step;
        for (std::size_t i = 0; i < 64; ++i)
          place(x.memory_offset)[i] = static_cast<float>(i % 5) + static_cast<float>(t);
        in[t].push_back(x), out[t].push_back(y);
      }
      for (std::size_t t = 0; t < 4; ++t) tickets[t] = made.submit(in[t], out[t]);
      for (std::uint64_t t = 0; t < 4; ++t) {
        made.wait(tickets[t]);
        // Looked at when the others have ended, too: until then the device has the memory.
      }
      for (std::uint64_t t = 0; t < 4; ++t) {
        float sum = 0.5f;
        for (std::size_t k = 0; k < 16; ++k) sum += place(2 * t * step)[k] * (static_cast<float>((k * 8) % 7) - 3);
        CHECK_LT(std::abs(place((2 * t + 1) * step)[0] - std::max(sum, 0.0f)), 1e-3f);
      }
    }
  }
  CHECK_EQ(layer.count("objects"), 0);
}

// ---- data-dependent shapes -----------------------------------------------------------------------

namespace {

// A network with NonMaxSuppression at its end: boxes [1, 16, 4] and scores of products; the boxes that are left.
std::string detector() {
  ModelText text(13);
  text.input("x", {1, 16, 8});
  const auto weights = [&](const char *name, std::int64_t columns) {
    std::vector<float> values(static_cast<std::size_t>(8 * columns));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 37) % 19) / 19 - 0.4f;
    text.floats(name, {8, columns}, values);
  };
  weights("wb", 4), weights("ws", 2);
  text.node("MatMul", {"x", "wb"}, {"boxes"});
  text.node("MatMul", {"x", "ws"}, {"by_box"});
  ModelText::set(text.node("Transpose", {"by_box"}, {"scores"}), "perm", std::vector<std::int64_t>{0, 2, 1});
  text.ints("most", {5}), text.floats("overlap", {1}, {0.3f}), text.floats("least", {1}, {0.05f});
  text.node("NonMaxSuppression", {"boxes", "scores", "most", "overlap", "least"}, {"selected"});
  text.constant("two", 7, {}, std::vector<std::int64_t>{2});
  ModelText::set(text.node("Gather", {"selected", "two"}, {"which"}), "axis", std::int64_t{1});
  ModelText::set(text.node("Gather", {"boxes", "which"}, {"found"}), "axis", std::int64_t{1});
  text.output("found", {1, -1, 4});
  return text.bytes();
}

// Rows of x with a positive first element, times weights: a matrix multiplication behind data-dependent shapes.
std::string chooser() {
  ModelText text(13);
  text.input("x", {16, 8});
  std::vector<float> w(8 * 8);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 5) - 2;
  text.floats("w", {8, 8}, w);
  text.node("MatMul", {"x", "w"}, {"h"});
  text.constant("zero", 7, {}, std::vector<std::int64_t>{0});
  ModelText::set(text.node("Gather", {"h", "zero"}, {"first"}), "axis", std::int64_t{1});
  text.node("Relu", {"first"}, {"positive"});
  text.node("NonZero", {"positive"}, {"where"});
  text.ints("axis", {0});
  text.node("Squeeze", {"where", "axis"}, {"rows"});
  ModelText::set(text.node("Gather", {"h", "rows"}, {"picked"}), "axis", std::int64_t{0});
  text.node("MatMul", {"picked", "w"}, {"y"});
  text.output("y", {-1, 8});
  return text.bytes();
}

void same_as_cpu(const std::string &model, const std::vector<std::int64_t> &dims, bool from_container) {
  qr::Runtime runtime;
  qr::Session cpu = session(runtime, model, {{"backend", "cpu"}}), gpu;
  if (from_container) {
    const std::string path = "/tmp/quarry-gpu-tail-" + std::to_string(getpid()) + ".qrm";
    qr::Options options(runtime);
    options.set("backend", "gpu");
    options.set("gpu.tail", "host");
    const qr::Model opened(runtime, model.data(), model.size());
    opened.compile(path, &options);
    const qr::Model compiled(runtime, path);
    gpu = qr::Session(compiled, &options);
    unlink(path.c_str());
  } else {
    gpu = session(runtime, model, {{"gpu.tail", "host"}});
  }
  std::uint32_t state = 7;
  for (int i = 0; i < 6; ++i) {
    std::size_t count = 1;
    for (const std::int64_t extent : dims) count *= static_cast<std::size_t>(extent);
    Floats x(count);
    for (float &value : x) value = static_cast<float>((state = state * 1664525 + 1013904223) >> 8) / (1 << 23) - 1;
    const Floats wanted = ran(cpu, x, dims, 4096), found = ran(gpu, x, dims, 4096);
    CHECK_EQ(found.size(), wanted.size());
    for (std::size_t e = 0; e < found.size() && e < wanted.size(); ++e) CHECK_LT(std::abs(found[e] - wanted[e]), 1e-4f);
  }
}

}  // namespace

TEST_CASE("data-dependent shapes: what comes before is on the device, the rest by the host or planned") {
  if (!has_device()) return;
  const Layer layer;
  for (const bool container : {false, true}) {
    same_as_cpu(detector(), {1, 16, 8}, container);
    same_as_cpu(chooser(), {16, 8}, container);
  }
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("plans of data-dependent shapes are kept, and made anew after a lost device; such runs can be submitted") {
  if (!has_device()) return;
  const Layer layer;
  {
    qr::Runtime runtime;
    qr::Session made = session(runtime, chooser(), {{"gpu.tail", "host"}, {"queue_depth", "2"}});
    // So many rows whose product begins with a positive number; the weights' first column is -2, 1, -1, 2, 0, -2, 1,
    // -1.
    const auto rows = [](std::size_t count) {
      Floats x(16 * 8);
      for (std::size_t i = 0; i < 16; ++i) x[i * 8 + 3] = i < count ? 1 + static_cast<float>(i) : -1;
      return x;
    };
    const Floats x2 = rows(2), x3 = rows(3);
    const Floats two = ran(made, x2, {16, 8}, 128), three = ran(made, x3, {16, 8}, 128);
    CHECK_EQ(two.size(), 16u);
    CHECK_EQ(three.size(), 24u);
    const long builds = layer.count("sources");
    CHECK_EQ(ran(made, x2, {16, 8}, 128), two);
    CHECK_EQ(ran(made, x3, {16, 8}, 128), three);
    CHECK_EQ(layer.count("sources"), builds);
    CHECK_GE(builds, 3);  // the plan's and those of two numbers of rows
    layer.tell("fail=Finish:-2");
    failure([&] { ran(made, x2, {16, 8}, 128); }, QR_DEVICE_LOST);
    layer.tell("");
    made.recover();
    CHECK_EQ(ran(made, x2, {16, 8}, 128), two);
    CHECK_EQ(layer.count("sources"), 1);
    Floats y(128), z(128);
    std::vector<qr::Tensor> in{qr::Tensor::of(x2.data(), {16, 8})}, in3{qr::Tensor::of(x3.data(), {16, 8})},
        out{qr::Tensor::of(y.data(), {16, 8})}, out3{qr::Tensor::of(z.data(), {16, 8})};
    const std::uint64_t first = made.submit(in, out), second = made.submit(in3, out3);
    made.wait(first);
    made.wait(second);
    y.resize(16), z.resize(24);
    CHECK_EQ(y, two);
    CHECK_EQ(z, three);
  }
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("an operator behind such shapes that the backend lacks is refused by name") {
  if (!has_device()) return;
  const Layer layer;
  qr::Runtime runtime;
  ModelText text(13);
  text.input("x", {8});
  text.node("NonZero", {"x"}, {"where"});
  ModelText::set(text.node("Cast", {"where"}, {"real"}), "to", std::int64_t{1});
  text.node("Det", {"real"}, {"y"});
  text.output("y", {});
  CHECK(says(failure([&] { session(runtime, text.bytes(), {{"gpu.tail", "host"}}); }, QR_UNSUPPORTED), {"Det"}));
}

TEST_CASE("nothing is left to the host unless it is asked for") {
  if (!has_device()) return;
  const Layer layer;
  qr::Runtime runtime;
  CHECK(says(failure([&] { session(runtime, detector()); }, QR_UNSUPPORTED), {"NonMaxSuppression", "gpu.tail=host"}));
  CHECK(says(failure([&] { session(runtime, chooser()); }, QR_UNSUPPORTED), {"NonZero", "data-dependent shapes"}));
}

// ---- control flow -------------------------------------------------------------------------------

namespace {

void body_value(::onnx::GraphProto *body, bool is_output, const std::string &name, int dtype,
                std::initializer_list<std::int64_t> dims) {
  ModelText::fill(is_output ? body->add_output() : body->add_input(), name, dtype, dims);
}

// If the sum of x w is positive, its double, else its negative; then a product.
std::string chosen() {
  ModelText text(13);
  text.input("x", {4, 8});
  std::vector<float> w(64);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 5) - 2;
  text.floats("w", {8, 8}, w), text.floats("zero", {}, {0});
  text.node("MatMul", {"x", "w"}, {"h"});
  ModelText::set(text.node("ReduceSum", {"h"}, {"sum"}), "keepdims", std::int64_t{0});
  text.node("Greater", {"sum", "zero"}, {"positive"});
  auto *const choice = text.node("If", {"positive"}, {"c"});
  for (const char *const branch : {"then_branch", "else_branch"}) {
    auto *const graph = ModelText::graph(choice, branch);
    graph->set_name(branch);
    const bool yes = std::string(branch) == "then_branch";
    if (yes) ModelText::add_node(graph->add_node(), "Add", {"h", "h"}, {"yes"});
    else ModelText::add_node(graph->add_node(), "Neg", {"h"}, {"no"});
    body_value(graph, true, yes ? "yes" : "no", 1, {4, 8});
  }
  text.node("MatMul", {"c", "w"}, {"y"});
  text.output("y", {4, 8});
  return text.bytes();
}

// h = x w; until h's largest number is 100 or more: h = h * 2; then a product. How often is known only at run time.
std::string repeated() {
  ModelText text(13);
  text.input("x", {4, 8});
  std::vector<float> w(64);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 5) / 4 + 0.125f;
  text.floats("w", {8, 8}, w);
  text.node("MatMul", {"x", "w"}, {"p"});
  text.node("Abs", {"p"}, {"h"});
  text.constant("go", 9, {}, std::vector<std::uint8_t>{1});
  text.constant("most", 7, {}, std::vector<std::int64_t>{1000});
  auto *const loop = text.node("Loop", {"most", "go", "h"}, {"l"});
  auto *const body = ModelText::graph(loop, "body");
  body->set_name("body");
  body_value(body, false, "i", 7, {}), body_value(body, false, "before", 9, {}),
      body_value(body, false, "s", 1, {4, 8});
  ModelText::add_node(body->add_node(), "Add", {"s", "s"}, {"t"});
  ModelText::set(ModelText::add_node(body->add_node(), "ReduceMax", {"t"}, {"m"}), "keepdims", std::int64_t{0});
  text.floats("hundred", {}, {100});
  ModelText::add_node(body->add_node(), "Less", {"m", "hundred"}, {"on"});
  body_value(body, true, "on", 9, {}), body_value(body, true, "t", 1, {4, 8});
  text.node("MatMul", {"l", "w"}, {"y"});
  text.output("y", {4, 8});
  return text.bytes();
}

}  // namespace

TEST_CASE("If runs on the device; a Loop whose end is known only at run time by the host, where that is asked for") {
  if (!has_device()) return;
  const Layer layer;
  same_as_cpu(chosen(), {4, 8}, false);
  {
    qr::Runtime runtime;
    CHECK(says(failure([&] { session(runtime, repeated()); }, QR_UNSUPPORTED),
               {"Loop", "iterations or results are data-dependent", "gpu.tail=host"}));
    qr::Session made = session(runtime, chosen());  // without the option
    layer.tell("");
    for (int i = 0; i < 2; ++i) (void)ran(made, Floats(32, i ? 1.0f : -1.0f), {4, 8}, 32);
    CHECK_EQ(layer.count("sources"), 0);
  }
  for (const bool container : {false, true}) same_as_cpu(repeated(), {4, 8}, container);
  CHECK_EQ(layer.count("objects"), 0);
}

// ---- three backends -----------------------------------------------------------------------------

// QUARRY_QNN_PATH: the folder of Qualcomm's libraries.
TEST_CASE("htp, gpu and cpu in one process: four threads, four sessions of each") {
  if (!has_device()) return;
  if (!std::getenv("QUARRY_QNN_PATH")) {
    MESSAGE("QUARRY_QNN_PATH is not set: not tested");
    return;
  }
  const Layer layer;
  {
    qr::Runtime runtime;
    const std::string model = small_model();
    std::vector<qr::Session> sessions;
    for (const char *const backend : {"htp", "gpu", "cpu"}) {
      qr::Options options(runtime);
      options.set("backend", backend);
      if (std::string(backend) == "htp") options.set("soc_model", "SM8650");
      const qr::Model opened(runtime, model.data(), model.size());
      for (int t = 0; t < 4; ++t) sessions.emplace_back(opened, &options);
    }
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 24; ++i) {
          qr::Session &one = sessions[i % 3 * 4 + t];
          std::vector<float> x(64, static_cast<float>(i % 4)), y(32);
          std::vector<qr::Tensor> in{qr::Tensor::of(x.data(), {4, 16})}, out{qr::Tensor::of(y.data(), {4, 8})};
          one.run(in, out);
          right += is_right(x.data(), y.data(), 0.1f);  // htp computes in f16
        }
      });
    for (std::thread &thread : threads) thread.join();
    CHECK_EQ(right.load(), 96);
  }
  CHECK_EQ(layer.count("objects"), 0);
}
