// SPDX-License-Identifier: Apache-2.0
// Kernels against cpu-reference: odd shapes, views, NaN, infinities, saturation. They run on the first usable device;
// meson runs them under Oclgrind too, which watches bounds, races and values nobody wrote.
#pragma once

#include <functional>
#include <optional>

#include "backends/gpu/inspect/doctor.h"
#include "backends/gpu/run/execution.h"
#include "backends/gpu/compile/tune.h"
#include "tests/unit/passes/pieces.h"

namespace quarry::test {

// Null: there is none, which is reported.
std::shared_ptr<const gpu::Engine> engine_under_test();
inline bool has_device() { return engine_under_test() != nullptr; }

// Graphs side by side in one: each by itself would be a program, and PoCL takes longer to begin one than to compile its
// kernels.
class Cases {
 public:
  // What is done to a plan before it is loaded.
  using Change = std::function<void(gpu::Plan &)>;
  explicit Cases(Change change = {}) : change_(std::move(change)) {}
  // As if the device were one that computes this.
  explicit Cases(const gpu::Target &target, Change change = {}) : change_(std::move(change)), target_(target) {}
  ~Cases() { CHECK(graph_.nodes.empty()); }  // somebody forgot run()

  // The graph gives the same on both, to `tolerance` of the largest finite number (integers: exactly). `special`: some
  // numbers are NaN, infinite, zero of either sign, or the ends of the type.
  void same(const Pieces &p, const char *what, bool special = false, double tolerance = 2e-5);
  // What was not run yet.
  void run();

 private:
  using Data = std::vector<std::uint8_t>;
  struct Output {
    std::string what;
    double tolerance;
  };
  std::vector<Data> by_device();

  Change change_;
  std::optional<gpu::Target> target_;
  std::size_t count_ = 0;
  qir::Graph graph_;
  std::unique_ptr<qir::Store> store_ = std::make_unique<qir::Store>();
  std::vector<Data> given_;
  std::vector<Output> outputs_;
};

template <class T>
qir::Attribute attribute(const char *name, T value) {
  return Pieces::attribute(name, value);
}
inline double tolerance_of(DType dtype) { return dtype == DType::F16 ? 2e-3 : dtype == DType::BF16 ? 1.6e-2 : 2e-5; }

}  // namespace quarry::test
