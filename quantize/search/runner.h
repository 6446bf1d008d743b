// SPDX-License-Identifier: Apache-2.0
// A graph as a session on a backend, through the public C ABI.
#pragma once

#include <quarry/quarry.hpp>

#include <span>
#include <string>

#include "graph/edit/graph_edit.h"

namespace quarry::quantize {

// side::from_library, once in this library: it is called in many places.
Status from_library(const qr::Status &status);

inline void tell(const qr_progress *progress, std::uint64_t done, std::uint64_t total, std::string_view what) {
  if (progress && progress->report) progress->report(progress->self, done, total, {what.data(), what.size()});
}

// A tensor of f32.
inline std::span<const float> floats(const qr::Tensor &tensor) {
  return {static_cast<const float *>(tensor.bytes()), static_cast<std::size_t>(tensor.size_bytes / sizeof(float))};
}

class Runner : public HeapObject {
 public:
  // `outputs`: tensors of the graph, each made by a node.
  static Result<Unique<Runner>> make(qr_runtime *runtime, const qir::Graph &graph, const Vector<std::int32_t> &outputs,
                                     unsigned threads, qr_signal *signal, std::string_view backend = "cpu");
  // Inputs in the order of the graph; results live until the next run.
  Status run(const std::vector<qr::Tensor> &inputs, qr_signal *signal);
  const std::vector<qr::Tensor> &results() const noexcept { return results_; }

 private:
  std::string bytes_;  // the model borrows them
  qr::Options options_;
  qr::Model model_;
  qr::Session session_;
  std::vector<qr::Tensor> results_;
};

}  // namespace quarry::quantize
