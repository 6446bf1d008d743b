// SPDX-License-Identifier: Apache-2.0
// Contexts that a backend has loaded: what sessions run.
#pragma once

#include "runtime/ready.h"

namespace quarry {

// What the shapes of a bucket were compiled to.
struct SessionBucket {
  String name;
  std::uint32_t index;  // of the model's graphs
  std::shared_ptr<loader::Context> context;
  std::uint32_t graph;  // of the context's
  const loader::GraphTensors &tensors() const noexcept { return context->graphs()[graph]; }
};

struct Loaded : HeapObject {
  explicit Loaded(Ref<ReadyModel> from) : ready(std::move(from)) {}

  Ref<ReadyModel> ready;          // the bytes that the contexts were loaded from; freed after them
  Vector<SessionBucket> buckets;  // in the order of the model's graphs; none while nothing of the container runs here
                                  // and it is being compiled again
  qrm::Plan plan;                 // the largest of each figure over all programs
};

// Has the backend load every program; its contexts must take and give what `signature` does.
Result<Unique<Loaded>> load_contexts(const Compilation &compilation, Ref<ReadyModel> ready,
                                     const ReadyModel &signature);

// The largest of each figure over all programs.
Result<qrm::Plan> plan_all(const Compilation &compilation, const ReadyModel &ready);

// The option ep.context_enable: keeps what was compiled.
Status keep_context(const Compilation &compilation, const ReadyModel &ready);

}  // namespace quarry
