// SPDX-License-Identifier: Apache-2.0
// Graphs of one context that share their weights, held against each of them alone: the emulator loads no such binary,
// so what was prepared is run before it is written.
#pragma once

#include "backends/htp/compile/writer.h"

namespace quarry::htp {

struct FreshGraph {
  qnn::Handle handle;
  Draft *draft;
  const Writer *writer;  // knows the ids of its tensors
};

// Runs each graph once, in the context and in one of its own, and compares the bytes. The size of the binaries that the
// graphs have alone, together.
Result<std::uint64_t> check_shared_graphs(const Engine &engine, const Vector<FreshGraph> &graphs,
                                          const CompileOptions &options, const Writer::Step &step,
                                          const CompileCall &call);

}  // namespace quarry::htp
