// SPDX-License-Identifier: Apache-2.0
// Kernels that the driver keeps: command buffers of the driver that is there, and Qualcomm's recordings as the layer
// plays them.
#include <algorithm>
#include <chrono>

#include "tests/plugins/gpu_fixture.h"

using namespace quarry::test;

namespace {

constexpr char kBuffers[] = "cl_khr_command_buffer", kQualcomms[] = "cl_qcom_recordable_queues";
const std::string kAsQualcomm = std::string("without=") + kBuffers + ";with=" + kQualcomms;
using Floats = std::vector<float>;

bool has_buffers() {
  if (!has_device()) return false;
  const Layer layer;
  qr::Runtime runtime;
  if (says(device_of(runtime).details, {"recorded (cl_khr_command_buffer"})) return true;
  MESSAGE("no driver with command buffers here: not tested");
  return false;
}

// Softmax again and again: kernels that nothing fuses.
constexpr int kKernels = 40;
std::string chain() {
  ModelText text(13);
  text.input("x", {4, 16});
  for (int i = 0; i < kKernels; ++i) {
    const std::string from = i == 0 ? "x" : "s" + std::to_string(i - 1);
    text.node("Softmax", {from}, {i + 1 == kKernels ? "y" : "s" + std::to_string(i)})
        ->set_name("n" + std::to_string(i));
  }
  text.output("y", {4, 16});
  return text.bytes();
}
Floats given(float first) {
  Floats x(64);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = first + static_cast<float>((i * 37) % 19) / 7;
  return x;
}
Floats ran(qr::Session &session, const Floats &x, qr::Signal *signal = nullptr, qr::Profile *profile = nullptr) {
  Floats y(64, -1);
  std::vector<qr::Tensor> in{qr::Tensor::of(x.data(), {4, 16})}, out{qr::Tensor::of(y.data(), {4, 16})};
  session.run(in, out, signal, profile);
  return y;
}
// What plain enqueues give, by the same driver.
Floats plainly(float first) {
  const Layer layer;
  qr::Runtime runtime;
  qr::Session made = session(runtime, chain(), {{"gpu.record", "0"}});
  layer.tell("");
  Floats y = ran(made, given(first));
  CHECK_EQ(layer.count("EnqueueNDRangeKernel"), kKernels);
  return y;
}
// By the program's own counter.
std::uint64_t launches_told(qr::Session &session, qr::Runtime &runtime) {
  qr::Profile profile(runtime);
  ran(session, given(1), nullptr, &profile);
  std::uint64_t told = 0;
  for (std::uint64_t i = 0; i < profile.size(); ++i)
    for (std::uint64_t c = 0; c < profile[i].counter_count; ++c) {
      const qr_string name = profile[i].counters[c].name;
      if (std::string(name.data, name.size) == "launches") told += profile[i].counters[c].value;
    }
  return told;
}

}  // namespace

TEST_CASE("the kernels of a run are one command, and give the same bits") {
  if (!has_buffers()) return;
  const Floats first = plainly(1), second = plainly(-3);
  const Layer layer;
  {
    qr::Runtime runtime;
    qr::Session made = session(runtime, chain());
    layer.tell("");
    for (int i = 0; i < 3; ++i) {
      CHECK_EQ(ran(made, given(1)), first);
      CHECK_EQ(ran(made, given(-3)), second);
    }
    CHECK_EQ(layer.count("EnqueueCommandBufferKHR"), 6);
    CHECK_EQ(layer.count("CreateCommandBufferKHR"), 1);
    CHECK_EQ(layer.count("CommandNDRangeKernelKHR"), kKernels);
    CHECK_EQ(layer.count("EnqueueNDRangeKernel"), 0);
    CHECK_EQ(launches_told(made, runtime), 1u);  // by the run before; this one took each by itself
    CHECK_EQ(layer.count("EnqueueNDRangeKernel"), kKernels);
    CHECK_EQ(ran(made, given(1)), first);
    CHECK_EQ(layer.count("EnqueueCommandBufferKHR"), 7);
  }
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("products that read images are recorded as others are, and give the same bits") {
  if (!has_buffers()) return;
  ModelText text(13);
  text.input("x", {4, 16});
  Floats w(256);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 7 % 13) / 4 - 1;
  text.floats("w", {16, 16}, w);
  for (int i = 0; i < 10; ++i) {
    const std::string number = std::to_string(i);
    text.node("MatMul", {i == 0 ? "x" : "s" + std::to_string(i - 1), "w"}, {"m" + number});
    text.node("Softmax", {"m" + number}, {i == 9 ? "y" : "s" + number});
  }
  text.output("y", {4, 16});
  const Layer layer;
  qr::Runtime runtime;
  qr::Session by_buffers = session(runtime, text.bytes(), {{"gpu.images", "off"}});
  const Floats first = ran(by_buffers, given(1)), second = ran(by_buffers, given(-3));
  layer.tell("");
  qr::Session made = session(runtime, text.bytes(), {{"gpu.images", "on"}});
  CHECK_GE(layer.count("CreateImage"), 20);  // of each product, here and where the binary was taken; and views, if any
  for (int i = 0; i < 2; ++i) {
    CHECK_EQ(ran(made, given(1)), first);
    CHECK_EQ(ran(made, given(-3)), second);
  }
  CHECK_EQ(layer.count("EnqueueCommandBufferKHR"), 4);
}

TEST_CASE("a run that may be stopped goes in batches, and can be stopped") {
  if (!has_buffers()) return;
  const Floats wanted = plainly(1);
  const Layer layer;
  {
    qr::Runtime runtime;
    qr::Session made = session(runtime, chain(), {{"queue_depth", "3"}});
    qr::Signal signal(runtime);
    layer.tell("");
    CHECK_EQ(ran(made, given(1), &signal), wanted);
    CHECK_EQ(layer.count("EnqueueCommandBufferKHR"), 3);  // 16, 16 and 8
    CHECK_EQ(layer.count("EnqueueNDRangeKernel"), 0);
    signal.abort();
    CHECK(says(failure([&] { ran(made, given(1), &signal); }, QR_CANCELLED), {"QR-C0011"}));
    qr::Signal late(runtime);
    late.set_timeout(std::chrono::nanoseconds(1));
    CHECK(says(failure([&] { ran(made, given(1), &late); }, QR_DEADLINE_EXCEEDED), {"QR-C0012"}));
    // Runs under way together, on one recording.
    const Floats x = given(1);
    std::vector<Floats> results(3, Floats(64));
    std::vector<std::vector<qr::Tensor>> in(3), out(3);
    for (int round = 0; round < 4; ++round) {
      std::uint64_t tickets[3];
      for (std::size_t i = 0; i < 3; ++i) {
        in[i] = {qr::Tensor::of(x.data(), {4, 16})}, out[i] = {qr::Tensor::of(results[i].data(), {4, 16})};
        tickets[i] = made.submit(in[i], out[i]);
      }
      for (std::size_t i = 0; i < 3; ++i) {
        made.wait(tickets[i]);
        CHECK_EQ(results[i], wanted);
        std::ranges::fill(results[i], -1.0f);
      }
    }
    CHECK_EQ(ran(made, given(1)), wanted);
  }
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("memory of the caller's is recorded when it comes again") {
  if (!has_device()) return;
  const Floats wanted[] = {plainly(0), plainly(1), plainly(2)};
  for (const std::string &script : {std::string(), kAsQualcomm}) {
    if (script.empty() && !has_buffers()) continue;
    const Layer layer(script);
    {
      const char *const enqueued = script.empty() ? "EnqueueCommandBufferKHR" : "EnqueueRecordingQCOM";
      qr::Runtime runtime;
      qr::Session made = session(runtime, chain());
      qr::Memory memory(made, 64 * 1024);
      const auto once = [&](std::size_t which) {
        const std::uint64_t at = which * 8192;
        const Floats x = given(static_cast<float>(which));
        std::ranges::copy(x, reinterpret_cast<float *>(static_cast<char *>(memory.data()) + at));
        qr::Tensor in(QR_DTYPE_F32, {4, 16}, nullptr), out(QR_DTYPE_F32, {4, 16}, nullptr);
        in.memory = out.memory = memory.get();
        in.memory_offset = at, out.memory_offset = at + 4096;
        std::vector<qr::Tensor> inputs{in}, outputs{out};
        made.run(inputs, outputs);
        const auto *const y = reinterpret_cast<const float *>(static_cast<char *>(memory.data()) + at + 4096);
        return Floats(y, y + 64) == wanted[which];
      };
      layer.tell(script);
      for (std::size_t i = 0; i < 3; ++i) CHECK(once(i));
      CHECK_EQ(layer.count(enqueued), 0);  // nobody knows yet whether they come again
      for (std::size_t i = 0; i < 3; ++i) CHECK(once(i));
      for (std::size_t i = 0; i < 3; ++i) CHECK(once(i));
      CHECK_EQ(layer.count(enqueued), 6);
      CHECK_EQ(layer.count(script.empty() ? "CreateCommandBufferKHR" : "NewRecordingQCOM"), 3);
      for (std::size_t i = 0; i < 3; ++i) CHECK_EQ(ran(made, given(static_cast<float>(i))), wanted[i]);
    }
    CHECK_EQ(layer.count("objects"), 0);
  }
}

TEST_CASE("Qualcomm's recordings") {
  if (!has_device()) return;
  const Floats wanted = plainly(1);
  const Layer layer(kAsQualcomm);
  {
    qr::Runtime runtime;
    CHECK(says(device_of(runtime).details, {"recorded (cl_qcom_recordable_queues)"}));
    qr::Session made = session(runtime, chain());
    layer.tell(kAsQualcomm);
    for (int i = 0; i < 3; ++i) CHECK_EQ(ran(made, given(1)), wanted);
    CHECK_EQ(layer.count("NewRecordingQCOM"), 1);
    CHECK_EQ(layer.count("EndRecordingQCOM"), 1);
    CHECK_EQ(layer.count("EnqueueRecordingQCOM"), 3);
    CHECK_EQ(layer.count("EnqueueNDRangeKernel"), kKernels);  // into the recording
    CHECK_EQ(launches_told(made, runtime), 1u);
  }
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("a driver that cannot, or refuses, gets one kernel after the other") {
  if (!has_device()) return;
  const Floats wanted = plainly(1);
  const std::string without = std::string("without=") + kBuffers, qualcomm = kAsQualcomm + ";";
  const struct {
    std::string at_start, at_run;
    const char *says;  // doctor
    bool needs_buffers = false;
  } ways[] = {{without, without, "one by one (the driver has no extension"},
              {"hidden=clEnqueueCommandBufferKHR", "", "found not all of its functions", true},
              {"recording_version=8392704", "", "found cl_khr_command_buffer 2.1.0, expected 0.9 to 1", true},
              {qualcomm + "hidden=clEndRecordingQCOM", qualcomm, "found not all of its functions"},
              {"", "fail=CreateCommandBufferKHR:-1138", "", true},
              {"", "fail=CommandNDRangeKernelKHR:-59:7", "", true},
              {"", "fail=FinalizeCommandBufferKHR:-6", "", true},
              {"", "fail=EnqueueCommandBufferKHR:-1140", "", true},
              {qualcomm, qualcomm + "fail=NewRecordingQCOM:-36", ""},
              {qualcomm, qualcomm + "fail=EndRecordingQCOM:-5", ""},
              {qualcomm, qualcomm + "fail=EnqueueRecordingQCOM:-59", ""}};
  const bool buffers = has_buffers();
  for (const auto &way : ways) {
    if (way.needs_buffers && !buffers) continue;
    CAPTURE(way.at_start + " / " + way.at_run);
    const Layer layer(way.at_start);
    {
      qr::Runtime runtime;
      CHECK(says(device_of(runtime).details, {way.says}));
      qr::Session made = session(runtime, chain());
      layer.tell(way.at_run);
      CHECK_EQ(ran(made, given(1)), wanted);
      layer.tell(way.at_start);
      CHECK_EQ(ran(made, given(1)), wanted);
      CHECK_EQ(layer.count("EnqueueNDRangeKernel"), kKernels);  // it is not asked again
      CHECK_EQ(layer.count("EnqueueCommandBufferKHR") + layer.count("EnqueueRecordingQCOM"), 0);
      CHECK_EQ(launches_told(made, runtime), std::uint64_t{kKernels});
    }
    CHECK_EQ(layer.count("objects"), 0);
  }
  // A queue for recordings that the driver does not make.
  const Layer layer(qualcomm);
  {
    qr::Runtime runtime;
    CHECK(says(device_of(runtime).details, {kQualcomms}));
    layer.tell("");
    qr::Session made = session(runtime, chain());
    CHECK_EQ(ran(made, given(1)), wanted);
  }
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("a device that is lost while it plays a recording comes back, and plays again") {
  if (!has_buffers()) return;
  const Floats wanted = plainly(1);
  const Layer layer;
  {
    qr::Runtime runtime;
    qr::Session made = session(runtime, chain());
    CHECK_EQ(ran(made, given(1)), wanted);
    layer.tell("fail=Finish:-14");
    CHECK(says(failure([&] { ran(made, given(1)); }, QR_DEVICE_LOST), {"clFinish"}));
    layer.tell("");
    made.recover();
    CHECK_EQ(ran(made, given(1)), wanted);
    CHECK_EQ(ran(made, given(1)), wanted);
    CHECK_EQ(layer.count("EnqueueCommandBufferKHR"), 2);
    CHECK_EQ(layer.count("EnqueueNDRangeKernel"), 0);
  }
  CHECK_EQ(layer.count("objects"), 0);
}
