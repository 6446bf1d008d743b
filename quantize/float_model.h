// SPDX-License-Identifier: Apache-2.0
// The float model as it is quantised: imported with its shapes bound, and prepared for NPUs.
#pragma once

#include "formats/onnx/importer.h"
#include "formats/qir/store.h"
#include "quantize/report.h"

namespace quarry::quantize {

class FloatModel : public HeapObject {
 public:
  // Reads the file and checks what it declares; shapes are bound later.
  static Result<Unique<FloatModel>> open(std::string_view path);

  // Imports the graph with `shape` (docs: option "shape") and prepares it: constants folded, BatchNormalization folded,
  // composite operators put together, spellings rewritten. What was done goes to `changes`. A model that is quantised
  // already, or has nothing in f32, is refused. `channels_last`: inputs and outputs that get their channels last.
  Status prepare(std::string_view shape, const Vector<String> &channels_last, Vector<Change> *changes);

  const onnx_import::Model &declared() const noexcept { return *model_; }
  // Of the file and of the constants as they are now: of two models that differ it differs.
  std::uint64_t sum() const;
  qir::Graph graph;
  qir::Store store;
  std::uint64_t file_bytes = 0;

 private:
  Vector<std::uint8_t> bytes_;
  Unique<onnx_import::Model> model_;
};

}  // namespace quarry::quantize
