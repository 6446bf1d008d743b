// SPDX-License-Identifier: Apache-2.0
// Contexts that a backend has loaded: what sessions run.
#pragma once

#include "runtime/compile/loadable_model.h"

namespace quarry {

// What the shapes of a bucket were compiled to.
struct SessionBucket {
  String name;
  std::uint32_t index;  // of the model's graphs
  std::shared_ptr<loader::Context> context;
  std::uint32_t graph;  // of the context's
  const loader::GraphTensors &tensors() const noexcept { return context->graphs()[graph]; }
};

struct LoadedModel : HeapObject {
  explicit LoadedModel(Ref<LoadableModel> from) : loadable(std::move(from)) {}

  Ref<LoadableModel> loadable;    // the bytes that the contexts were loaded from; freed after them
  Vector<SessionBucket> buckets;  // in the order of the model's graphs; none while nothing of the container runs here
                                  // and it is being compiled again
  qrm::Plan plan;                 // the largest of each figure over all programs
};

// Has the backend load every program; its contexts must take and give what `signature` does.
Result<Unique<LoadedModel>> load_contexts(const CompileJob &job, Ref<LoadableModel> loadable,
                                          const LoadableModel &signature);

// The largest of each figure over all programs.
Result<qrm::Plan> plan_all(const CompileJob &job, const LoadableModel &loadable);

// The option ep.context_enable: keeps what was compiled.
Status keep_context(const CompileJob &job, const LoadableModel &loadable);

// qr_model_compile: a container, or what ONNX Runtime loads where the name ends in ".onnx".
Status compile_to(CompileJob &job, std::string_view name, FileSink &files);
// The same of several networks, for qr_model_compile_networks.
Status compile_networks_to(Vector<Unique<CompileJob>> &jobs, const Vector<String> &names, std::string_view name,
                           FileSink &files);

}  // namespace quarry
