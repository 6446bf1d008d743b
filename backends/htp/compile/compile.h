// SPDX-License-Identifier: Apache-2.0
// Models to context binaries: passes, lowering, the library's validation, finalisation.
#pragma once

#include "backends/htp/compile/writer.h"
#include "backends/htp/lower/batches.h"
#include "backends/htp/lower/pairs.h"
#include "backends/htp/program/blob.h"
#include "backends/htp/program/io_binding.h"
#include "backends/htp/settings/config.h"
#include "passes/fuse/compose.h"

namespace quarry::htp {

// A graph made ready for the library, and what became of each node that was given.
class Prepared {
 public:
  // `graph` is changed by passes.
  static Result<Unique<Prepared>> make(qir::Graph graph, const CompileOptions &options);
  explicit Prepared(qir::Graph given) : graph_(std::move(given)) {}  // by make() alone

  Draft &draft() noexcept { return draft_; }
  // One entry per node that was given: why it is refused, or ok.
  Vector<Status> &refused() noexcept { return refused_; }
  // The model's names of them.
  const Vector<String> &source_names() const noexcept { return names_; }
  // One entry per node: by what it runs.
  Vector<BlobNode> nodes() const;
  // What the host runs behind the draft; no bytes of QIR: nothing. The graph's own inputs and outputs are then these.
  BlobRegion &region() noexcept { return region_; }
  const Batches &batches() const noexcept { return batches_; }
  bool has_region() const noexcept { return !region_.qir.empty(); }
  const Vector<BlobTensor> &whole_inputs() const noexcept { return whole_inputs_; }
  const Vector<BlobTensor> &whole_outputs() const noexcept { return whole_outputs_; }

 private:
  Status take_region();
  void number_nodes();
  void take_types(const CompileOptions &options);
  void find_saturating();
  void give_borders();
  qir::Graph graph_;
  qir::Store store_;
  Draft draft_;
  Vector<Status> refused_;
  Vector<String> names_;    // of the nodes that were given
  Vector<bool> narrow_;     // which of them compute with 64-bit integers, which have 32 bits on the device
  Vector<bool> saturates_;  // per output of the graph that the library gets
  Vector<passes::Composed> composed_;
  Batches batches_;
  HostReals reals_;
  HostIntegers integers_;
  HostBorders host_;
  BlobRegion region_;
  Vector<bool> in_region_;  // per node that was given
  Vector<BlobTensor> whole_inputs_, whole_outputs_;
};

struct CompiledContext {
  Vector<std::uint8_t> binary;
  std::uint64_t spill_bytes = 0, io_bytes = 0;  // of the graph that needs most
  Blob blob;
};

// All graphs into one context. The first refusal ends it.
Result<CompiledContext> compile(const std::shared_ptr<const qnn::Library> &library, Vector<qir::Graph> graphs,
                                const CompileOptions &options, const Writer::Step &step, const CompileCall &call);

}  // namespace quarry::htp
