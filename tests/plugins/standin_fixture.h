// SPDX-License-Identifier: Apache-2.0
// What the tests of the htp backend on the stand-in for Qualcomm's libraries share: its script, what it wrote
// down, and models of which an output is the bytes of the input (that is all that the stand-in computes).
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <quarry/quarry.hpp>

#include "tests/plugins/expected_failure.h"
#include "tests/unit/onnx/model_text.h"

namespace quarry::test {

using Pairs = std::vector<std::pair<std::string_view, std::string_view>>;

class Standin {
 public:
  // Gives the stand-in its script from now on, and begins a log.
  explicit Standin(const std::string &script = {}) {
    setenv("QUARRY_QNN_PATH", QR_STANDIN_FOLDER, 1);
    const std::string folder = QR_STANDIN_FOLDER;
    void *const library = dlopen((folder + "/libQnnHtp.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != nullptr);
    tell_ = reinterpret_cast<void (*)(const char *)>(dlsym(library, "qnn_standin_script"));
    log_ = reinterpret_cast<void (*)(const char *)>(dlsym(library, "qnn_standin_log"));
    path_ = "/tmp/quarry-standin-" + std::to_string(getpid()) + ".log";
    tell(script);
    begin_log();
  }
  ~Standin() {
    tell("");
    log_(nullptr);
    unlink(path_.c_str());
  }
  void tell(const std::string &script) const { tell_(script.c_str()); }
  void begin_log() const { log_(path_.c_str()); }
  void end_log() const { log_(nullptr); }
  // The lines that begin so, since the log began.
  std::vector<std::string> lines(const std::string &beginning = {}) const {
    std::vector<std::string> found;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);)
      if (line.compare(0, beginning.size(), beginning) == 0) found.push_back(line);
    return found;
  }
  std::size_t count(const std::string &beginning) const { return lines(beginning).size(); }
  bool has(const std::string &line) const {
    const auto all = lines();
    return std::find(all.begin(), all.end(), line) != all.end();
  }

 private:
  void (*tell_)(const char *);
  void (*log_)(const char *);
  std::string path_;
};

// y = Relu(x), f32[1, n], with a name.
inline std::string relu_model(std::int64_t n = 8, const char *name = "test") {
  ModelText text(13);
  text.proto.mutable_graph()->set_name(name);
  text.input("x", {1, n});
  text.node("Relu", {"x"}, {"y"})->set_name("the_relu");
  text.output("y", {1, n});
  return text.bytes();
}

inline qr::Options options(qr::Runtime &runtime, Pairs pairs = {}) {
  pairs.insert(pairs.begin(), {{"backend", "htp"}, {"soc_model", "SM8650"}});
  qr::Options made(runtime);
  for (const auto &[key, value] : pairs) made.set(key, value);
  return made;
}

inline qr::Session session(qr::Runtime &runtime, const Pairs &pairs = {}, const std::string &model = relu_model()) {
  const qr::Options given = options(runtime, pairs);
  const qr::Model opened(runtime, model.data(), model.size());
  return qr::Session(opened, &given);
}

// To within the arithmetic of f16, which is not exact even where nothing is computed.
inline bool equals(const float *x, const float *y) {
  return std::equal(x, x + 8, y, [](float a, float b) { return std::abs(a - b) <= std::abs(a) / 1000; });
}

// One run; true: the result is the input.
inline bool run(qr::Session &session, qr::Signal *signal = nullptr, qr::Profile *profile = nullptr) {
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {};
  std::vector<qr::Tensor> in{qr::Tensor::of(x, {1, 8})}, out{qr::Tensor::of(y, {1, 8})};
  session.run(in, out, signal, profile);
  return equals(x, y);
}

}  // namespace quarry::test
