// SPDX-License-Identifier: Apache-2.0
// Drafts given to the library: each node for its opinion, or the whole into a context.
#pragma once

#include <functional>

#include "backends/htp/engine/engine.h"
#include "backends/htp/program/draft.h"
#include "backends/htp/settings/config.h"

namespace quarry::htp {

// What the caller of a compilation gave beside the model.
struct CompileCall {
  const plugin::StopToken &stop;
  bool may_stop;
  const qr_profile_sink *profile;  // may be null
  bool traces;                     // htp.optrace
  std::string_view trace_folder;   // htp.optrace_dir
};

// A context that ends with the scope.
struct ScopedContext {
  const qnn::Api &api;
  qnn::Handle handle = nullptr;
  ~ScopedContext() {
    if (handle) (void)api.contextFree(handle, nullptr);
  }
};

// The draft's tensors and nodes as the library's structs, which point into the draft.
class Writer {
 public:
  Writer(const Engine &engine, Draft &draft);

  // Asks about every node. A node that is refused leaves its reason, the library's own words, at its source in
  // `refused`.
  void validate(Vector<Status> &refused);

  // Makes the graph in the context, and finishes it. `step` is called between the parts of the work and ends it by an
  // error.
  using Step = std::function<Status(std::size_t done, std::size_t total, std::string_view what)>;
  Status add(const qnn::Api &api, qnn::Handle graph, const Step &step);  // the first half, by any library of QNN
  Result<qnn::Handle> write(qnn::Handle context, GraphConfigs &configs, const Step &step, const CompileCall &call);
  // As many as the draft has; after write() with the library's ids.
  const Vector<qnn::Tensor> &tensors() const noexcept { return tensors_; }

 private:
  std::size_t work() const noexcept;  // as `step` counts it
  // As QNN says the encoding of tensor i: what it points at stays here, or in the draft.
  qnn::Quant quant_of(std::size_t i, Encoding &encoding);
  qnn::Op op_of(const DraftNode &node, Vector<qnn::Param> &params, Vector<qnn::Tensor> &inputs,
                Vector<qnn::Tensor> &outputs);

  const Engine &engine_;
  Draft &draft_;
  Vector<qnn::Tensor> tensors_;
  Vector<Vector<qnn::ScaleOffset>> scales_;
  Vector<Vector<std::int32_t>> offsets_;
  Vector<Vector<qnn::FloatScaleOffset>> float_scales_;
  Vector<qnn::BlockExpansion> expansions_;
};

}  // namespace quarry::htp
