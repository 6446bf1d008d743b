// SPDX-License-Identifier: Apache-2.0
// GraphProto -> qir::Graph in the normal form, for bound input shapes.
#pragma once

#include "formats/onnx/builder.h"
#include "formats/onnx/model.h"
#include "formats/onnx/reasons.h"

namespace quarry::onnx_import {

// Called between nodes; a failure ends the import (abort, deadline).
class Watcher {
 public:
  virtual Status node_done(std::uint64_t done, std::uint64_t total) = 0;

 protected:
  ~Watcher() = default;
};

// What an input of the model is bound to.
struct InputBinding {
  qir::Shape shape;          // kUnknownDim: each run gives it
  Vector<double> values;     // not empty: the input is this constant; one value for each element
  std::size_t replaces = 0;  // of one behind the model's inputs: which of its defaults
};

// Imports the model's graph. `bindings`: one per model.inputs(), and behind them those of defaults that are replaced.
// Constants point into the model or into `store`; both must outlive the graph. A failure carries every reason.
Result<qir::Graph> import_graph(Model &model, const Vector<InputBinding> &bindings, Store &store, Folder *folder,
                                Watcher *watcher);

}  // namespace quarry::onnx_import
