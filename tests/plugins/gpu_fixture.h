// SPDX-License-Identifier: Apache-2.0
// The gpu backend on a layer before the OpenCL library that fails as it is asked to (opencl/layer.cpp). Each test that
// needs a device ends where there is none: PoCL is one that every machine can have.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <quarry/quarry.hpp>

#include "tests/plugins/expected_failure.h"
#include "tests/unit/onnx/model_text.h"

namespace quarry::test {

class Layer {
 public:
  explicit Layer(const std::string &script = {}) {
    setenv("QUARRY_OPENCL_PATH", QR_OPENCL_LAYER, 1);
    void *const library = dlopen(QR_OPENCL_LAYER, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != nullptr);
    tell_ = reinterpret_cast<void (*)(const char *)>(dlsym(library, "cl_layer_script"));
    count_ = reinterpret_cast<long (*)(const char *)>(dlsym(library, "cl_layer_count"));
    tell(script);
  }
  ~Layer() {
    tell("");
    CHECK_EQ(count("parts out of order"), 0);
  }
  void tell(const std::string &script) const { tell_(script.c_str()); }
  long count(const char *name) const { return count_(name); }

 private:
  void (*tell_)(const char *);
  long (*count_)(const char *);
};

struct Found {
  bool usable;
  std::string name, why_not, details;
};
inline Found device_of(qr::Runtime &runtime) {
  const auto text = [](qr_string from) { return std::string(from.data ? from.data : "", from.size); };
  const std::uint64_t count = runtime.scan();
  for (std::uint64_t i = 0; i < count; ++i) {
    if (text(runtime.backend(i).id) != "gpu") continue;
    const qr_device_info info = runtime.device(i, 0);
    return {info.usable != 0, text(info.name), text(info.why_not), text(info.details)};
  }
  FAIL("the gpu backend was not found");
  return {};
}

// Whether this machine has a device at all.
inline bool has_device() {
  const Layer layer;
  qr::Runtime runtime;
  if (device_of(runtime).usable) return true;
  MESSAGE("no OpenCL device here: not tested");
  return false;
}

// y = Relu(x w + b), f32[4, 8] of f32[4, 16], with weights of some size.
inline std::string small_model() {
  ModelText text(13);
  text.input("x", {4, 16});
  std::vector<float> w(16 * 8), b(8, 0.5f);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 7) - 3;
  text.floats("w", {16, 8}, w);
  text.floats("b", {8}, b);
  text.node("Gemm", {"x", "w", "b"}, {"h"})->set_name("the_gemm");
  text.node("Relu", {"h"}, {"y"})->set_name("the_relu");
  text.output("y", {4, 8});
  return text.bytes();
}

inline qr::Session session(qr::Runtime &runtime, const std::string &model = small_model(),
                           qr::Options::Pairs pairs = {}) {
  qr::Options options(runtime);
  options.set("backend", "gpu");
  for (const auto &[key, value] : pairs) options.set(key, value);
  const qr::Model opened(runtime, model.data(), model.size());
  return qr::Session(opened, &options);
}

// small_model as a container for the gpu, and a session of a container.
inline void compile(qr::Runtime &runtime, const std::string &path, qr::Options::Pairs pairs = {}) {
  qr::Options options(runtime);
  options.set("backend", "gpu");
  for (const auto &[key, value] : pairs) options.set(key, value);
  const std::string model = small_model();
  qr::Model(runtime, model.data(), model.size()).compile(path, &options);
}
inline qr::Session open_container(qr::Runtime &runtime, const std::string &path) {
  qr::Options options(runtime);
  options.set("backend", "gpu");
  return qr::Session(qr::Model(runtime, path), &options);
}

// y[4, 8] is what small_model gives for x[4, 16].
inline bool is_right(const float *x, const float *y, float tolerance = 1e-3f) {
  for (std::size_t m = 0; m < 4; ++m)
    for (std::size_t n = 0; n < 8; ++n) {
      float sum = 0.5f;
      for (std::size_t k = 0; k < 16; ++k) sum += x[m * 16 + k] * (static_cast<float>((k * 8 + n) % 7) - 3);
      if (!(std::abs(y[m * 8 + n] - std::max(sum, 0.0f)) <= tolerance)) return false;
    }
  return true;
}

inline bool run(qr::Session &session, float first, qr::Signal *signal = nullptr, qr::Profile *profile = nullptr) {
  std::vector<float> x(64), y(32);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = first + static_cast<float>(i % 5);
  std::vector<qr::Tensor> in{qr::Tensor::of(x.data(), {4, 16})}, out{qr::Tensor::of(y.data(), {4, 8})};
  session.run(in, out, signal, profile);
  return is_right(x.data(), y.data());
}

}  // namespace quarry::test
