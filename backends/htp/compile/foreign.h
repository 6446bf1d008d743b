// SPDX-License-Identifier: Apache-2.0
// Contexts of others: graphs of EPContext nodes, whose binaries another runtime made. There is no model to compile: a
// binary is taken as it is, on the caller's word (htp.foreign_context), held against its own metadata, and has a hash
// from then on.
#pragma once

#include "backends/htp/compile/compile.h"

namespace quarry::htp {

bool has_foreign_context(const qir::Graph &graph) noexcept;

struct ForeignContexts {
  Blob blob;
  Vector<std::span<const std::uint8_t>> binaries;  // a segment each; they lie where the graphs' constants do
  std::uint64_t spill_bytes = 0;                   // of the graph that needs most
  String notice;                                   // why it is not the best here
};
// All graphs of a model. `failed`: the node (of the graph that it is in) that an error is about.
Result<ForeignContexts> take_foreign_contexts(const qnn::Library &library, Vector<qir::Graph> &graphs,
                                              const Settings &settings, std::size_t *failed);

}  // namespace quarry::htp
