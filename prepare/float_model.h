// SPDX-License-Identifier: Apache-2.0
// The float model as it is quantised: imported with its shapes bound, and prepared for NPUs. What libquarry-quantize
// has of libquarry-prepare beside the table of prepare_api.h: C++ crosses here, so both are of one build.
#pragma once

#include <string>

#include "base/file_sink.h"
#include "base/open_fd.h"
#include "base/stop.h"
#include "graph/external_source.h"
#include "graph/graph.h"
#include "graph/store.h"
#include "quarry/backend.h"
#include "quarry/version.h"

namespace quarry::prepare {

// Something that was done to the model before or beside its quantisation.
struct Change {
  String what;   // "BatchNormalization folded", "equalised", "raised to 16 bits", "left in float"
  String where;  // a node or tensor, with its name
  String detail;
};

class FloatModel : public HeapObject {
 public:
  virtual ~FloatModel() = default;

  // Imports the graph with `shape` (docs: option "shape") and prepares it: constants folded, BatchNormalization folded,
  // composite operators put together, exporters' forms rewritten. What was done goes to `changes`. A model that is
  // quantised already, or has nothing in f32, is refused. `channels_last`: inputs and outputs that get their channels
  // last.
  virtual Status prepare(std::string_view shape, const Vector<String> &channels_last, Vector<Change> *changes) = 0;
  // Of the file and of the constants as they are now: of two models that differ it differs.
  virtual std::uint64_t sum() const = 0;

  qir::Graph graph;
  qir::Store store;
  std::uint64_t file_bytes = 0;
};

inline constexpr std::uint32_t kRelease = QR_VERSION_MAJOR << 20 | QR_VERSION_MINOR << 10 | QR_VERSION_PATCH;

// Memory is malloc's: no allocator scope crosses.
struct QuantizeServices {
  std::uint32_t release;  // kRelease of the build
  // Parses an .onnx, which stays as long as the model, and checks what it declares; shapes are bound later. External
  // data lie in `folder` or come from `external`, which is not asked later.
  Result<Unique<FloatModel>> (*open_model)(qir::Bytes bytes, OpenFd folder, qir::ExternalSource *external);
  // A graph as an ONNX model: files (export.h), or its bytes (formats/onnx/export.h).
  Status (*write_model)(const qir::Graph &graph, std::string_view name, FileSink &files);
  Result<std::string> (*model_bytes)(const qir::Graph &graph);
  // Calls body(context), in which this library asks `source` whether to go on.
  void (*with_stop)(const StopSource &source, void (*body)(void *context), void *context);
};

}  // namespace quarry::prepare

extern "C" QR_PLUGIN_EXPORT const quarry::prepare::QuantizeServices *qr_prepare_for_quantize(void);
