// SPDX-License-Identifier: Apache-2.0
// A model's graphs as QIR, wherever they come from: an ONNX model that is lowered now, or a container that kept them.
#pragma once

#include "base/file_sink.h"
#include "graph/edit/graph_part.h"
#include "runtime/model/model.h"

namespace quarry {

struct PortableGraph {
  String name;  // of the bucket
  qr_plugin_bytes qir;
  Vector<qr_plugin_bytes> segments;          // what the constants point into
  Vector<std::uint32_t> container_segments;  // their numbers, where they come from a container

  qr_plugin_graph plugin() const noexcept;  // borrows from this
};

// What a model's inputs and outputs are, over all buckets.
struct Signature {
  Vector<qrm::TensorInfo> inputs, outputs;
};

class PortableGraphs : public Counted<PortableGraphs> {
 public:
  // As other programs read them: `name` is that of the file, whose ending says how (prepare/export.h).
  struct Export {
    std::string_view name;
    FileSink &files;
  };
  // `part`: of each graph; empty: the whole. `to`: they go there too.
  static Result<Ref<PortableGraphs>> make(Ref<const Model> model, const WantedShapes &shapes, const qir::Part &part,
                                          const CallSignal &signal, const Progress &progress,
                                          const Export *to = nullptr);

  explicit PortableGraphs(Ref<const Model> model) : model_(std::move(model)) {}
  const Model &model() const noexcept { return *model_; }
  const Vector<PortableGraph> &graphs() const noexcept { return graphs_; }
  // Its names point into the bytes that this object holds.
  Result<qir::Outline> outline(std::size_t index) const;

 private:
  Status collect(const WantedShapes &shapes, const CallSignal &signal, const Progress &progress);
  Status take(const qir::Part &part, const Export *to);

  Ref<const Model> model_;
  LoweredGraphs lowered_;
  Vector<PortableGraph> graphs_;
};

// Why a container is not compiled for other shapes, or not at all for a backend that takes no ranges.
Status shapes_are_bound(const Model &model, const char *to);

// Dimensions that differ between buckets are unknown; names of symbolic dimensions come from the model.
Signature signature_of(const Model &model, const Vector<qir::Outline> &graphs);

}  // namespace quarry
